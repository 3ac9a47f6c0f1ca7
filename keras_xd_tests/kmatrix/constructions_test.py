"""All K-matrices that have a name, their products, and the butterflies that they are made of."""

import functools
import itertools

import keras
import numpy as np
import pytest
import scipy.fft
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_xd import kmatrix
from keras_xd.kmatrix import KMatrix, constructions, special
from keras_xd.kmatrix.constructions import digit_reversal

RADICES = [(1,), (2,), (7,), (2, 2, 2), (5, 3, 2), (4, 9), (16,)]
every_radices = pytest.mark.parametrize("radices", RADICES, ids=str)


@pytest.fixture(autouse=True)
def in_float64():
    floatx = keras.config.floatx()
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx(floatx)


def size(radices):
    return int(np.prod(radices))


def vector(n, kind=complex, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(n) + 1j * rng.standard_normal(n)
    return values if kind is complex else values.real


def fourier(n, inverse=False, unitary=False):
    function = np.fft.ifft if inverse else np.fft.fft
    return function(np.eye(n), axis=0, norm="ortho" if unitary else None)


def reversal(radices):
    """The digit reversal by its definition: digits of mixed radix, read backwards."""
    digits = np.unravel_index(np.arange(size(radices)), radices[::-1])
    return np.eye(size(radices))[np.ravel_multi_index(digits[::-1], radices)]


def hadamard(radices):
    blocks = [fourier(r) if r & (r - 1) else scipy.linalg.hadamard(r) for r in radices[::-1]]
    return functools.reduce(np.kron, blocks)


def haar(radices):
    matrix = np.eye(1)
    for r in radices[::-1]:
        wave = scipy.fft.dct(np.eye(r), 2, axis=0, norm="ortho")
        details = [np.kron(np.eye(len(matrix)), wave[a]) for a in range(1, r)]
        matrix = np.concatenate([np.kron(matrix, wave[0]), *details])
    return matrix


def permutation_of(n):
    return np.random.default_rng(1).permutation(n)


# How it is made and what it is, of the size and the radices; its depth, and whether it is real.
NAMED = {
    "identity": (KMatrix.identity, lambda n, r: np.eye(n), 1, False),
    "dft": (KMatrix.dft, lambda n, r: reversal(r) @ fourier(n), 1, False),
    "inverse dft": (
        lambda n, r: KMatrix.dft(n, r, inverse=True).T,
        lambda n, r: fourier(n, inverse=True) @ reversal(r).T,
        1,
        False,
    ),
    "natural dft": (
        lambda n, r: KMatrix.dft(n, r, order="natural", unitary=True),
        lambda n, r: fourier(n, unitary=True),
        3,
        False,
    ),
    "natural inverse dft": (
        lambda n, r: KMatrix.dft(n, r, order="natural", inverse=True),
        lambda n, r: fourier(n, inverse=True),
        3,
        False,
    ),
    "haar": (KMatrix.haar, lambda n, r: haar(r), 4, True),
    "permutation": (
        lambda n, r: KMatrix.permutation(permutation_of(n), r),
        lambda n, r: np.eye(n)[permutation_of(n)],
        2,
        False,
    ),
}
for kind in (float, complex):
    NAMED[f"diagonal {kind}"] = (
        lambda n, r, kind=kind: KMatrix.diagonal(vector(n, kind), r),
        lambda n, r, kind=kind: np.diag(vector(n, kind)),
        1,
        kind is float,
    )
    NAMED[f"circulant {kind}"] = (
        lambda n, r, kind=kind: KMatrix.circulant(vector(n, kind), r),
        lambda n, r, kind=kind: scipy.linalg.circulant(vector(n, kind)),
        3,
        kind is float,
    )
for name, kind, norm in itertools.product(("dct", "dst"), (2, 3, 4), (None, "ortho")):
    NAMED[f"{name} {kind} {norm}"] = (
        functools.partial(getattr(KMatrix, name), kind=kind, norm=norm),
        lambda n, r, name=name, kind=kind, norm=norm: getattr(scipy.fft, name)(
            np.eye(n), kind, axis=0, norm=norm
        ),
        4 if kind == 2 else 3,
        True,
    )


@pytest.mark.parametrize("name", NAMED)
def test_named_matrices_are_those_of_numpy_and_scipy(name):
    make, expected, depth, real = NAMED[name]
    for radices in RADICES:
        matrix = make(size(radices), radices)
        assert matrix.plan.radices == radices and matrix.depth == depth and matrix.real == real
        dense = special.kmatrix_dense(matrix.butterflies)
        for found in (matrix.numpy(), dense.real if real else dense):
            np.testing.assert_allclose(found, expected(size(radices), radices), atol=1e-10)


@pytest.mark.parametrize("radices", [*RADICES, (2, 8), (4, 4), (6, 6)], ids=str)
def test_hadamard(radices):
    matrix = KMatrix.hadamard(size(radices), radices)
    assert matrix.depth == 1 and matrix.real == all(r & (r - 1) == 0 for r in radices)
    assert matrix.parameters == (1 if matrix.real else 2) * size(radices) * sum(radices)
    np.testing.assert_allclose(matrix.numpy(), hadamard(radices), atol=1e-10)


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([None, 4, 30]), st.integers(0, 1000))
def test_toeplitz(rows, columns, radix, seed):
    column, row = vector(rows, float, seed), vector(columns, complex if seed % 2 else float, seed)
    matrix = KMatrix.toeplitz(column, row, radix)
    assert matrix.depth == 3 and matrix.real == (seed % 2 == 0)
    assert matrix.shape[0] == kmatrix.padded_size(rows + columns - 1, radix)
    corner = matrix.numpy()[:rows, :columns]
    np.testing.assert_allclose(corner, scipy.linalg.toeplitz(column, row), atol=1e-10)


