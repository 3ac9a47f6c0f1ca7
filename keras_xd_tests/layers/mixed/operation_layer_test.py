"""What `OperationLayer` does around the operations of its subclasses."""

import numpy as np
import pytest
from keras import ops

from keras_xd import layers
from keras_xd.core.convolutions import ConvolutionOfAnyRank
from keras_xd.layers.mixed.operation_layer import OperationLayer


class Doubled(OperationLayer, ConvolutionOfAnyRank):
    """Twice the inputs."""

    def __init__(self, rank, *args, **kwargs):
        self.rank = rank
        super().__init__(*args, **kwargs)

    def build_operations(self, input_shape):
        self.built_for = input_shape

    def operate(self, x):
        return 2 * x


def test_bias_and_activation_are_added_around(rng):
    layer = Doubled(1, 3, 1, activation="relu", bias_initializer="ones")
    x = rng.normal(size=(2, 5, 3)).astype("float32")
    np.testing.assert_allclose(layer(x), np.maximum(2 * x + 1, 0), rtol=1e-6)
    assert layer.built_for == (2, 5, 3)


def test_channels_first(rng):
    layer = Doubled(2, 3, 1, data_format="channels_first", use_bias=False)
    x = rng.normal(size=(2, 3, 5, 4)).astype("float32")
    np.testing.assert_allclose(layer(x), 2 * x, rtol=1e-6)
    assert layer.compute_output_shape((None, 3, 5, 4)) == (None, 3, 5, 4)


def test_another_function_may_take_the_place_of_the_operation(rng):
    layer = Doubled(1, 3, 1, use_bias=False)
    x = rng.normal(size=(2, 5, 3)).astype("float32")
    layer.build(x.shape)
    np.testing.assert_allclose(layer.surrounded(x, ops.negative), -x)


def test_ranks():
    with pytest.raises(ValueError, match="Received: rank=3"):
        layers.MixedOperation(3, 1)
