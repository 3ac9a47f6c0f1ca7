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
