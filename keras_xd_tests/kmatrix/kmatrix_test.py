import functools

import keras
import numpy as np
import pytest
from keras import ops

from keras_xd import kmatrix
from keras_xd.kmatrix import radix as radices
from keras_xd.kmatrix import special

CASES = [
    lambda: kmatrix.KMatrix.identity(1),
    lambda: kmatrix.KMatrix.identity(30, depth=3),
    lambda: kmatrix.KMatrix.dft(36, radix=6, depth=2, inverse=True),
    lambda: kmatrix.KMatrix.random_unitary(300, depth=3, seed=1).T,
    lambda: kmatrix.KMatrix.random_orthogonal(48, depth=2, seed=1),
    lambda: kmatrix.KMatrix.permutation(np.random.default_rng(0).permutation(60), depth=4),
    lambda: kmatrix.KMatrix.dct(12),
    lambda: kmatrix.KMatrix.dst(12, kind=3).T,
    lambda: kmatrix.KMatrix.hadamard(8),
]
CASES = list(map(functools.cache, CASES))
every_case = pytest.mark.parametrize("make", CASES)


def joined(result):
    """A tensor, or a pair of them as one complex array, in NumPy."""
    parts = [np.array(part) for part in (result if isinstance(result, tuple) else [result])]
    return parts[0] + 1j * parts[1] if len(parts) == 2 else parts[0]


@every_case
def test_columns_and_magnitudes_are_those_of_the_whole_matrix(make):
    n = make().plan.n
    for matrix, dense in ((make(), make().numpy()), (make().T, make().numpy().T)):
        positions = [n - 1, 0, n // 2]
        columns = matrix.columns(positions)
        np.testing.assert_allclose(columns, dense[:, positions], atol=1e-5)
        step = -(-n // 7)
        blocks = [np.abs(dense[i : i + step, ::step]) ** 2 for i in range(0, n, step)]
        expected = [np.sqrt(np.mean(block, axis=0)) for block in blocks]
        np.testing.assert_allclose(matrix.magnitudes(7), expected, atol=1e-5)


@every_case
def test_apply_and_dense_agree_along_any_axis(make):
    n, rng = make().plan.n, np.random.default_rng(3)
    for axis in [0, 1, -1]:
        shape = [2, 3, 4]
        shape[axis] = n
        x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        parts = (x.real.astype("float32"), x.imag.astype("float32"))
        for matrix, dense in ((make(), make().numpy()), (make().T, make().numpy().T)):
            for data, values in ((parts, x), (parts[0], x.real)):
                expected = np.moveaxis(np.tensordot(dense, values, (1, axis)), 0, axis)
                result = matrix.apply(data, axis)
                assert isinstance(result, tuple) == (not matrix.real or data is parts)
                np.testing.assert_allclose(joined(result), expected, atol=1e-4)


@pytest.mark.parametrize("n, radix, depth", [(32, None, 1), (36, 6, 3), (1, None, 2)])
def test_parameter_count(n, radix, depth):
    weights = kmatrix.KMatrix.identity(n, radix, depth).weights
    assert radices.parameter_count(n, radix, depth) == weights.size


# Every matrix with every kind of numbers, and both with every number of axes.
PRODUCTS = [
    (kind, [(), (2,), (2, 3)][(row + column) % 3], make)
    for row, make in enumerate(CASES[3:])
    for column, kind in enumerate([float, complex, int])
]


@pytest.mark.parametrize("kind, leading, make", PRODUCTS)
def test_products_with_arrays_are_those_of_numpy(make, leading, kind):
    matrix = make()
    n, dense, rng = matrix.shape[0], matrix.numpy(), np.random.default_rng(4)

    def array(*shape):
        values = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        values = values if kind is complex else values.real
        return values.round().astype(int) if kind is int else values

    for x in (array(*leading, n, 4), array(n)):
        result = matrix @ x
        assert isinstance(result, np.ndarray)
        np.testing.assert_allclose(result, dense @ x, atol=1e-3)
    for x in (array(*leading, 4, n), array(n)):
        result = x @ matrix
        assert isinstance(result, np.ndarray)
        np.testing.assert_allclose(result, x @ dense, atol=1e-3)
        assert np.iscomplexobj(result) == (kind is complex or bool(np.any(dense.imag)))


@every_case
def test_transposition(make):
    matrix = make()
    np.testing.assert_allclose(matrix.T.numpy(), matrix.numpy().T, atol=1e-5)
    assert matrix.T.weights is matrix.weights
    np.testing.assert_array_equal(matrix.T.T.numpy(), matrix.numpy())
    product = special.kmatrix_dense(matrix.T.butterflies)
    product = product.real if matrix.real else product
    np.testing.assert_allclose(product, matrix.numpy().T, atol=1e-4)
    np.testing.assert_allclose(matrix.T.columns([0]), matrix.numpy()[[0]].T, atol=1e-5)


def test_products_with_tensors():
    """A real matrix gives a tensor, a complex one a pair, from either side."""
    for matrix in (kmatrix.KMatrix.dct(12), kmatrix.KMatrix.dft(12)):
        x = np.random.default_rng(5).standard_normal((2, 12, 12)).astype("float32")
        tensor = ops.convert_to_tensor(x)
        for result, expected in (
            (matrix @ tensor, matrix.numpy() @ x),
            (tensor @ matrix, x @ matrix.numpy()),
            (matrix @ (tensor, 2 * tensor), matrix.numpy() @ (x + 2j * x)),
        ):
            assert isinstance(result, tuple) != (matrix.real and np.isrealobj(expected))
            np.testing.assert_allclose(joined(result), expected, atol=1e-3)


def test_what_keras_takes_for_its_own_is_refused():
    """A variable or symbolic input on the left: refused, never multiplied as something else."""
    matrix, variable = kmatrix.KMatrix.dct(8), keras.Variable(np.ones((8, 8)))
    for left in (variable, keras.Input((3, 8))):
        with pytest.raises(ValueError, match="KMatrix"):
            left @ matrix
    np.testing.assert_allclose(matrix @ variable, matrix.numpy() @ np.ones((8, 8)), atol=1e-5)
    assert matrix.apply(keras.Input((3, 8)), axis=-1).shape == (None, 3, 8)
