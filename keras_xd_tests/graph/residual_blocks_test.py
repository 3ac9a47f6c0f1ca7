"""Which additions are residual blocks, and what belongs to their branches."""

import keras
from keras import layers, ops

from keras_xd.graph.residual_blocks import find_blocks


def found(model, able=lambda layer: True):
    """`(place, names of the branch's layers)` of each block."""
    return [(b.place, [x.name for x in b.layers]) for b in find_blocks(model, able)]


def convolution(name, filters=4, **options):
    return layers.Conv2D(filters, 3, padding="same", name=name, **options)


def test_identity_skips_by_layer_and_operator():
    inputs = keras.Input((8, 8, 4))
    branch = layers.ReLU(name="relu")(convolution("one")(inputs))
    x = layers.Add()([branch, inputs])
    x = x + layers.BatchNormalization(name="norm")(convolution("two")(x))
    x = ops.add(convolution("three")(x), x)
    blocks = find_blocks(keras.Model(inputs, x), lambda layer: True)
    assert [(b.place, [x.name for x in b.layers]) for b in blocks] == [
        (0, ["one", "relu"]),
        (1, ["two", "norm"]),
        (0, ["three"]),
    ]
    assert {block.spatial for block in blocks} == {(8, 8)}


def test_projections():
    inputs = keras.Input((8, 8, 4))
    branch = convolution("b", 6)(convolution("a", 6, strides=2)(inputs))
    projection = layers.Conv2D(6, 1, 2, name="projection")(inputs)
    add = layers.Add()
    assert found(keras.Model(inputs, add([projection, branch]))) == [(1, ["a", "b"])]
    pooled = ops.pad(layers.AveragePooling2D(2)(inputs), [(0, 0)] * 3 + [(1, 1)])
    assert found(keras.Model(inputs, layers.Add()([branch, pooled]))) == [(0, ["a", "b"])]
    equal = layers.Conv2D(6, 1, 2)(inputs), layers.Conv2D(6, 1, 2)(inputs)
    assert found(keras.Model(inputs, layers.Add()(list(equal)))) == []


def test_what_is_no_block():
    inputs, other = keras.Input((8, 8, 4)), keras.Input((8, 8, 4))
    towers = layers.Add()([convolution("a")(inputs), other])
    assert found(keras.Model([inputs, other], towers)) == []
    assert found(keras.Model(inputs, layers.Add()([inputs, layers.ReLU()(inputs)]))) == []
    assert found(keras.Model(inputs, inputs + inputs)) == []
    narrow = layers.Add()([inputs, convolution("narrow", 1)(inputs)])
    assert narrow.shape[-1] == 4
    assert found(keras.Model(inputs, narrow)) == []


def test_inner_blocks_and_what_is_used_elsewhere():
    inputs = keras.Input((8, 8, 4))
    x = convolution("first")(inputs)
    x = x + convolution("inner")(x)
    outer = keras.Model(inputs, inputs + convolution("last")(x))
    assert found(outer) == [(1, ["inner"])]
    shared = convolution("shared")
    x = shared(inputs)
    y = layers.Add()([inputs, convolution("own")(x)])
    both = keras.Model(inputs, layers.Concatenate()([y, x]))
    assert found(both) == [(1, ["own"])]
    x = inputs + shared(convolution("a")(inputs))
    x = x + shared(convolution("b")(x))
    assert found(keras.Model(inputs, x)) == [(1, ["a"]), (1, ["b"])]


def test_two_branches_of_several_layers_are_none():
    inputs = keras.Input((8, 8, 4))
    short, long = inputs, inputs
    for number in range(3):
        long = convolution(f"long{number}")(long)
        short = convolution(f"short{number}")(short) if number < 2 else short
    assert found(keras.Model(inputs, layers.Add()([short, long]))) == []
