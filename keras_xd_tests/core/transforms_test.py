"""Fourier transforms as matrix products: NumPy's, at sizes that are known and that are not."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd.core import transforms

SIZES = (1, 2, 5, 8, 9)


def pair(values):
    return values.real.astype("float32"), values.imag.astype("float32")


def run(function, *arrays, known=True):
    """Return what a transform gives as matrix products, traced with sizes that are not known."""
    if not known:
        specs = [tf.TensorSpec((None,) * array.ndim) for array in arrays]
        function = tf.function(function, input_signature=specs)
    with transforms.as_matrix_products():
        assert transforms.are_matrix_products()
        result = function(*arrays)
    assert not transforms.are_matrix_products()
    return keras.tree.map_structure(np.array, result)


@pytest.mark.parametrize(
    "known", [True, pytest.param(False, marks=pytest.mark.tensorflow("sizes that are not known"))]
)
@pytest.mark.parametrize("size", SIZES)
def test_transforms_are_those_of_numpy(size, known, rng):
    real = rng.normal(size=(3, size)).astype("float32")
    values = real + 1j * rng.normal(size=(3, size)).astype("float32")
    found = run(lambda x: transforms.rfft(x), real, known=known)
    np.testing.assert_allclose(found[0] + 1j * found[1], np.fft.rfft(real), atol=1e-5)
    found = run(lambda a, b: transforms.fft((a, b)), *pair(values), known=known)
    np.testing.assert_allclose(found[0] + 1j * found[1], np.fft.fft(values), atol=1e-5)
    half = values[:, : size // 2 + 1]
    found = run(lambda a, b: transforms.irfft((a, b), size), *pair(half))
    np.testing.assert_allclose(found, np.fft.irfft(half, size), atol=1e-5)


@pytest.mark.parametrize("length", [4, 7, 8, 12])
def test_lengths_and_frequencies(length, rng):
    """As `keras.ops` do: vectors are cut or filled up to a length, missing frequencies are zero."""
    x = rng.normal(size=(2, 8)).astype("float32")

    def there(x):
        return transforms.rfft(x, length, 3)

    def back(a, b):
        return transforms.irfft((a, b), length)

    spectrum = [np.array(part) for part in there(x)]
    np.testing.assert_allclose(np.array(run(there, x)), np.array(spectrum), atol=1e-5)
    np.testing.assert_allclose(run(back, *spectrum), np.array(back(*spectrum)), atol=1e-5)

    def some(a, b):
        return transforms.fft((a, b), np.array([0, 1, 7]))

    np.testing.assert_allclose(np.array(run(some, x, x)), np.array(some(x, x)), atol=1e-5)


@pytest.mark.parametrize(
    "known", [True, pytest.param(False, marks=pytest.mark.tensorflow("sizes that are not known"))]
)
@pytest.mark.parametrize("size", [6, 9])
def test_the_lowest_frequencies_and_back(size, known, rng):
    values = rng.normal(size=(4, size)) + 1j * rng.normal(size=(4, size))
    spectrum = np.fft.fft(values)
    spectrum[:, 3:-3] = 0
    kept = np.concatenate([spectrum[:, :3], spectrum[:, -3:]], axis=1)

    def both(a, b):
        lowest = transforms.lowest((a, b), 3)
        return lowest, transforms.inverse_of_lowest(lowest, 3, keras.ops.shape(a)[-1])

    for found in (run(both, *pair(values), known=known), both(*pair(values))):
        (a, b), (c, d) = keras.tree.map_structure(np.array, found)
        np.testing.assert_allclose(a + 1j * b, kept, atol=1e-5)
        np.testing.assert_allclose(c + 1j * d, np.fft.ifft(spectrum), atol=1e-5)
