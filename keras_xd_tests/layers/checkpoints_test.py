"""TensorFlow's checkpoints of models with layers that hold layers and share parts.

Each layer by itself is checked in `keras_xd.testing`.
"""

import functools

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import layers
from keras_xd.layers.cells.architecture_logits import ArchitectureLogits
from keras_xd.testing import check_checkpoint

OPERATIONS = ("identity", "dynamic_3", "separable_3", "max_pooling_3", "channel_attention")


def of_cells():
    """Operations of all edges in one variable, and a layer of each, those that are the fewest."""
    x = inputs = keras.Input((4, 4, 3))
    for operations, edge_layers in ((OPERATIONS, False), (OPERATIONS[::3], True)):
        architecture = ArchitectureLogits(operations=operations)
        options = {"partial_channels": 2, "edge_layers": edge_layers}
        x = layers.HeterogeneousCell(2, architecture, **options)([inputs, x])
    return keras.Model(inputs, x)


def of_blocks():
    """Blocks that share a kernel network and a mask of the depth."""
    return keras_xd.models.ccnn(
        blocks=2, channels=4, input_shape=(16, 2), classes=3, learn="KRWD", seed=1
    )


def of_one_operation():
    operation = layers.KOperation()
    inputs = x = keras.Input((8, 2))
    for _ in range(2):
        x = layers.KOpConv1D(2, 3, padding="circular", operation=operation)(x)
    return keras.Model(inputs, x)


def of_masks():
    backbone = keras.Sequential(
        [keras.Input((6, 6, 1)), keras.layers.Conv2D(4, 3), keras.layers.Conv2D(2, 3)]
    )
    return keras_xd.rewrite(backbone, to="masked")


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class TwoConvolutions(keras.Model):
    """A model with its layers in attributes."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.first, self.second = keras.layers.Conv1D(2, 3), keras.layers.Conv1D(3, 3)

    def call(self, inputs):
        return self.second(self.first(inputs))


def of_a_subclass():
    model = TwoConvolutions()
    model(np.zeros((1, 9, 1), "float32"))
    return keras_xd.rewrite(model)


made = functools.cache(lambda make: make())  # no test changes a model


@pytest.mark.parametrize("finalized", [False, True])
@pytest.mark.parametrize("make", [of_cells, of_blocks, of_one_operation, of_masks, of_a_subclass])
def test_checkpoints_have_all_weights(make, finalized, tmp_path):
    model = made(make)
    model = keras_xd.finalize(model) if finalized else keras_xd.SearchModel(model)
    model.save(tmp_path / "model.keras")
    check_checkpoint(model, keras.saving.load_model(tmp_path / "model.keras"))
