import math

import numpy as np
import pytest

from keras_xd.kmatrix.block_tensor_train import (
    nearest_block_tensor_train,
    nearest_low_rank,
    nearest_monarch,
)

SIZES = [
    ((2, 3), (4, 2), 1),
    ((4, 6), (3, 5), 2),
    ((1, 12), (7, 1), 3),
    ((2, 3, 4), (3, 2, 2), 1),
    ((2, 4, 3), (3, 2, 4), 2),
    ((2, 2, 2, 2), (2, 3, 2, 2), 2),
]
every_size = pytest.mark.parametrize("row_factors, column_factors, rank", SIZES)


def entry_by_entry(cores, row_factors, column_factors):
    """The definition: one product of matrices in the ranks for each entry."""
    shape = (math.prod(row_factors), math.prod(column_factors))
    found = np.zeros(shape)
    for i in range(shape[0]):
        row = np.unravel_index(i, row_factors)
        for j in range(shape[1]):
            column = np.unravel_index(j, column_factors)
            product = np.ones((1, 1))
            for t, core in enumerate(cores):
                so_far = np.ravel_multi_index(row[: t + 1], row_factors[: t + 1])
                later = column[t + 1 :]
                to_come = np.ravel_multi_index(later, column_factors[t + 1 :]) if later else 0
                product = product @ core[:, so_far, column[t], to_come, :]
            found[i, j] = product[0, 0]
    return found


def random_train(row_factors, column_factors, rank, rng):
    count, cores = len(row_factors), []
    for t in range(count):
        before, after = 1 if t == 0 else rank, 1 if t == count - 1 else rank
        so_far, to_come = math.prod(row_factors[: t + 1]), math.prod(column_factors[t + 1 :])
        cores.append(rng.normal(size=(before, so_far, column_factors[t], to_come, after)))
    return entry_by_entry(cores, row_factors, column_factors)


def slice_tails(matrix, row_factors, column_factors, rank):
    """Squared norms of what rank `rank` leaves of the slices, for each cut."""
    found = []
    for cut in range(1, len(row_factors)):
        first, left = math.prod(row_factors[:cut]), math.prod(column_factors[:cut])
        grid = matrix.reshape(first, -1, left, matrix.shape[1] // left)
        total = 0.0
        for p in range(first):
            for q in range(grid.shape[3]):
                total += (np.linalg.svd(grid[p, :, :, q], compute_uv=False)[rank:] ** 2).sum()
        found.append(total)
    return found


@every_size
def test_block_tensor_trains_are_recovered(row_factors, column_factors, rank, rng):
    matrix = random_train(row_factors, column_factors, rank, rng)
    found = nearest_block_tensor_train(matrix, row_factors, column_factors, rank)
    assert found.error < 1e-12
    np.testing.assert_allclose(found.matrix, matrix, atol=1e-11 * np.abs(matrix).max())


@every_size
def test_errors_lie_between_the_bound_and_the_guarantee(row_factors, column_factors, rank, rng):
    matrix = rng.normal(size=(math.prod(row_factors), math.prod(column_factors)))
    found = nearest_block_tensor_train(matrix, row_factors, column_factors, rank)
    definition = entry_by_entry(found.factors, row_factors, column_factors)
    np.testing.assert_allclose(found.matrix, definition, atol=1e-12)
    norm = np.linalg.norm(matrix)
    assert found.error == pytest.approx(np.linalg.norm(matrix - definition) / norm)
    tails = slice_tails(matrix, row_factors, column_factors, rank)
    assert found.bound == pytest.approx(np.sqrt(max(tails)) / norm, abs=1e-7)
    assert found.bound <= found.error <= np.sqrt(sum(tails)) / norm + 1e-12
    if len(row_factors) == 2:
        assert found.error == pytest.approx(found.bound, abs=1e-7)
    norms = [np.linalg.norm(core) for core in found.factors]
    np.testing.assert_allclose(norms, norms[0])


def test_monarch_matrices_are_trains_of_rank_one(rng):
    """Which are exact: their errors are the bounds, as is tested above."""
    for shape, blocks in [((6, 4), 2), ((6, 9), 3), ((5, 10), 5)]:
        matrix = rng.normal(size=shape)
        found = nearest_monarch(matrix, blocks)
        right, left = found.factors
        defined = np.einsum("piq,pjq->pijq", left, right).reshape(shape)
        np.testing.assert_allclose(found.matrix, defined)
        sizes = (blocks, shape[0] // blocks), (shape[1] // blocks, blocks)
        train = nearest_block_tensor_train(matrix, *sizes, 1)
        np.testing.assert_allclose(found.matrix, train.matrix, atol=1e-12)


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (80, 100), (100, 80), (1, 4)])
def test_low_rank_is_that_of_the_singular_values(shape, rng):
    matrix, rank = rng.normal(size=shape), min(3, *shape)
    found = nearest_low_rank(matrix, rank)
    left, scale, right = np.linalg.svd(matrix, full_matrices=False)
    expected = (left[:, :rank] * scale[:rank]) @ right[:rank]
    np.testing.assert_allclose(found.matrix, expected, atol=1e-10)
    tail = np.sqrt((scale[rank:] ** 2).sum() / (scale**2).sum())
    for value in (found.error, found.bound, found.low_rank_error):
        assert value == pytest.approx(tail, abs=1e-7)
    assert found.parameters == rank * sum(shape)
    assert nearest_low_rank(expected, rank).error < 1e-10


