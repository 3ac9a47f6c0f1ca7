"""Butterflies of sparse matrices, in NumPy."""

import math
from collections.abc import Sequence

import numpy as np

from keras_xd.kmatrix import constructions, special
from keras_xd.kmatrix.constructions import Stages


def smallest_size(matrix: np.ndarray) -> int:
    """Return the size that a K-matrix must have at least to hold a sparse matrix."""
    return max(*matrix.shape, np.count_nonzero(matrix))


def sparse(matrix: np.ndarray, radices: Sequence[int]) -> list[Stages]:
    """Return six butterflies whose upper left corner is a matrix, zeros beside it."""
    row, column = np.nonzero(matrix)  # sorted by rows
    used_rows, rows = np.unique(row, return_inverse=True)
    used_columns, columns = np.unique(np.sort(column), return_inverse=True)
    by_column = np.argsort(column, kind="stable")
    n = math.prod(radices)
    order = np.arange(n)
    order[by_column] = np.arange(len(column))
    weights = np.zeros(n, dtype=complex)
    weights[: len(row)] = matrix[row, column]
    spread = _packing(used_rows, np.arange(len(used_rows)), radices)
    total = _packing(np.arange(len(row)), rows, radices)
    sort = constructions.permutation(order, radices, rising_first=True)
    copy = _packing(np.arange(len(column)), columns, radices)
    pack = _packing(used_columns, np.arange(len(used_columns)), radices)
    return [*special.times_diagonal([spread, total], weights), *sort, copy, pack]


def _packing(positions, ranks, radices):
    """Return the rising butterfly that adds entry `positions[k]` to entry `ranks[k]`."""
    stages = constructions.zero(radices)
    for stage, (_, inner, r, _) in zip(stages, constructions.stage_shapes(radices), strict=True):
        above, from_digit = divmod(positions // inner, r)
        stage[above, ranks % inner, ranks // inner % r, from_digit] = 1
    return stages
