"""Finished layers in eight bits by `quantize`: outputs, bytes, files, and what is refused."""

import functools
import warnings

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd.layers.k.k_dense import KDense

INT8_ERROR, FLOAT8_ERROR = 0.03, 0.15


def finalized(*stack, **options):
    space = keras.Sequential(stack)
    return keras_xd.finalize(space, **options)


MODELS = {
    "spectrum": lambda: finalized(
        keras.Input((32, 3)),
        keras_xd.layers.XDConv1D(16, 3, padding="same", depth=2, name="layer"),
        form="spectrum",
    ),
    "kernel": lambda: finalized(
        keras.Input((12, 3)),
        keras_xd.layers.XDConv1D(8, 3, frequency_bias=True, channel_gates=True, name="layer"),
        form="kernel",
        weight_dtype="float16",
    ),
    "low_rank": lambda: finalized(
        keras.Input((24, 8)),
        keras_xd.layers.XDConv1D(8, 3, padding="same", name="layer"),
        form="low_rank",
    ),
    "spectral": lambda: keras.Sequential(
        [keras.Input((16, 9, 4)), keras_xd.layers.SpectralConv2D(6, (3, 4), name="layer")]
    ),
    "tucker": lambda: keras.Sequential(
        [keras.Input((16, 8)), keras_xd.layers.SpectralConv1D(8, 8, tucker_rank=0.9, name="layer")]
    ),
    "long": lambda: finalized(
        keras.Input((16, 12, 4)),
        keras_xd.layers.CKConv2D(kernel_size=9, learn_resolution=True, name="layer"),
    ),
    "block": lambda: finalized(
        keras.Input((16, 12, 64)), keras_xd.layers.CCNNBlock(kernel_size=5, name="layer")
    ),
    "butterflies": lambda: keras.Sequential([keras.Input((48,)), KDense(40, name="layer")]),
}


@functools.cache
def original(name):
    return MODELS[name]()


def copy_of(name):
    """Return a model to quantize, without finalizing one again."""
    model = original(name)
    copy = type(model).from_config(model.get_config())
    copy.set_weights(model.get_weights())
    return copy


def quantize(model, mode):
    """Quantize a model, in which Keras names every layer that it leaves: inputs, convolutions."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.quantize(mode)
    texts = [str(warning.message) for warning in found]
    return [text.split()[1] for text in texts if "`quantize`" in text]


def error_of(model, inputs, expected):
    return float(np.abs(model(inputs) - expected).max() / np.abs(expected).max())


def weight_bytes(model):
    return sum(weight.numpy().nbytes for weight in model.weights)


@pytest.mark.parametrize("name", MODELS)
def test_weights_become_integers_and_stay_so_in_files(name, tmp_path, rng):
    model = copy_of(name)
    inputs = rng.normal(size=(4, *model.input_shape[1:])).astype("float32")
    expected, before = np.array(model(inputs)), weight_bytes(model)
    quantize(model, "int8")
    quantized = np.array(model(inputs))
    assert 1e-5 < error_of(model, inputs, expected) < INT8_ERROR
    assert weight_bytes(model) < (0.7 if name in ("kernel", "long") else 0.5) * before
    assert not any("float" in w.dtype and "scale" not in w.name for w in kernels(model))
    model.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    np.testing.assert_allclose(loaded(inputs), quantized, atol=1e-6)
    np.testing.assert_allclose(loaded.predict(inputs, verbose=0), quantized, atol=1e-5)
    assert [w.dtype for w in loaded.weights] == [w.dtype for w in model.weights]


def kernels(model):
    """Return the weights that `quantize` is for."""
    left = [w for w in model.weights if not w.name.startswith(("bias", "mask"))]
    return [w for w in left if not any(part in w.path for part in ("pointwise", "normalization"))]


@pytest.mark.parametrize("name", ["spectrum", "spectral", "tucker", "block", "butterflies"])
def test_float8_rounds_in_every_call(name, tmp_path, rng):
    model = copy_of(name)
    inputs = rng.normal(size=(4, *model.input_shape[1:])).astype("float32")
    expected = np.array(model(inputs))
    dtypes = [weight.dtype for weight in model.weights]
    quantize(model, "float8")
    assert 1e-3 < error_of(model, inputs, expected) < FLOAT8_ERROR
    assert [weight.dtype for weight in model.weights] == dtypes
    model.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    np.testing.assert_allclose(loaded(inputs), model(inputs), atol=1e-6)


def test_quantized_once_and_in_two_modes(rng):
    model = copy_of("spectrum")
    assert "StaticXD" in quantize(model, "int4")
    assert model.get_layer("layer").quantization_mode is None
    quantize(model, "int8")
    with pytest.raises(ValueError, match="quantized once. Received: mode='int8' for layer 'layer'"):
        quantize(model, "int8")
    other = copy_of("spectrum")
    other.get_layer("layer").dtype_policy = "int8_from_float32"
    assert other.get_layer("layer").spectrum[0].dtype == "int8"
    assert not other.trainable_variables or all(
        "bias" in weight.name for weight in other.trainable_variables
    )


def test_copies_and_exports_of_quantized_models(tmp_path, rng):
    import tensorflow as tf

    model = copy_of("spectrum")
    quantize(model, "int8")
    inputs = rng.normal(size=(3, *model.input_shape[1:])).astype("float32")
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    np.testing.assert_allclose(copy(inputs), model(inputs), atol=1e-6)
    model.export(tmp_path / "m", verbose=False)
    served = tf.saved_model.load(tmp_path / "m")
    np.testing.assert_allclose(served.serve(inputs), model(inputs), atol=1e-5)