def correlated_inputs(rng, samples, columns):
    return rng.normal(size=(samples, columns)) @ np.diag(np.geomspace(1, 0.01, columns))


@pytest.mark.parametrize("samples", [3, 200])
def test_low_rank_for_inputs_is_the_best_for_their_outputs(samples, rng):
    """The outputs have the error of their own singular values: nothing of the rank is better."""
    matrix, rank = rng.normal(size=(12, 20)), 2
    inputs = correlated_inputs(rng, samples, 20) @ np.linalg.qr(rng.normal(size=(20, 20)))[0]
    found = nearest_low_rank(matrix, rank, inputs)
    scale = np.linalg.svd(inputs @ matrix.T, compute_uv=False)
    best = np.sqrt((scale[rank:] ** 2).sum() / (scale**2).sum())
    assert found.output_error == pytest.approx(best, abs=1e-7)
    assert np.linalg.matrix_rank(found.matrix) == rank
    plain = nearest_low_rank(matrix, rank).matrix
    assert np.linalg.norm(inputs @ (matrix - plain).T) > found.output_error * np.sqrt(
        (scale**2).sum()
    )


def test_inputs_of_few_directions_leave_the_factors_small(rng):
    matrix, inputs = rng.normal(size=(24, 20)), rng.normal(size=(64, 3)) @ rng.normal(size=(3, 20))
    found = nearest_low_rank(matrix, 8, inputs + 1e-7 * rng.normal(size=(64, 20)))
    assert found.output_error < 1e-6
    assert max(np.abs(core).max() for core in found.factors) < np.linalg.norm(matrix, 2)


@pytest.mark.parametrize("sizes", [((3, 4), (4, 5)), ((2, 3, 2), (2, 5, 2))])
@pytest.mark.parametrize("samples", [5, 300])
def test_the_last_core_is_the_best_for_inputs(sizes, samples, rng):
    """Outputs are linear in it, so no change of it lowers their error; nor does it rise."""
    matrix = rng.normal(size=(12, 20))
    inputs = correlated_inputs(rng, samples, 20) @ np.linalg.qr(rng.normal(size=(20, 20)))[0]
    found = nearest_block_tensor_train(matrix, *sizes, 2, inputs)
    *others, last = found.factors
    outputs = inputs @ matrix.T
    images = []
    for place in np.ndindex(last.shape):
        unit = np.zeros(last.shape)
        unit[place] = 1
        images.append((inputs @ entry_by_entry([*others, unit], *sizes).T).ravel())
    images = np.array(images).T
    np.testing.assert_allclose(images @ last.ravel(), (inputs @ found.matrix.T).ravel(), atol=1e-9)
    best = np.linalg.lstsq(images, outputs.ravel(), rcond=None)[0]
    error = np.linalg.norm(outputs.ravel() - images @ best) / np.linalg.norm(outputs)
    assert found.output_error == pytest.approx(error, rel=1e-3, abs=1e-6)
