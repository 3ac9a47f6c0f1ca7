import numpy as np
import pytest
import tensorflow as tf

from keras_xd import kmatrix
from keras_xd.kmatrix import kmatrix as kmatrix_module

CASES = [
    lambda: kmatrix.KMatrix.identity(30, depth=3),
    lambda: kmatrix.KMatrix.dft(30),
    lambda: kmatrix.KMatrix.dft(36, radix=6, depth=2, inverse=True),
    lambda: kmatrix.KMatrix.dft(7, unitary=True),
    lambda: kmatrix.KMatrix.random_unitary(300, depth=3, seed=1),
    lambda: kmatrix.KMatrix.random_orthogonal(48, depth=2, seed=1),
    lambda: kmatrix.KMatrix.permutation(np.random.default_rng(0).permutation(60), depth=4),
    lambda: kmatrix.KMatrix.identity(1),
]
every_case = pytest.mark.parametrize("make", CASES)


def complex_of(pair):
    return np.array(pair[0]) + 1j * np.array(pair[1])


@every_case
@pytest.mark.parametrize("transpose", [False, True])
def test_columns_and_magnitudes_are_those_of_the_whole_matrix(make, transpose):
    matrix = make()
    n = matrix.plan.n
    dense = complex_of(matrix.dense())
    dense = dense.T if transpose else dense
    positions = [n - 1, 0, n // 2]
    np.testing.assert_allclose(
        matrix.columns(positions, transpose=transpose), dense[:, positions], atol=1e-5
    )
    step = -(-n // 7)
    blocks = [np.abs(dense[i : i + step, ::step]) ** 2 for i in range(0, n, step)]
    expected = [np.sqrt(np.mean(block, axis=0)) for block in blocks]
    np.testing.assert_allclose(matrix.magnitudes(7, transpose=transpose), expected, atol=1e-5)


def test_magnitudes_are_made_in_batches(monkeypatch):
    matrix = kmatrix.KMatrix.random_unitary(90, seed=1)
    expected = matrix.magnitudes(30)
    monkeypatch.setattr(kmatrix_module, "LARGEST_BATCH", 900)
    np.testing.assert_allclose(matrix.magnitudes(30), expected, atol=1e-6)


@every_case
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_apply_and_dense_agree_along_any_axis(make, axis):
    matrix = make()
    n = matrix.plan.n
    dense = complex_of(matrix.dense())
    rng = np.random.default_rng(3)
    shape = [2, 3, 4]
    shape[axis] = n
    x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    parts = (x.real.astype("float32"), x.imag.astype("float32"))
    for transpose in (False, True):
        applied = dense.T if transpose else dense
        expected = np.moveaxis(np.tensordot(applied, x, (1, axis)), 0, axis)
        result = complex_of(matrix.apply(parts, axis, transpose=transpose))
        np.testing.assert_allclose(result, expected, atol=3e-5)
        expected = np.moveaxis(np.tensordot(applied, x.real, (1, axis)), 0, axis)
        result = complex_of(matrix.apply(parts[0], axis, transpose=transpose))
        np.testing.assert_allclose(result, expected, atol=3e-5)


def test_named_matrices():
    order = np.random.default_rng(1).permutation(30)
    permutation = complex_of(kmatrix.KMatrix.permutation(order).dense())
    np.testing.assert_array_equal(permutation, np.eye(30)[order])
    identity = complex_of(kmatrix.KMatrix.identity(30, depth=3).dense())
    np.testing.assert_array_equal(identity, np.eye(30))
    reversal = kmatrix.digit_reversal((2, 3, 5))
    spectrum = complex_of(kmatrix.KMatrix.dft(30, depth=3).dense())
    np.testing.assert_allclose(spectrum, np.fft.fft(np.eye(30))[reversal], atol=1e-5)
    inverse = complex_of(kmatrix.KMatrix.dft(30, inverse=True).dense()).T
    np.testing.assert_allclose(inverse @ spectrum, np.eye(30), atol=1e-5)


def test_random_matrices_are_unitary_and_reproducible():
    make = kmatrix.KMatrix.random_unitary
    first, second = (complex_of(make(36, depth=9, seed=5).dense()) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first @ first.conj().T, np.eye(36), atol=1e-5)
    assert np.abs(first - complex_of(make(36, depth=9, seed=6).dense())).max() > 0.1


def test_compiles_under_xla():
    matrix = kmatrix.KMatrix.dft(20, depth=2)
    x = np.random.default_rng(2).standard_normal((3, 20)).astype("float32")
    real, imaginary = tf.function(matrix.apply, jit_compile=True)(tf.constant(x))
    expected = np.fft.fft(x)[:, kmatrix.digit_reversal((2, 2, 5))]
    np.testing.assert_allclose(complex_of((real, imaginary)), expected, atol=1e-5)


def test_bad_input():
    with pytest.raises(ValueError, match=r"size 6 with radices \(2, 3\).*\(1, 2, 31\)"):
        kmatrix.KMatrix(np.zeros((1, 2, 31)), kmatrix.plan(6))
    with pytest.raises(ValueError, match=r"size 6\. Received: shape \(2, 5\), axis=-1"):
        kmatrix.KMatrix.dft(6).apply(np.zeros((2, 5), "float32"))
    with pytest.raises(ValueError, match="depth at least 2. Received: depth=1"):
        kmatrix.KMatrix.permutation([1, 0], depth=1)
    with pytest.raises(ValueError, match="multiply to the size"):
        kmatrix.KMatrix.dft(6, radix=(2, 2))


@pytest.mark.parametrize("n, radix, depth", [(32, None, 1), (36, 6, 3), (1, None, 2)])
def test_parameter_count(n, radix, depth):
    weights = kmatrix.KMatrix.identity(n, radix, depth).weights
    assert kmatrix.parameter_count(n, radix, depth) == weights.size
