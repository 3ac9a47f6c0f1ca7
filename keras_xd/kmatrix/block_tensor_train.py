"""The nearest matrix of low rank, Monarch matrix and block tensor train, in NumPy."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from keras_xd.kmatrix import projection, structured
from keras_xd.kmatrix.structured import Projection

# The smaller side above which decomposing the Gram matrix is worth the digits that small singular
# values lose.
_LARGEST_SLICE = 64


def nearest_low_rank(matrix: np.ndarray, rank: int, inputs: np.ndarray | None = None) -> Projection:
    """Return the nearest matrix `L R` of a rank: exact, by the singular value decomposition."""
    rows, columns = matrix.shape
    found = _nearest("low_rank", matrix, (1, rows), (columns, 1), rank, inputs)
    right, left = found.factors
    factors = (left.reshape(rank, rows).T, right.reshape(columns, rank).T)
    return dataclasses.replace(found, factors=factors)


def nearest_monarch(
    matrix: np.ndarray, blocks: int, inputs: np.ndarray | None = None
) -> Projection:
    """Return the nearest Monarch matrix of `blocks` blocks: exact, by a decomposition per slice.

    With rows `(p, i')` and columns `(j', q)`, `p` and `q` counting blocks, an entry is
    `L[p, i', q] · R[p, j', q]`: a block tensor train of two cores of rank 1.
    """
    rows, columns = matrix.shape
    sizes = (blocks, rows // blocks), (columns // blocks, blocks)
    found = _nearest("monarch", matrix, *sizes, 1, inputs)
    factors = tuple(core.reshape(blocks, -1, blocks) for core in found.factors)
    return dataclasses.replace(found, factors=factors)


def nearest_block_tensor_train(
    matrix: np.ndarray,
    row_factors: Sequence[int],
    column_factors: Sequence[int],
    rank: int,
    inputs: np.ndarray | None = None,
) -> Projection:
    """Return a block tensor train near to a matrix, by one decomposition per slice and core.

    With rows `(i_1, …, i_c)` and columns `(j_1, …, j_c)` in row-major order an entry is

        A[i, j] = Π_t G_t[a_{t-1}; i_1 … i_t; j_t; j_{t+1} … j_c; a_t]   summed over all a

    where `a_t` has the size `rank` and `a_0` and `a_c` have size 1. Two cores are exact; the
    squared error of more is at most `c - 1` times the smallest one.
    """
    return _nearest("block_tensor_train", matrix, row_factors, column_factors, rank, inputs)


def _nearest(family, matrix, row_factors, column_factors, rank, inputs):
    """Return the `Projection` on block tensor trains, its factors the cores."""
    cores = _cores(matrix, row_factors, column_factors, rank, inputs)
    dense = _product(cores, row_factors, column_factors)[..., 0, 0]
    bound = _lower_bound(matrix, row_factors, column_factors, rank)
    return structured.measured(family, cores, dense, matrix, bound, inputs)


def _lower_bound(matrix, row_factors, column_factors, rank):
    """Return the largest of the norms that are left over where the cores are cut in two."""
    tails = []
    for cut in range(1, len(row_factors)):
        first, rest = math.prod(row_factors[:cut]), math.prod(row_factors[cut:])
        left, right = math.prod(column_factors[:cut]), math.prod(column_factors[cut:])
        slices = matrix.reshape(first, rest, left, right).transpose(0, 3, 1, 2)
        tails.append(structured.tail(slices, rank))
    return max(tails)


def _cores(matrix, row_factors, column_factors, rank, inputs):
    """Return the cores `(a, rows so far, j, columns to come, a')` of a block tensor train."""
    cores: list[np.ndarray] = []
    done, rest = 1, matrix[None, :, None, :]  # (done, rows, a, columns)
    for m, n in zip(row_factors[:-1], column_factors[:-1], strict=True):
        _, rows, before, columns = rest.shape
        to_come = columns // n
        slices = rest.reshape(done, m, rows // m, before, n, to_come).transpose(0, 1, 5, 2, 3, 4)
        slices = slices.reshape(done * m, to_come, rows // m, before * n)
        if inputs is None or cores:
            left, scale, right = _decomposed(slices)
        else:
            left, scale, right = _decomposed_for(inputs.reshape(-1, n, to_come), slices)
        size = min(rank, scale.shape[-1])
        core = right[..., :size, :].reshape(done * m, to_come, size, before, n)
        cores.append(core.transpose(3, 0, 4, 1, 2))
        rest = (left[..., :size] * scale[..., None, :size]).transpose(0, 2, 3, 1)
        done *= m
    *_, rows, before, columns = rest.shape
    last = rest.transpose(2, 0, 1, 3).reshape(before, done * rows, columns, 1, 1)
    cores.append(last)
    if inputs is not None and columns > 1:
        cores[-1] = _refitted(cores, matrix, inputs, row_factors, column_factors)
    return projection.balanced(cores)


def _decomposed(slices):
    """Return the singular value decomposition of slices, of large ones from their Gram matrix."""
    if min(slices.shape[-2:]) <= _LARGEST_SLICE:
        return np.linalg.svd(slices, full_matrices=False)
    if slices.shape[-2] > slices.shape[-1]:
        left, scale, right = _decomposed(np.swapaxes(slices, -1, -2))
        return np.swapaxes(right, -1, -2), scale, np.swapaxes(left, -1, -2)
    _, vectors = np.linalg.eigh(slices @ np.swapaxes(slices, -1, -2))
    return _projected(vectors[..., ::-1], slices)


def _projected(left, slices):
    """Return orthonormal columns, and the norms and directions of what slices are along them."""
    right = np.swapaxes(left, -1, -2) @ slices
    scale = np.linalg.norm(right, axis=-1)
    return left, scale, right / np.where(scale > 0, scale, 1)[..., None]


def _decomposed_for(inputs, slices):
    """Decompose slices so that cutting them errs least for the inputs `(samples, n, to_come)`."""
    samples = inputs.transpose(2, 0, 1)
    values, vectors = np.linalg.eigh(np.swapaxes(samples, 1, 2) @ samples / len(inputs))
    root = vectors * np.sqrt(np.clip(values, 0, None))[:, None, :]
    left, _, _ = _decomposed(slices @ root)
    return _projected(left, slices)


def _refitted(cores, matrix, inputs, row_factors, column_factors):
    """Return the last core that makes the outputs best, given the others: by least squares."""
    before = _product(cores[:-1], row_factors[:-1], column_factors)
    done, left, last, rank = before.shape
    rows = row_factors[-1]
    samples = inputs.reshape(-1, left, last).transpose(2, 0, 1)
    outputs = (inputs @ matrix.T).reshape(-1, done, rows)
    found = cores[-1].reshape(rank, done, rows, last).transpose(1, 3, 0, 2)
    found = found.reshape(done, last * rank, rows).copy()
    for place in range(done):
        features = (samples @ before[place].swapaxes(0, 1)).swapaxes(0, 1)
        features = features.reshape(-1, last * rank)
        missing = features.T @ (outputs[:, place] - features @ found[place])
        found[place] += np.linalg.solve(structured.damped(features.T @ features), missing)
    found = found.reshape(done, last, rank, rows).transpose(2, 0, 3, 1)
    return found.reshape(cores[-1].shape)


def _product(cores, row_factors, column_factors):
    """Multiply the first cores out: `(rows so far, columns so far, columns to come, a)`."""
    found = cores[0].reshape(row_factors[0], column_factors[0], -1, cores[0].shape[-1])
    for core, m, n in zip(cores[1:], row_factors[1:], column_factors[1:], strict=False):
        done, left, to_come, before = found.shape
        to_come, after = to_come // n, core.shape[-1]
        found = found.reshape(done, left, n * to_come, before).transpose(0, 2, 1, 3)
        core = core.reshape(before, done, m, n * to_come, after).transpose(1, 3, 0, 2, 4)
        found = found @ core.reshape(done, n * to_come, before, m * after)
        found = found.reshape(done, n, to_come, left, m, after).transpose(0, 4, 3, 1, 2, 5)
        found = found.reshape(done * m, left * n, to_come, after)
    return found
