import numpy as np
import pytest
import tensorflow as tf

from keras_xd.core import complex_products, transforms


def correlation(x, kernel, lengths):
    """The definition, one tap at a time, of one axis after the other."""
    missing = [n - size for n, size in zip(lengths, x.shape[-len(lengths) :], strict=True)]
    kept = [(0, 0)] * (x.ndim - len(lengths))
    x = np.pad(x, [*kept, *((0, m) for m in missing)])
    y, axes = np.zeros_like(x), list(range(-len(lengths), 0))
    for place in np.ndindex(*kernel.shape[-len(lengths) :]):
        tap = kernel[(..., *place)]
        tap = tap.reshape(tap.shape + (1,) * len(lengths))
        y += tap * np.roll(x, [-p for p in place], axes)
    return y


@pytest.mark.parametrize(
    "sizes, taps, lengths",
    [((7,), (3,), (9,)), ((6,), (6,), (6,)), ((4, 5), (3, 2), (6, 5)), ((5, 4), (2, 4), (5, 8))],
)
def test_it_is_the_correlation_and_so_are_gradients(sizes, taps, lengths, rng):
    """Of odd and even lengths; gradients beside finite differences."""
    x, kernel = rng.normal(size=(2, 3, *sizes)), rng.normal(size=(3, *taps))
    expected = correlation(x, kernel, lengths)
    inputs = [tf.constant(x), tf.constant(kernel)]
    slopes = rng.normal(size=expected.shape)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        y = complex_products.circular_correlation(*inputs, lengths)
        total = tf.reduce_sum(y * slopes)
    np.testing.assert_allclose(y, expected, atol=1e-12)
    for which, gradient in enumerate(tape.gradient(total, inputs)):
        place = tuple(int(rng.integers(n)) for n in gradient.shape)
        moved = [x.copy(), kernel.copy()]
        moved[which][place] += 1.0  # the correlation is linear in each
        wanted = np.sum(slopes * (correlation(*moved, lengths) - expected))
        assert float(gradient[place]) == pytest.approx(wanted, abs=1e-10)


def test_pairs_of_real_numbers_are_left_to_others():
    x = np.ones((2, 4), "float32")
    assert complex_products.has_complex_products(x, 1)
    assert not complex_products.has_complex_products(x[:0], 1)
    assert not complex_products.has_complex_products(x[None], 3)
    with transforms.as_matrix_products():
        assert not complex_products.has_complex_products(x, 1)
