import keras
import numpy as np
import pytest
from keras import layers

from keras_xd.graph import late_sublayers, sublayer_paths
from keras_xd.graph.wrapped_model import Rewritten

QUERY = (("_query_dense",),)


class Block(layers.Layer):
    """Has one layer from its constructor on, one from `build` on, and attention in the latter."""

    def __init__(self, units=3, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.first = layers.Dense(units, name="first")

    def build(self, input_shape):
        self.late = [layers.MultiHeadAttention(1, 2, name="attention"), layers.Dense(2)]

    def call(self, inputs):
        x = self.first(inputs)
        return self.late[1](self.late[0](x, x))

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def test_late_and_early_places_get_layers():
    early, late = layers.Dense(5), layers.Dense(4)
    inner = layers.EinsumDense("abc,cde->abde", (None, 1, 2))
    places = [
        ((("first",),), early),
        ((("late", 1),), late),
        ((("late", 0), *QUERY), inner),
    ]
    block = Block(name="block")
    found = late_sublayers.with_layers(block, places)
    assert isinstance(found, Block) and type(found).__name__ == "Block" and found.name == "block"
    assert found(np.ones((2, 6, 7), "float32")).shape == (2, 6, 4)
    assert found.first is early and found.late[1] is late
    assert found.late[0].query_dense is inner
    variables = {id(v) for v in found.variables}
    assert {id(v) for layer in (early, late, inner) for v in layer.variables} <= variables
    assert len(variables) == len(early.variables) + len(late.variables) + 1 + 6
    assert found.get_build_config() == {"input_shape": (2, 6, 7)}


def test_layers_without_late_places_are_changed_themselves():
    block, early = Block(), layers.Dense(5)
    assert late_sublayers.with_layers(block, [((("first",),), early)]) is block
    assert sublayer_paths.layer_at(block, (("first",),)) is early


def test_a_place_that_build_does_not_make():
    block = Rewritten(Block(), [((("missing",),), layers.ReLU())])
    with pytest.raises(
        ValueError, match=r"Received: Block 'block.*' without a layer at \('missing"
    ):
        block(keras.Input((6, 7)))


def test_layers_that_their_constructor_builds():
    class Early(Block):
        def __init__(self, shape=None, **kwargs):
            super().__init__(**kwargs)
            self.shape = shape
            if shape is not None:
                self.build(shape)

        def get_config(self):
            return {**super().get_config(), "shape": (2, 6, 7)}

    block = Early(shape=(2, 6, 7))
    place = (("late", 1),)
    assert block.built and late_sublayers.is_late(block, place)
    assert not late_sublayers.is_late(Block(), (("first",),))
    late = layers.Dense(4)
    found = late_sublayers.with_layers(block, [(place, late)])
    assert found(np.ones((2, 6, 7), "float32")).shape == (2, 6, 4) and found.late[1] is late
