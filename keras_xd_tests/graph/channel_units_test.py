"""Cutting channels of graphs: the same outputs as with zeros where layers read them."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import keras_xd
from keras_xd.graph.channel_units import ChannelUnits


def residual(width=4):
    """Shortcuts that subsample and pad, and blocks of two convolutions."""
    x = inputs = keras.Input((8, 8, 3))
    x = layers.Conv2D(width, 3, padding="same", activation="relu", name="stem")(x)
    for filters, strides, name in ((width, 1, "a"), (2 * width, 2, "b")):
        skip = layers.AveragePooling2D(1, strides)(x)
        extra = filters - x.shape[-1]
        skip = ops.pad(skip, [(0, 0), (0, 0), (0, 0), (extra // 2, extra - extra // 2)])
        y = layers.Conv2D(3 * width // 2, 3, strides, padding="same", name=f"{name}_inner")(x)
        y = layers.ReLU()(layers.BatchNormalization()(y))
        y = layers.Conv2D(filters, 3, padding="same", use_bias=False, name=f"{name}_outer")(y)
        x = layers.ReLU()(layers.Add(name=name)([layers.BatchNormalization()(y), skip]))
    x = layers.Dense(2, name="head")(layers.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, x)


def many_kinds():
    """Depthwise, separable and transposed convolutions, attention by channels, concatenation."""
    x = inputs = keras.Input((6, 6, 3))
    x = layers.SeparableConv2D(4, 3, padding="same", depth_multiplier=2)(x)
    y = layers.DepthwiseConv2D(3, padding="same", depth_multiplier=2)(x)
    z = layers.Reshape((1, 1, 8))(layers.GlobalAveragePooling2D()(y))
    z = layers.Conv2D(8, 1, activation="sigmoid")(layers.Conv2D(3, 1, activation="silu")(z))
    y = layers.Dropout(0.1, noise_shape=(None, 1, 1, 1))(y * z * 2.0)
    x = layers.Concatenate()([layers.Conv2DTranspose(5, 3, padding="same")(y), x])
    x = layers.Flatten()(layers.SeparableConv2D(3, 3)(layers.LayerNormalization()(x)))
    return keras.Model(inputs, layers.Dense(2)(layers.Dense(6, "tanh")(x)))


def nested_and_shared():
    """A model in a model, and a layer that is called twice."""
    inside = keras.Sequential([keras.Input((8, 5)), layers.Conv1D(6, 3, padding="same")])
    twice = layers.Conv1D(6, 3, padding="same", activation="relu", name="twice")
    x = inputs = keras.Input((8,), dtype="int32")
    x = twice(twice(inside(layers.Embedding(9, 5)(x))))
    x = layers.Conv1D(4, 1)(layers.Permute((1, 2))(x))
    return keras.Model(inputs, layers.Dense(2)(layers.GlobalMaxPooling1D()(x)))


def channels_first():
    x = inputs = keras.Input((3, 6))
    # Without a bias, which Keras on TensorFlow adds along the wrong axis here.
    x = layers.Conv1D(4, 3, data_format="channels_first", use_bias=False)(x)
    x = layers.BatchNormalization(axis=1)(x)
    x = layers.Conv1D(5, 3, data_format="channels_first", use_bias=False)(x)
    x = layers.GlobalAveragePooling1D(data_format="channels_first")(x)
    return keras.Model(inputs, layers.Dense(2)(x))


class Places(layers.Layer):
    """Adds a learned vector for each place: a layer that only a trial tells about."""

    def build(self, input_shape):
        self.table = self.add_weight(name="table", shape=input_shape[1:])

    def call(self, inputs):
        return inputs + self.table


class Tokens(layers.Layer):
    """The vectors of tokens and of their places, which are constants."""

    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.width, self.tokens = width, layers.Embedding(9, width)
        self.places = layers.Embedding(6, width, name="places")

    def build(self, input_shape):
        self.tokens.build(input_shape)
        self.places.build((6,))

    def call(self, inputs):
        return self.tokens(inputs) + self.places(ops.arange(6))

    def get_config(self):
        return {**super().get_config(), "width": self.width}


def attention():
    """Heads of attention to itself, of groups of queries, and of two widths; one place of many."""
    inputs = keras.Input((6,), dtype="int32")
    x = Places()(layers.Embedding(9, 8)(inputs)) + Tokens(8)(inputs)
    memory = layers.Dense(6)(x)
    x = x + layers.MultiHeadAttention(4, 3, 2, name="own")(x, x, use_causal_mask=True)
    x = x + layers.GroupQueryAttention(3, 4, 2, name="groups")(x, x)
    x = layers.MultiHeadAttention(2, 3, output_shape=4, use_bias=False)(x, memory, key=x)
    x = layers.RMSNormalization()(layers.LayerNormalization()(x))
    return keras.Model(inputs, layers.Dense(2)(x[:, 0]))


def randomized(model):
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if "seed" not in weight.path:
            weight.assign(rng.uniform(0.5, 1.0, weight.shape) * rng.choice([-1, 1], weight.shape))
            if "variance" in weight.path:
                weight.assign(ops.abs(weight))
    return model


def inputs_of(model):
    rng = np.random.default_rng(1)
    shape = (3, *model.input_shape[1:])
    if "int" in model.inputs[0].dtype:
        return rng.integers(0, 9, shape)
    return rng.normal(size=shape).astype("float32")


def with_zeros(model, units, alive):
    """Set to 0 what reads the channels that are cut."""
    for slot in units.slots.values():
        if slot.reads:
            shape = [1] * len(slot.weight.shape)
            shape[slot.axis] = -1
            slot.weight.assign(slot.weight * alive[slot.units].reshape(shape))


@pytest.mark.parametrize(
    ("make", "groups"),
    [
        *((residual, 4), (many_kinds, 5), (nested_and_shared, 3), (channels_first, 2)),
        (attention, 6),
    ],
)
def test_cut_channels_are_zeros_where_they_are_read(make, groups):
    model = randomized(make())
    units, rng = ChannelUnits(model), np.random.default_rng(2)
    assert len(units.groups) == groups
    alive = np.ones(units.count, bool)
    for group in units.groups:
        alive[rng.choice(group.units, len(group.units) // 2, replace=False)] = False
    for slot in units.slots.values():
        if isinstance(slot.layer, (layers.LayerNormalization, layers.RMSNormalization)):
            alive[slot.units] = True  # they depend on all channels
    small, x = units.cut(alive), inputs_of(model)
    assert small.count_params() < 0.85 * model.count_params()
    with_zeros(model, units, alive)
    np.testing.assert_allclose(small(x), model(x), rtol=1e-4, atol=1e-4)
    assert [v.trainable for v in small.variables] == [v.trainable for v in model.variables]


def test_a_block_that_is_removed_adds_nothing():
    model = randomized(residual())
    units = ChannelUnits(model)
    assert [block.name for block in units.blocks] == ["a", "b"]
    small, x = units.cut(np.ones(units.count, bool), units.blocks), inputs_of(model)
    for block in units.blocks:
        for weight in block.ends:
            weight.assign(0 * weight)
    np.testing.assert_allclose(small(x), model(x), rtol=1e-5)
    assert {layer.name for layer in small.layers if layer.weights} == {"stem", "head"}


def test_attention_that_is_removed_adds_nothing():
    model = randomized(attention())
    units = ChannelUnits(model)
    first, second = units.blocks
    assert [layer.name for layer in (*first.layers, *second.layers)] == ["own", "groups"]
    small, x = units.cut(np.ones(units.count, bool), [first]), inputs_of(model)
    for weight in first.ends:
        weight.assign(0 * weight)
    np.testing.assert_allclose(small(x), model(x), rtol=1e-5)


def test_reasons_for_what_stays():
    x = inputs = keras.Input((4, 4, 3))
    x = layers.Conv2D(4, 3, padding="same", name="softmax", activation="softmax")(x)
    x = layers.Conv2D(4, 3, padding="same", name="grouped", groups=2)(x)
    x = layers.Conv2D(4, 3, padding="same", name="before")(x)
    x = layers.GroupNormalization(2, name="groups")(x)
    x = keras_xd.layers.XDConv2D(4, 3, name="own")(x)
    x = layers.Conv2D(4, 1, name="lora")(x)
    x = layers.Conv2D(4, 1, name="free")(x)
    model = keras.Model(inputs, layers.Dense(2, name="head")(x))
    units = ChannelUnits(model, {id(model.get_layer("lora")): "LoRA is enabled"})
    reasons = {layer.name: units.reason(layer) for layer in model.layers if layer.weights}
    assert reasons["softmax"] == "its activation mixes the channels"
    assert reasons["before"] == "its channels go into 'groups' (GroupNormalization)"
    assert reasons["own"] == "there is no rule for a XDConv2D"
    assert reasons["lora"] == "LoRA is enabled"
    assert reasons["head"] == "its channels are outputs of the model"
    assert reasons["free"] is None
    assert [group.makers for group in units.groups] == [("free",)]


class Reversed(layers.Layer):
    """Multiplies by the transposed kernel of another layer."""

    def __init__(self, other):
        super().__init__(name="reversed")
        self.kernel = other.kernel

    def call(self, inputs):
        return ops.matmul(inputs, ops.transpose(self.kernel))


def test_layers_of_the_same_weights_stay():
    x = inputs = keras.Input((3,))
    one = layers.Dense(4, name="one")
    x = one(x)
    units = ChannelUnits(keras.Model(inputs, Reversed(one)(x)))
    assert units.reason(one) == "its weights are those of 'reversed' too"
    assert units.groups == []
