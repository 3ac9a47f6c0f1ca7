"""Which channels are internal."""

import keras
import pytest
from keras import layers

from keras_xd.graph import channel_units, cloning


def found(model, able=lambda layer: True):
    """`(producers, members, consumers)` of each group, by names."""
    _, counts = cloning.traces(model)
    groups = channel_units.internal_channels(model, able, lambda layer: counts[id(layer)] > 1)
    return [
        tuple([layer.name for layer in part] for part in (g.producers, g.members, g.consumers))
        for g in groups
    ]


def between(function, shape=(8, 8, 3), data_format="channels_last"):
    """A model of two convolutions with something between them."""
    inputs = keras.Input(shape)
    x = layers.Conv2D(4, 3, data_format=data_format, name="first")(inputs)
    x = function(x)
    kind = layers.Dense(2, name="second") if len(x.shape) == 2 else None
    second = kind or layers.Conv2D(2, 1, data_format=data_format, name="second")
    return keras.Model(inputs, second(x))


def test_depthwise_convolutions_are_members():
    model = between(layers.DepthwiseConv2D(3, activation="relu", name="depthwise"))
    assert found(model) == [(["first"], ["depthwise"], ["second"])]
    assert found(model, lambda layer: layer.name != "depthwise") == []
    assert found(model, lambda layer: layer.name != "second") == []


def test_channels_first():
    def function(x):
        x = layers.BatchNormalization(axis=1)(x)
        return layers.GlobalAveragePooling2D(data_format="channels_first")(x)

    model = between(function, (3, 8, 8), "channels_first")
    assert found(model) == [(["first"], [], ["second"])]


def test_squeeze_and_excitation():
    def function(x):
        y = layers.GlobalAveragePooling2D(keepdims=True)(x)
        y = layers.Conv2D(2, 1, activation="relu", name="squeeze")(y)
        y = layers.Conv2D(4, 1, activation="sigmoid", name="excite")(y)
        return layers.Multiply()([x, y])

    assert found(between(function)) == [
        (["first", "excite"], [], ["squeeze", "second"]),
        (["squeeze"], [], ["excite"]),
    ]


def test_what_is_seen_outside_or_shared_is_held():
    inputs = keras.Input((8, 8, 3))
    x = layers.Conv2D(4, 3, name="first")(inputs)
    shared = layers.Conv2D(4, 1, name="shared")
    y = layers.Conv2D(2, 1, name="second")(shared(shared(x)))
    assert found(keras.Model(inputs, [x, y])) == found(keras.Model(inputs, y)) == []
    softmax = layers.Conv2D(4, 3, activation="softmax", name="softmax")(inputs)
    grouped = layers.Conv2D(4, 3, groups=2)(layers.Conv2D(4, 3)(inputs))
    for tensor in (softmax, grouped):
        assert found(keras.Model(inputs, layers.Conv2D(2, 1)(tensor))) == []


@pytest.mark.parametrize("add", [layers.Add(), lambda pair: pair[0] + pair[1]])
def test_sums_hold_their_channels(add):
    assert found(between(lambda x: add([x, layers.Conv2D(4, 1)(x)]))) == []


@pytest.mark.parametrize("shared", [layers.BatchNormalization(), layers.DepthwiseConv2D(3)])
def test_what_is_called_twice_between_holds_the_channels_of_both(shared):
    inputs = keras.Input((8, 8, 3))
    ends = []
    for name in "ab":
        x = shared(layers.Conv2D(4, 3, name=f"{name}1")(inputs))
        ends.append(layers.Conv2D(2, 1, name=f"{name}2")(x))
    assert found(keras.Model(inputs, ends)) == []
    assert len(found(keras.Model(inputs, ends[0]))) == 1
