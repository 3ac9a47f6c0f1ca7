import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_xd import kmatrix

RADICES = [(1,), (7,), (2, 2, 2, 2), (2, 3, 5), (5, 3, 2), (6, 6), (4, 9), (13, 2), (16,)]


def random_sparse(shape, count, rng):
    matrix = np.zeros(shape, dtype=complex)
    places = rng.choice(matrix.size, count, replace=False)
    matrix.flat[places] = rng.standard_normal(count) + 1j * rng.standard_normal(count)
    return matrix


def assert_exact(matrix, radices, **options):
    butterflies = kmatrix.sparse(matrix, radices, **options)
    assert len(butterflies) == (5 if options.get("expanded") else 6)
    expected = np.zeros((int(np.prod(radices)),) * 2, dtype=complex)
    expected[: matrix.shape[0], : matrix.shape[1]] = matrix
    np.testing.assert_allclose(kmatrix.kmatrix_dense(butterflies), expected, atol=1e-12)


@settings(max_examples=60)
@given(st.sampled_from(RADICES), st.integers(0, 2**32 - 1), st.data())
def test_random_matrices_with_at_most_n_non_zeros(radices, seed, data):
    n = int(np.prod(radices))
    shape = data.draw(st.tuples(st.integers(1, n), st.integers(1, n)))
    count = data.draw(st.integers(0, min(n, shape[0] * shape[1])))
    assert_exact(random_sparse(shape, count, np.random.default_rng(seed)), radices)


@settings(max_examples=40)
@given(st.sampled_from(RADICES), st.integers(0, 2**32 - 1), st.data())
def test_random_matrices_with_room_for_empty_rows_and_columns(radices, seed, data):
    n = int(np.prod(radices))
    shape = data.draw(st.tuples(st.integers(1, (n + 1) // 2), st.integers(1, (n + 1) // 2)))
    count = data.draw(st.integers(0, min(n // 2, shape[0] * shape[1])))
    matrix = random_sparse(shape, count, np.random.default_rng(seed))
    assert_exact(matrix, radices, expanded=True)


@pytest.mark.parametrize("full", ["row", "column"])
def test_all_non_zeros_in_one_row_or_column(full):
    matrix = np.zeros((12, 12))
    matrix[(5, slice(None)) if full == "row" else (slice(None), 5)] = np.arange(1, 13)
    assert_exact(matrix, (2, 3, 2))


@pytest.mark.parametrize("expanded", [False, True])
def test_permuted_diagonal(expanded):
    rng = np.random.default_rng(2)
    matrix = rng.standard_normal(30)[:, None] * np.eye(30)[rng.permutation(30)]
    assert_exact(matrix, (2, 3, 5), expanded=expanded)


def test_cycle():
    cycle = np.roll(np.eye(9), 1, axis=0) + np.roll(np.eye(9), -1, axis=0)
    assert_exact(cycle, (2, 3, 3))
    assert_exact(cycle, (2, 3, 3), expanded=True)


def test_normalised_grid():
    path = np.eye(4, k=1) + np.eye(4, k=-1)
    grid = np.kron(path, np.eye(3)) + np.kron(np.eye(4), path[:3, :3]) + np.eye(12)
    scale = grid.sum(axis=1) ** -0.5
    matrix = scale[:, None] * grid * scale
    count = np.count_nonzero(matrix)
    assert_exact(matrix, kmatrix.factorise(kmatrix.padded_size(count)))
    assert_exact(matrix, kmatrix.factorise(kmatrix.padded_size(count)), expanded=True)


def test_size_too_small():
    with pytest.raises(ValueError, match=r"size 16 at least.*\(product 12\).*16 non-zeros"):
        kmatrix.sparse(np.ones((4, 4)), (3, 4))
    with pytest.raises(ValueError, match=r"size 7 at least.*empty rows or columns"):
        kmatrix.sparse(np.diag([1, 0, 0, 0, 1, 0]) + np.eye(6, k=5), (2, 3), expanded=True)


def test_matrix_must_have_two_axes():
    with pytest.raises(ValueError, match=r"two axes.*matrix of shape \(4,\)"):
        kmatrix.sparse(np.ones(4), (4,))


def test_empty_columns_have_slots_too():
    matrix = np.zeros((2, 5))
    matrix[0, 3], matrix[1, 0] = 2.0, -1.0
    with pytest.raises(ValueError, match=r"size 5 at least.*empty rows or columns.*\(2, 2\)"):
        kmatrix.sparse(matrix, (2, 2), expanded=True)
    dense = kmatrix.kmatrix_dense(kmatrix.sparse(matrix, (5,), expanded=True))
    np.testing.assert_allclose(dense[:2, :5], matrix, atol=1e-12)
