"""Where layers keep layers."""

import collections

import keras
import pytest
from keras import layers

from keras_xd.graph import sublayer_paths

Pair = collections.namedtuple("Pair", ["left", "right"])


class Holder(keras.Model):
    def __init__(self):
        super().__init__()
        self.a, self.b = layers.ReLU(name="a"), layers.ReLU(name="b")
        self.again = [self.a, {"key": (self.b, layers.ReLU(name="c"))}]
        self.pair = Pair(self.a, layers.ReLU(name="d"))
        self._hidden = layers.ReLU(name="e")
        self.number, self.text = 3, "text"


def test_every_layer_has_one_place():
    holder = Holder()
    found = [
        (place, layer.name) for place, layer in sublayer_paths.walk(holder, lambda layer: True)
    ]
    assert found == [
        ((("a",),), "a"),
        ((("b",),), "b"),
        ((("again", 1, "key", 1),), "c"),
        ((("pair", 1),), "d"),
        ((("_hidden",),), "e"),
    ]
    for place, name in found:
        assert sublayer_paths.layer_at(holder, place).name == name


@pytest.mark.parametrize(
    "place", [(("missing",),), (("again", 5),), (("number",),), (("a", 0),), (("text", 0),)]
)
def test_places_that_are_none(place):
    assert sublayer_paths.layer_at(Holder(), place) is None


def test_exchanged_everywhere_in_the_same_order():
    holder = Holder()
    new_a, new_c = layers.ReLU(name="new_a"), layers.ReLU(name="new_c")
    sublayer_paths.put(holder, [((("a",),), new_a), ((("again", 1, "key", 1),), new_c)])
    assert holder.a is holder.again[0] is holder.pair.left is new_a
    assert holder.again[1]["key"] == (holder.b, new_c)
    assert isinstance(holder.pair, Pair)
    assert [layer.name for layer in holder.layers] == ["new_a", "b", "new_c", "d", "e"]


def test_containers_that_hold_themselves():
    layer = layers.Layer()
    layer.loop = [layers.ReLU(name="inside")]
    layer.loop.append(layer.loop)
    assert [inner.name for _, inner in sublayer_paths.layers_inside(layer)] == ["inside"]


def test_graphs_are_not_looked_into():
    inputs = keras.Input((2,))
    assert sublayer_paths.layers_inside(keras.Model(inputs, layers.ReLU()(inputs))) == []
    assert sublayer_paths.layers_inside(keras.Sequential([layers.ReLU()])) == []