def assert_sparse(matrix, radices):
    found = KMatrix.sparse(matrix, radices)
    assert found.depth == 6 and found.real == (matrix.dtype != complex)
    expected = np.zeros(found.shape, matrix.dtype)
    expected[: matrix.shape[0], : matrix.shape[1]] = matrix
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


@settings(max_examples=25)
@given(st.sampled_from(RADICES), st.integers(0, 2**32 - 1), st.data())
def test_sparse_matrices_of_at_most_n_non_zeros(radices, seed, data):
    n, rng = size(radices), np.random.default_rng(seed)
    shape = data.draw(st.tuples(st.integers(1, n), st.integers(1, n)))
    count = data.draw(st.integers(0, min(n, shape[0] * shape[1])))
    matrix = np.zeros(shape, dtype=complex if seed % 2 else float)
    matrix.flat[rng.choice(matrix.size, count, replace=False)] = vector(count, matrix.dtype.type)
    assert_sparse(matrix, radices)


@pytest.mark.parametrize("left, right", [(1, 1), (2, 1), (1, 2), (3, 3)])
def test_products_of_matrices(left, right):
    for transposed in (False, True):
        first, second = (
            KMatrix.random_unitary(12, (2, 3, 2), depth, seed=depth) for depth in (left, right)
        )
        first = first.T if transposed else first
        product = first @ second
        # After an odd number of butterflies an identity keeps their directions alternating.
        assert product.depth == left + left % 2 + right and not product.real
        np.testing.assert_allclose(product.numpy(), first.numpy() @ second.numpy(), atol=1e-12)
        kronecker = KMatrix.kronecker(first, second)
        assert kronecker.plan.radices == (2, 3, 2, 2, 3, 2)
        assert kronecker.depth == max(left + left % 2 * transposed, right)
        expected = np.kron(first.numpy(), second.numpy())
        np.testing.assert_allclose(kronecker.numpy(), expected, atol=1e-12)


