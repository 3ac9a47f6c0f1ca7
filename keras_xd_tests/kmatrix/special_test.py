import numpy as np
import pytest
import scipy.fft
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_xd import kmatrix

RADICES = [(1,), (7,), (2, 2, 2), (5, 3, 2), (4, 9)]
every_radices = pytest.mark.parametrize("radices", RADICES, ids=str)


def size(radices):
    return int(np.prod(radices))


def reversal(radices):
    return np.eye(size(radices))[kmatrix.digit_reversal(radices)]


def random_kmatrix(radices, depth, seed=0):
    rng = np.random.default_rng(seed)
    return [kmatrix.random_unitary(radices, rng) for _ in range(depth)]


def random_vector(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(n) + 1j * rng.standard_normal(n)


def assert_is(butterflies, expected, depth, real_part=False):
    assert len(butterflies) == depth
    matrix = kmatrix.kmatrix_dense(butterflies)
    np.testing.assert_allclose(matrix.real if real_part else matrix, expected, atol=1e-10)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_dense_is_what_the_layers_apply(depth):
    radices = (2, 3, 2)
    butterflies = random_kmatrix(radices, depth)
    weights = kmatrix.kmatrix_weights(butterflies)
    matrix = kmatrix.KMatrix(weights, kmatrix.plan(12, radices, depth=depth))
    real, imaginary = matrix.apply(np.eye(12, dtype="float32"), axis=0)
    applied = np.array(real) + 1j * np.array(imaginary)
    np.testing.assert_allclose(kmatrix.kmatrix_dense(butterflies), applied, atol=1e-5)


@every_radices
@pytest.mark.parametrize("depth, transposed", [(1, 2), (2, 2), (3, 4), (4, 4)])
def test_transpose(radices, depth, transposed):
    butterflies = random_kmatrix(radices, depth)
    expected = kmatrix.kmatrix_dense(butterflies).T
    assert_is(kmatrix.transpose(butterflies), expected, transposed)


@pytest.mark.parametrize("depths, total", [((1, 1), 3), ((2, 1), 3), ((1, 2, 3), 7), ((3,), 3)])
def test_compose(depths, total):
    factors = [random_kmatrix((2, 3, 2), depth, seed) for seed, depth in enumerate(depths)]
    expected = np.eye(12)
    for factor in factors:
        expected = expected @ kmatrix.kmatrix_dense(factor)
    assert_is(kmatrix.compose(*factors), expected, total)


def test_compose_refuses_different_radices():
    with pytest.raises(ValueError, match=r"same radices.*\(2, 3\) and \(3, 2\)"):
        kmatrix.compose(random_kmatrix((2, 3), 1), random_kmatrix((3, 2), 1))


@every_radices
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_diagonals_are_absorbed_on_both_sides(radices, depth):
    butterflies, values = random_kmatrix(radices, depth), random_vector(size(radices))
    matrix = kmatrix.kmatrix_dense(butterflies)
    assert_is(kmatrix.diagonal_times(butterflies, values), values[:, None] * matrix, depth)
    assert_is(kmatrix.times_diagonal(butterflies, values), matrix * values, depth)
    # The arguments are left as they were.
    np.testing.assert_array_equal(kmatrix.kmatrix_dense(butterflies), matrix)


@every_radices
def test_diagonal(radices):
    values = random_vector(size(radices))
    assert_is(kmatrix.diagonal(values, radices), np.diag(values), 1)


def test_diagonal_of_wrong_size():
    with pytest.raises(ValueError, match=r"shape \(6,\).*values of shape \(5,\)"):
        kmatrix.diagonal(np.ones(5), (2, 3))


def test_kronecker_of_matrices():
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal((r, r)) + 1j for r in (2, 5, 3))
    butterflies = kmatrix.kronecker_of_matrices([a, b, c])
    assert [stage.shape[-1] for stage in butterflies[0]] == [3, 5, 2]
    assert_is(butterflies, np.kron(np.kron(a, b), c), 1)
    with pytest.raises(ValueError, match=r"square.*\(2, 3\)"):
        kmatrix.kronecker_of_matrices([np.ones((2, 3))])


@pytest.mark.parametrize("depths", [(1, 1), (2, 2), (1, 3), (2, 1)])
def test_kronecker_of_kmatrices(depths):
    left, right = random_kmatrix((2, 3), depths[0]), random_kmatrix((5, 2), depths[1], 1)
    expected = np.kron(kmatrix.kmatrix_dense(left), kmatrix.kmatrix_dense(right))
    butterflies = kmatrix.kronecker_of_kmatrices(left, right)
    assert [stage.shape[-1] for stage in butterflies[0]] == [5, 2, 2, 3]
    assert_is(butterflies, expected, max(depths))


