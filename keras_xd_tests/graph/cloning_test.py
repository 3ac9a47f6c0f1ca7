"""Copies of models: everything is carried over, and the original is left untouched."""

import keras
import numpy as np
import pytest
from keras import layers

from keras_xd.graph import cloning
from keras_xd_tests import sample_models


def keep(layer):
    return None


def layer_calls(model, inputs=None):
    """Return `(layer, first argument)` of each call."""
    trace = cloning.Trace(model)
    calls = trace.calls if inputs is None else trace.calls_on(inputs)
    return [(call.operation, call.argument) for call in calls if cloning.is_layer(call.operation)]


@pytest.mark.parametrize("make", sample_models.ALL)
def test_copy_is_equal_and_separate(make, rng):
    model = sample_models.randomize(make(), rng)
    before = sample_models.fingerprint(model)
    copy, replaced = cloning.clone(model, keep)
    assert not replaced
    assert type(copy) is type(model)
    inputs = sample_models.inputs_of(model, rng)
    sample_models.assert_same_outputs(model, copy, inputs, 1e-6)
    assert [layer.name for layer in copy.layers] == [layer.name for layer in model.layers]
    assert not {id(w) for w in copy.variables} & {id(w) for w in model.variables}
    for weight in copy.weights:
        weight.assign(weight * 0.0)
    assert sample_models.fingerprint(model) == before


def test_masks_reach_the_layers_of_traced_calls(rng):
    words = keras.Input((5,), dtype="int32")
    x = layers.LSTM(3, return_sequences=True)(layers.Embedding(9, 4, mask_zero=True)(words))
    model = keras.Model(words, layers.LSTM(2, name="last")(x))
    inputs = np.array([[1, 2, 0, 0, 0], [3, 4, 5, 6, 0]], "int32")
    ((_, argument),) = [
        call for call in layer_calls(model, inputs=inputs) if call[0].name == "last"
    ]
    expected = keras.Model(words, x)(inputs)
    np.testing.assert_allclose(argument, expected, atol=1e-6)


def test_replacement_keeps_sharing(rng):
    model = sample_models.randomize(sample_models.shared(), rng)
    made = []

    def replace(layer):
        if not isinstance(layer, layers.Conv2D):
            return None
        made.append(layers.Conv2D.from_config(layer.get_config()))
        return made[-1]

    copy, replaced = cloning.clone(model, replace)
    assert replaced == [(model.get_layer("twin"), made[0])]
    made[0].set_weights(model.get_layer("twin").get_weights())
    inputs = sample_models.inputs_of(model, rng)
    sample_models.assert_same_outputs(model, copy, inputs, 1e-6)
    assert list(copy.input) == ["left", "right"] and list(copy.output) == ["map", "pooled"]


def test_trainable_flags_of_models_layers_and_variables():
    model = sample_models.nested()
    model.get_layer("block").trainable = False
    model.get_layer("conv").kernel.trainable = False
    copy, _ = cloning.clone(model, keep)
    assert [v.path for v in copy.trainable_variables] == ["conv/bias"]
    assert not copy.get_layer("block").trainable
    model.trainable = False
    assert not cloning.clone(model, keep)[0].trainable
    model.trainable = True
    model.get_layer("block").trainable = False
    model.get_layer("block").get_layer("stack").layers[0].trainable = True
    copy, _ = cloning.clone(model, keep)
    inner = copy.get_layer("block").get_layer("stack").layers[0]
    assert inner.trainable and not copy.get_layer("block").trainable


def adapted():
    layer = layers.Normalization()
    layer.adapt(np.random.default_rng(0).normal(3.0, 5.0, size=(50, 2)))
    return layer


@pytest.mark.parametrize(
    "make",
    [
        lambda: layers.Lambda(lambda x, factor=3.0: keras.ops.exp(x) * factor),
        adapted,
        lambda: layers.Dense(2, dtype="float64"),
        lambda: layers.Dense(2, dtype="mixed_bfloat16"),
    ],
)
def test_copies_of_layers_that_are_more_than_weights(make, rng):
    model = keras.Sequential([make()])
    x = rng.normal(size=(2, 2)).astype("float32")
    expected = model(x)  # which builds it for two samples
    model.compile("adam", loss=lambda y_true, y_pred: y_pred)
    copy, _ = cloning.clone(model, keep)
    np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (copy(x), expected)))
    assert copy.input_shape == (None, 2) and not copy.compiled and model.compiled
    assert copy.layers[0].dtype_policy == model.layers[0].dtype_policy


def test_a_copy_with_other_weights_is_refused():
    class Growing(layers.Dense):
        def get_config(self):
            return {**super().get_config(), "units": self.units + 1}

    model = keras.Sequential([keras.Input((2,)), Growing(2)])
    with pytest.raises(ValueError, match="must have the same weights, in the same attributes"):
        cloning.clone(model, keep)


def test_layer_that_cannot_be_copied_is_named():
    class Opaque(layers.Layer):
        def __init__(self, function):
            super().__init__(name="opaque")
            self.applied = function

        def call(self, x):
            return self.applied(x)

    scale = layers.Dense(2)  # that of the original, which a copy must not call
    model = keras.Sequential([keras.Input((2,)), Opaque(lambda x: scale(x))])
    with pytest.raises(ValueError, match="made again.*Received: Opaque 'opaque'"):
        cloning.clone(model, keep)
