"""Layers made again: from configurations, and from attributes where a class has none."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_xd
from keras_xd.graph import layer_copies
from keras_xd.testing import assert_close


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class Unconfigured(layers.Layer):
    """Has no `get_config`, and Keras makes none, as its policy is no plain value."""

    def __init__(self, width, activation="gelu", half=False, **kwargs):
        super().__init__(**kwargs)
        self.width, self.half = width // 2 if half else width, half
        self.activation = keras.activations.get(activation)

    def build(self, input_shape):
        self.wide = layers.Dense(self.width, name="wide", dtype=self.dtype_policy)
        self.wide.build(input_shape)
        self.narrow = layers.Dense(input_shape[-1], name="narrow", dtype=self.dtype_policy)
        self.narrow.build((*input_shape[:-1], self.width))

    def call(self, inputs):
        return inputs + self.narrow(self.activation(self.wide(inputs)))


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class Misconfigured(layers.Layer):
    """Its `get_config` reads an attribute that there is not; makes its layers in `build`."""

    def __init__(self, width, count=2, **kwargs):
        super().__init__(**kwargs)
        self.width, self.count = width, count

    def build(self, input_shape):
        self.blocks = [
            Unconfigured(self.width, name=f"block{number}", dtype=self.dtype_policy)
            for number in range(self.count)
        ]
        for block in self.blocks:
            block.build(input_shape)

    def call(self, inputs):
        for block in self.blocks:
            inputs = block(inputs)
        return inputs

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "depth": self.depth}


POLICY = keras.DTypePolicy("float32")


def test_a_configuration_that_says_more_than_the_constructor_takes():
    class Talkative(layers.Dense):
        def __init__(self, units, twice=False, **kwargs):
            super().__init__(units, **kwargs)
            self.twice = twice

        def get_config(self):
            return {**super().get_config(), "twice": self.twice, "half": self.units // 2}

    layer = Talkative(4, twice=True, name="layer", activation="relu")
    copy = layer_copies.copy_layer(layer)
    assert copy.twice and (copy.name, copy.units) == ("layer", 4)
    assert copy.activation is keras.activations.relu


def test_a_class_without_configuration_is_made_again_by_its_attributes():
    policy = keras.DTypePolicy("mixed_bfloat16")
    layer = Unconfigured(8, "tanh", name="layer", dtype=policy)
    with pytest.raises(NotImplementedError):
        layer.get_config()
    copy = layer_copies.copy_layer(layer)
    assert (copy.name, copy.width, copy.half) == ("layer", 8, False)
    assert copy.activation is keras.activations.tanh and copy.dtype_policy == policy
    broken = Misconfigured(6, count=3, name="broken")
    copy = layer_copies.copy_layer(broken)
    assert (copy.name, copy.width, copy.count) == ("broken", 6, 3)


def test_attributes_that_do_not_tell():
    class Missing(layers.Layer):
        def __init__(self, size, **kwargs):
            super().__init__(**kwargs)

    class Holding(layers.Layer):
        def __init__(self, inner, **kwargs):
            super().__init__(**kwargs)
            self.inner = inner

    class Checking(layers.Layer):
        def __init__(self, sizes, **kwargs):
            super().__init__(**kwargs)
            self.sizes = tuple(sizes) if len(sizes) == 2 else None

    kept_as_half = Unconfigured(8, half=True, name="kept", dtype=POLICY)
    assert kept_as_half.width == 4
    for layer in (
        kept_as_half,
        Missing(3, name="kept", dtype=POLICY),
        Holding(layers.ReLU(), name="kept", dtype=POLICY),
        Checking((1, 2, 3), name="kept", dtype=POLICY),
    ):
        with pytest.raises(ValueError, match=f"made again .*{type(layer).__name__} 'kept'"):
            layer_copies.copy_layer(layer)
        with pytest.raises(NotImplementedError):
            layer_copies.serialized(layer)


def test_networks_of_such_layers_are_rewritten_and_saved(tmp_path, rng):
    """As the MLP of keras_hub's ViT, its DeiT encoder and its Llama decoder."""
    inputs = keras.Input((5, 12))
    x = Misconfigured(24, name="encoder")(inputs)
    model = keras.Model(inputs, layers.Dense(3, name="head")(x))
    x = rng.normal(size=(2, 5, 12)).astype("float32")
    exact = keras_xd.rewrite(model, to="structured", family="dense")
    assert_close(np.array(exact(x)), np.array(model(x)))
    small = keras_xd.rewrite(model, to="structured", family="low_rank", share=0.5, skip="head")
    assert len(small.report.rows) == 4 and small.count_params() < model.count_params()
    small.save(tmp_path / "small.keras")
    restored = keras.models.load_model(tmp_path / "small.keras")
    assert_close(np.array(restored(x)), np.array(small(x)))
