"""With `dtype="float64"` exact starts equal Keras' own float64 layers, not only to float32."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import kmatrix, layers
from keras_xd.kmatrix.constructions import digit_reversal

TOLERANCE = 1e-12
FLOAT64 = {"dtype": "float64"}


def assert_equal_in_float64(actual, expected):
    actual, expected = (keras.ops.convert_to_numpy(value) for value in (actual, expected))
    assert actual.dtype == expected.dtype == "float64"
    scale = np.abs(expected).max()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * scale)


def test_a_depth_of_three_and_several_blocks(rng):
    """A size at which K-matrices are products of several dense blocks."""
    inputs = rng.normal(size=(1, 1000, 1))
    twin = keras.layers.Conv1D(1, 3, padding="same", **FLOAT64)
    expected = twin(inputs)
    layer = layers.XDConv1D(1, 3, padding="same", depth=3, **FLOAT64)
    layer.build(inputs.shape)
    assert len(layer.plans[0].groups) > 1
    layer.kernel.assign(twin.kernel)
    assert_equal_in_float64(layer(inputs), expected)


@pytest.mark.parametrize("start", ["average_pooling", "identity"])
def test_starts_with_frequency_bias_and_gates(start, rng):
    inputs = rng.normal(size=(2, 12, 3))
    layer = layers.XDConv1D(3, 3, padding="same", warm_start=start, **FLOAT64)
    pooling = keras.layers.AveragePooling1D(3, 1, padding="same", **FLOAT64)
    expected = keras.ops.convert_to_tensor(inputs) if start == "identity" else pooling(inputs)
    assert_equal_in_float64(layer(inputs), expected)


def test_fourier_operator(rng):
    """The spectrum of the weights, by NumPy: real and imaginary parts of the lowest modes."""
    signal, modes, n = rng.normal(size=(2, 16, 1)), 4, 16
    layer = layers.XDConv1D(
        1, 2 * modes - 1, padding="circular", warm_start="fourier_operator", **FLOAT64
    )
    outputs = layer(signal)
    weights = keras.ops.convert_to_numpy(layer.kernel)[:, 0, 0]
    spectrum = np.zeros(n // 2 + 1, complex)
    spectrum[0] = weights[0]
    spectrum[1:modes] = weights[1:modes] + 1j * weights[modes:]
    expected = np.fft.irfft(np.fft.rfft(signal[..., 0]) * spectrum, n)[..., None]
    assert_equal_in_float64(outputs, expected)


def test_spectral_conv(rng):
    signal = rng.normal(size=(2, 16, 1))
    layer = layers.SpectralConv1D(1, 4, use_bias=False, **FLOAT64)
    outputs = layer(signal)
    real, imaginary = keras.ops.convert_to_numpy(layer.kernel)[..., 0, 0]
    spectrum = np.zeros(9, complex)
    spectrum[:4] = real + 1j * imaginary
    expected = np.fft.irfft(np.fft.rfft(signal[..., 0]) * spectrum, 16)[..., None]
    assert_equal_in_float64(outputs, expected)


def test_resampled_operations(rng):
    """To a finer grid and back nothing of a band-limited signal is lost."""
    there = layers.FourierResampling((23,), **FLOAT64)
    back = layers.FourierResampling((11,), **FLOAT64)
    signal = rng.normal(size=(2, 11, 3))
    assert_equal_in_float64(back(there(signal)), signal)


@pytest.mark.parametrize("to", ["xd", "masked"])
@pytest.mark.parametrize("finalized", [False, True])
def test_rewritten_models(to, finalized, rng):
    policy = FLOAT64
    model = keras.Sequential(
        [
            keras.Input((8, 8, 2), dtype="float64"),
            keras.layers.Conv2D(4, 3, padding="same", **policy),
            keras.layers.BatchNormalization(**policy),
            keras.layers.SeparableConv2D(4, 3, strides=2, **policy)
            if to == "xd"
            else keras.layers.Conv2D(4, 3, strides=2, **policy),
            keras.layers.ReLU(**policy),
            keras.layers.GlobalAveragePooling2D(**policy),
            keras.layers.Dense(3, **policy),
        ]
    )
    space = keras_xd.rewrite(model, to=to)
    inputs = rng.normal(size=(2, 8, 8, 2))
    found = keras_xd.finalize(space) if finalized else space
    assert_equal_in_float64(found(inputs), model(inputs))


@pytest.fixture
def restored_floatx():
    floatx = keras.config.floatx()
    yield
    keras.config.set_floatx(floatx)


def test_matrices_on_their_own(restored_floatx):
    """A `KMatrix` is of Keras' float type."""
    order = digit_reversal((3, 4))
    for floatx, error in (("float32", 1e-6), ("float64", 1e-14)):
        keras.config.set_floatx(floatx)
        fourier = kmatrix.KMatrix.dft(12, (3, 4))
        assert fourier.weights.dtype == floatx
        real, imaginary = (keras.ops.convert_to_numpy(part) for part in fourier.dense())
        expected = np.fft.fft(np.eye(12), axis=0)[order]
        np.testing.assert_allclose(real + 1j * imaginary, expected, rtol=0, atol=error)


@pytest.mark.parametrize(
    ("layer_class", "arguments"),
    [
        (layers.CKConv1D, {"initial_kernel_size": 4.0, "seed": 1}),
        (
            layers.DashConv1D,
            {"filters": 3, "kernel_size": 3, "kernel_sizes": (3, 5), "dilations": (1, 2)},
        ),
    ],
)
def test_both_forms_of_long_convolutions(layer_class, arguments, rng):
    inputs = rng.normal(size=(2, 12, 3))
    forms = [layer_class(**arguments, convolution=c, **FLOAT64) for c in ("direct", "fourier")]
    for layer in forms:
        layer.build(inputs.shape)
        layer.set_weights(forms[0].get_weights())
    assert_equal_in_float64(forms[1](inputs), forms[0](inputs))