@every_radices
def test_hadamard(radices):
    n = size(radices)
    matrix = kmatrix.kmatrix_dense(kmatrix.hadamard(radices))
    np.testing.assert_allclose(matrix @ matrix.conj().T, n * np.eye(n), atol=1e-10)
    np.testing.assert_allclose(np.abs(matrix), 1.0)


@pytest.mark.parametrize("radices", [(2, 2, 2, 2), (4, 4), (16,), (2, 8), (1,)])
def test_hadamard_of_powers_of_two_is_sylvesters(radices):
    assert_is(kmatrix.hadamard(radices), scipy.linalg.hadamard(size(radices)), 1)


@every_radices
def test_natural_dft(radices):
    assert_is(kmatrix.natural_dft(radices), np.fft.fft(np.eye(size(radices)), axis=0), 3)


@every_radices
def test_digit_reversal_matrix(radices):
    assert_is(kmatrix.digit_reversal_matrix(radices), reversal(radices), 2)


@every_radices
@pytest.mark.parametrize("kind", [2, 3, 4])
@pytest.mark.parametrize("norm", [None, "ortho"])
@pytest.mark.parametrize("name", ["dct", "dst"])
def test_trigonometric_transforms(radices, kind, norm, name):
    build = getattr(kmatrix, name)
    expected = getattr(scipy.fft, name)(np.eye(size(radices)), kind, axis=0, norm=norm)
    natural = build(radices, kind, norm=norm)
    assert_is(natural, expected, {2: 4, 3: 3, 4: 3}[kind], real_part=True)
    reordered = build(radices, kind, norm=norm, digit_reversed=True)
    assert_is(reordered, reversal(radices) @ expected, 3, real_part=True)


@pytest.mark.parametrize("name", ["dct", "dst"])
def test_unknown_trigonometric_transform(name):
    with pytest.raises(ValueError, match=r"`kind` must be one of 2, 3, 4. Received: kind=1"):
        getattr(kmatrix, name)((2, 2), 1)
    with pytest.raises(ValueError, match="`norm`.*norm='forward'"):
        getattr(kmatrix, name)((2, 2), norm="forward")


@every_radices
def test_circulant(radices):
    column = random_vector(size(radices))
    expected = scipy.linalg.circulant(column)
    assert_is(kmatrix.circulant(column, radices), expected, 3)
    order = reversal(radices)
    reordered = kmatrix.circulant(column, radices, digit_reversed=True)
    assert_is(reordered, order @ expected @ order.T, 2)


@settings(max_examples=25)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2), st.integers(0, 1000))
def test_toeplitz(rows, columns, more, seed):
    column, row = random_vector(rows, seed), random_vector(columns, seed + 1)
    radices = kmatrix.factorise(rows + columns - 1 + more)
    butterflies = kmatrix.toeplitz(column, row, radices)
    expected = scipy.linalg.toeplitz(column, row)
    block = kmatrix.kmatrix_dense(butterflies)[:rows, :columns]
    np.testing.assert_allclose(block, expected, atol=1e-10)


def test_toeplitz_needs_room():
    with pytest.raises(ValueError, match=r"at least rows \+ columns - 1 = 7.*\(2, 3\)"):
        kmatrix.toeplitz(np.ones(4), np.ones(4), (2, 3))


def classical_haar(n):
    if n == 1:
        return np.eye(1)
    top = np.kron(classical_haar(n // 2), [1, 1])
    return np.concatenate([top, np.kron(np.eye(n // 2), [1, -1])]) / np.sqrt(2)


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16])
def test_haar_of_powers_of_two(n):
    radices = (2,) * n.bit_length()
    radices = radices[1:] or (1,)
    assert_is(kmatrix.haar(radices), classical_haar(n), 4)


@every_radices
def test_mixed_radix_haar(radices):
    expected = np.eye(1)
    for r in radices[::-1]:
        wave = scipy.fft.dct(np.eye(r), 2, axis=0, norm="ortho")
        details = [np.kron(np.eye(len(expected)), wave[a]) for a in range(1, r)]
        expected = np.concatenate([np.kron(expected, wave[0]), *details])
    assert_is(kmatrix.haar(radices), expected, 4)
    in_place = kmatrix.kmatrix_dense(kmatrix.haar(radices, in_place=True))
    np.testing.assert_allclose(in_place @ in_place.T, np.eye(size(radices)), atol=1e-12)
    # The same coefficients, in another order.
    match = np.abs(in_place @ expected.T)
    np.testing.assert_allclose(np.sort(match, axis=1)[:, -1], 1.0)
    assert len(kmatrix.haar(radices, in_place=True)) == 2
