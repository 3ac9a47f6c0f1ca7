import numpy as np
import pytest

from keras_xd.kmatrix.blast import nearest_blast
from keras_xd.kmatrix.block_tensor_train import nearest_low_rank


def blast(left, scale, right):
    """The definition, block by block."""
    blocks = range(len(left))
    return np.block([[left[i] @ np.diag(scale[i, j]) @ right[j].T for j in blocks] for i in blocks])


@pytest.mark.parametrize("shape, blocks, rank", [((8, 12), 2, 3), ((12, 6), 3, 1), ((9, 9), 1, 2)])
def test_nearer_than_low_rank_and_as_defined(shape, blocks, rank, rng):
    matrix = rng.normal(size=shape)
    found = nearest_blast(matrix, blocks, rank)
    np.testing.assert_allclose(found.matrix, blast(*found.factors), atol=1e-12)
    error = np.linalg.norm(matrix - found.matrix) / np.linalg.norm(matrix)
    assert found.error == pytest.approx(error)
    assert found.parameters == rank * (sum(shape) + blocks**2)
    low_rank = nearest_low_rank(matrix, rank).error
    if blocks == 1:
        assert found.error == pytest.approx(low_rank)
    else:
        assert found.error < low_rank
    rows, columns = (np.split(matrix, blocks, axis=axis) for axis in (0, 1))
    bounds = [
        np.sqrt(sum((np.linalg.svd(m, compute_uv=False)[rank:] ** 2).sum() for m in parts))
        for parts in (rows, columns)
    ]
    expected = max(bounds) / np.linalg.norm(matrix)
    assert found.bound == pytest.approx(expected, abs=1e-7) and found.bound <= found.error


def test_the_error_never_rises(rng):
    matrix = rng.normal(size=(12, 18))
    errors = [nearest_blast(matrix, 3, 4, steps).error for steps in range(8)]
    assert errors[0] == pytest.approx(nearest_low_rank(matrix, 4).error)
    assert all(after <= before + 1e-12 for before, after in zip(errors, errors[1:], strict=False))
    assert errors[-1] < errors[1] < errors[0]


def test_members_of_the_family_are_found(rng):
    """Exactly where it is low rank; a matrix near to low rank within the last sweep's gain."""
    low_rank = rng.normal(size=(12, 3)) @ rng.normal(size=(3, 18))
    assert nearest_blast(low_rank, 3, 3).error < 1e-12
    factors = [rng.normal(size=(3, 4, 2)), 1 + 0.3 * rng.normal(size=(3, 3, 2))]
    member = blast(*factors, rng.normal(size=(3, 6, 2)))
    found = nearest_blast(member, 3, 2, steps=400)
    assert nearest_low_rank(member, 2).error > 0.1
    assert found.error < 1e-3 and found.bound < 1e-6
