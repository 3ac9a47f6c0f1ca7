"""A `SearchModel` answers as the model in it does."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd_tests.core.compile_config_test import backbone


class Block(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.convolution = keras.layers.Conv1D(2, 3, name="conv")

    def call(self, inputs):
        return self.convolution(inputs)


def subclassed():
    model = Block()
    model(np.zeros((1, 9, 1), "float32"))
    return model


def summary_of(search):
    lines = []
    search.summary(print_fn=lambda line, **_: lines.append(line))
    return "\n".join(lines)


def test_layers_and_shapes_are_those_of_the_model_inside():
    space = keras_xd.rewrite(backbone())
    search = keras_xd.SearchModel(space)
    assert search.get_layer("conv") is space.get_layer("conv")
    assert search.get_layer(index=0) is space.layers[0]
    assert search.get_layer(space.name) is space
    assert search.inputs == space.inputs and search.outputs == space.outputs
    assert (search.input_shape, search.output_shape) == ((None, 9, 1), (None, 2))
    with pytest.raises(ValueError, match="No such layer: nothing"):
        search.get_layer("nothing")


@pytest.mark.parametrize("make", [backbone, subclassed])
def test_summary_shows_layers_and_the_split(make):
    space = keras_xd.rewrite(make())
    search = keras_xd.SearchModel(space)
    architecture = sum(np.prod(v.shape) for v in keras_xd.architecture_variables(space))
    weights = space.count_params() - architecture
    text = summary_of(search)
    assert "conv (XDConv1D)" in text
    assert f"Weights: {weights:,} parameters, {weights:,} trainable" in text
    assert f"Architecture: {architecture:,} parameters, {architecture:,} trainable" in text
    keras_xd.freeze_architecture(search)
    assert f"Architecture: {architecture:,} parameters, 0 trainable" in summary_of(search)