def test_products_of_real_matrices():
    """Those without imaginary parts stay so; with the real part of a product they are one."""
    values = np.arange(1.0, 13)
    diagonal, cosine = KMatrix.diagonal(values, (2, 3, 2)), KMatrix.dct(12, (2, 3, 2))
    for product, expected, parts in (
        (diagonal @ KMatrix.haar(12, (2, 3, 2)), values[:, None] * haar((2, 3, 2)), 1),
        (cosine @ diagonal, cosine.numpy() * values, 2),
        (cosine.T @ diagonal, cosine.numpy().T * values, 2),
        (KMatrix.kronecker(values[:9].reshape(3, 3), cosine), None, 2),
    ):
        assert product.real and product.weights.shape[1] == parts
        if expected is None:
            expected = np.kron(values[:9].reshape(3, 3), cosine.numpy())
        np.testing.assert_allclose(product.numpy(), expected, atol=1e-12)


def test_kronecker_products_of_arrays():
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal((r, r)) + 1j for r in (2, 5, 3))
    matrix = KMatrix.kronecker(a, b, c)
    assert matrix.plan.radices == (3, 5, 2) and matrix.depth == 1
    np.testing.assert_allclose(matrix.numpy(), np.kron(np.kron(a, b), c), atol=1e-12)


