"""Which convolutions can be rewritten, and the reasons why others cannot."""

import keras
import numpy as np
import pytest
from keras import layers

from keras_xd.rewriting.candidates import check_graph
from keras_xd.rewriting.spaces import XD


class OwnConvolution(layers.Conv2D):
    """A subclass, which may compute anything."""


def reason_of(layer, shape=(8, 8, 2)):
    inputs = keras.Input(shape)
    (candidate,) = XD.candidates(keras.Model(inputs, layer(inputs)))
    return candidate.reason


@pytest.mark.parametrize(
    ("layer", "shape", "reason"),
    [
        (layers.Conv2D(2, 3), (8, 8, 2), None),
        (layers.Conv2D(2, 3), (None, 8, 2), "its spatial size is unknown, (None, None, 8, 2)"),
        (layers.Conv2D(2, 3, data_format="channels_first"), (2, 8, 8), None),
        (OwnConvolution(2, 3), (8, 8, 2), "OwnConvolution is a subclass of Conv2D"),
        (layers.DepthwiseConv2D(3), (8, 8, 2), None),
        (layers.SeparableConv1D(2, 3), (8, 2), None),
        (layers.Conv3DTranspose(2, 3), (4, 4, 4, 2), None),
        (layers.AveragePooling1D(2), (8, 2), None),
        (layers.MaxPooling1D(2), (8, 2), "no linear operation can start as a maximum"),
        (
            layers.TimeDistributed(layers.Conv1D(2, 3), name="steps"),
            (4, 8, 2),
            None,
        ),
        (layers.Conv2D(2, 3, activation=layers.ReLU()), (8, 8, 2), None),
        (
            layers.Conv2D(2, 3, activation=layers.PReLU()),
            (8, 8, 2),
            "its activation is a layer with weights",
        ),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_reasons(layer, shape, reason):
    assert reason_of(layer, shape) == reason


def test_shapes_in_nested_models_are_those_of_the_calls():
    inside = keras.Input((None, 2))
    block = keras.Model(inside, layers.Conv1D(2, 3, name="conv")(inside), name="block")
    inputs = keras.Input((8, 2))
    found = XD.candidates(keras.Model(inputs, block(inputs)))
    assert [(c.path, c.shape, c.reason) for c in found] == [("block/conv", (None, 8, 2), None)]


def test_models_without_a_graph_are_refused():
    class Subclassed(keras.Model):
        def call(self, x):
            return x

    model = Subclassed(name="own")
    model(np.ones((1, 2)))
    with pytest.raises(ValueError, match="Make it Functional.*'own' of class Subclassed"):
        check_graph(model)
    with pytest.raises(ValueError, match="must be built.*'open'"):
        check_graph(keras.Sequential([layers.Conv1D(2, 3)], name="open"))