BAD = [
    (lambda: KMatrix.dct(8, depth=2), "depth at least 4. Received: depth=2"),
    (lambda: KMatrix.permutation([1, 0], depth=1), "depth at least 2. Received: depth=1"),
    (lambda: KMatrix.permutation([0, 0, 1, 2]), r"permutation of 0 … 3.*radices=\(2, 2\)"),
    (lambda: KMatrix.permutation([1, 2, 3, 4]), "permutation of 0 … 3"),
    (lambda: KMatrix.dft(6, (2, 2)), "multiply to the size"),
    (lambda: KMatrix.dft(8, order="reversed"), "`order` must be one of"),
    (lambda: KMatrix.dct(8, kind=1), "`kind` must be one of 2, 3, 4. Received: kind=1"),
    (lambda: KMatrix.dst(8, norm="forward"), "`norm`.*norm='forward'"),
    (lambda: KMatrix.from_butterflies([]), "at least one butterfly"),
    (lambda: KMatrix.from_butterflies(constructions.dft((2, 3))), "each a list of stages"),
    (lambda: KMatrix.diagonal(np.ones((2, 2))), r"`values` must be.*one axis.*shape \(2, 2\)"),
    (lambda: KMatrix.diagonal(np.ones(5), (2, 3)), "multiply to the size of the matrix.*size 5"),
    (lambda: KMatrix.circulant(["a", "b"]), "`column` must be an array of numbers.*<U1"),
    (lambda: KMatrix.toeplitz(np.ones(4), np.ones(4), (2, 3)), r"at least 7.*product 6"),
    (lambda: KMatrix.sparse(np.ones((4, 4)), (3, 4)), r"at least 16.*product 12"),
    (lambda: KMatrix.sparse(np.eye(2, 5), (2, 2)), "at least 5.*product 4"),
    (lambda: KMatrix.sparse(np.ones(4)), r"two axes.*matrix of shape \(4,\)"),
    (lambda: KMatrix.kronecker(np.ones((2, 3))), r"square.*\(2, 3\)"),
    (lambda: KMatrix.kronecker(), "at least one factor"),
    (lambda: KMatrix.dft(6, (2, 3)) @ KMatrix.dft(6, (3, 2)), r"same radices.*3\) and \(3, 2\)"),
    (lambda: KMatrix.dct(6) @ KMatrix.dct(6), "without imaginary parts only"),
    (
        lambda: KMatrix(keras.Variable(np.ones((1, 2, 30))), kmatrix.plan(6)) @ KMatrix.dft(6),
        "NumPy arrays. Received: weights of type Variable",
    ),
    (
        lambda: KMatrix(np.zeros((1, 2, 31)), kmatrix.plan(6)),
        r"size 6 with radices \(2, 3\).*\(1, 2, 31\)",
    ),
    (lambda: KMatrix.dft(6).apply(np.zeros((2, 5))), r"size 6\. Received: shape \(2, 5\), axis=-1"),
    (lambda: KMatrix.dft(6) @ np.zeros((5, 3)), r"size 6\. Received: shape \(5, 3\)"),
    (lambda: KMatrix.dft(6) @ np.float64(3), "at least one axis"),
    (lambda: KMatrix.dft(6) @ np.array(["a"] * 6), "numbers. Received: array of dtype <U1"),
    (lambda: KMatrix.dft(6).relative_error(np.zeros((3, 3))), r"shape \(6, 6\)"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def dense(stages):
    """The definition, element by element: `y[o, a, i] = Σ_b T[o, i, a, b] x[o, b, i]`."""
    matrix = None
    for stage in stages:
        outer, inner, r, _ = stage.shape
        n = outer * inner * r
        factor = np.zeros((n, n), dtype=complex)
        for o, i, a, b in np.ndindex(outer, inner, r, r):
            factor[(o * r + a) * inner + i, (o * r + b) * inner + i] = stage[o, i, a, b]
        matrix = factor if matrix is None else factor @ matrix
    return matrix


@every_radices
def test_butterflies_are_products_of_their_stages(radices):
    rng = np.random.default_rng(7)
    stages = constructions.random_unitary(radices, rng)
    expected = dense(stages)
    np.testing.assert_allclose(constructions.butterfly_dense(stages), expected, atol=1e-12)
    np.testing.assert_array_equal(np.eye(size(radices))[digit_reversal(radices)], reversal(radices))
    scaled = constructions.scaled(stages, 5.0)
    np.testing.assert_allclose(dense(scaled), 5.0 * expected, atol=1e-12)
    ratios = [np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(scaled, stages, strict=True)]
    np.testing.assert_allclose(ratios, ratios[0])
    values = vector(size(radices))
    for depth in (1, 2, 3):
        butterflies = [constructions.random_unitary(radices, rng) for _ in range(depth)]
        matrix = special.kmatrix_dense(butterflies)
        for found, product in (
            (special.diagonal_times(butterflies, values), values[:, None] * matrix),
            (special.times_diagonal(butterflies, values), matrix * values),
        ):
            assert len(found) == depth
            np.testing.assert_allclose(special.kmatrix_dense(found), product, atol=1e-10)
        weights = constructions.kmatrix_weights(butterflies, "float64")
        assert weights.shape == (depth, 2, size(radices) * sum(radices))
        again = constructions.butterflies_of(weights, radices)
        np.testing.assert_array_equal(special.kmatrix_dense(again), matrix)


@every_radices
def test_random_stages_are_unitary_or_orthogonal(radices):
    identity = np.eye(size(radices))
    unitary = dense(constructions.random_unitary(radices, np.random.default_rng(2)))
    np.testing.assert_allclose(unitary @ unitary.conj().T, identity, atol=1e-12)
    orthogonal = dense(constructions.random_orthogonal(radices, np.random.default_rng(2)))
    np.testing.assert_allclose(orthogonal @ orthogonal.T, identity, atol=1e-12)
    np.testing.assert_array_equal(orthogonal.imag, 0)
    assert radices == (1,) or np.abs(unitary.imag).max() > 0.01


@settings(max_examples=40)
@given(st.sampled_from(RADICES), st.integers(0, 2**32 - 1), st.booleans())
def test_every_permutation_has_depth_two(radices, seed, rising_first):
    order = np.random.default_rng(seed).permutation(size(radices))
    butterflies = constructions.permutation(order, radices, rising_first=rising_first)
    first, second = map(constructions.butterfly_dense, butterflies)
    matrix = first.T @ second if rising_first else first @ second.T
    np.testing.assert_array_equal(matrix, np.eye(len(order))[order])
