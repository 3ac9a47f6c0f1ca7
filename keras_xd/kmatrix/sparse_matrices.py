"""Exact K-matrices of sparse matrices, in NumPy."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from keras_xd.core.argument_types import check_types
from keras_xd.kmatrix import constructions, special
from keras_xd.kmatrix.constructions import Stages


@check_types
def sparse(matrix: ArrayLike, radices: Sequence[int], *, expanded: bool = False) -> list[Stages]:
    """Return the K-matrix of a sparse matrix.

    Dao et al. 2020 show that four pairs of a rising and a falling butterfly suffice, with an
    expansion of the size. Here three pairs do, and the size grows only to the non-zeros.

    Columns in use are packed together, copied to one slot for each non-zero, sorted by rows,
    summed and spread over the rows in use. Packing and summing keep the order, and then run through
    one rising butterfly without collisions, whatever the radices; copying and spreading are
    transposes of these. With the permutation between them that makes six butterflies; an `n × n`
    matrix of at most `n` non-zeros needs no expansion.

    Args:
        matrix: array of shape `(rows, columns)`.
        radices: radices of a size `N` of at least `rows`, `columns` and the number of non-zeros.
        expanded: give each empty row and column a slot too. No packing and spreading is needed then
            (depth 5, the identity first), but `N` must also hold the extra slots.

    Returns:
        Butterflies of size `N`, whose first `rows` rows and `columns` columns are `matrix` and
        whose other entries are zero.

    Raises:
        ValueError: if `matrix` does not have two axes or the size is too small.

    Example:

    >>> import numpy as np
    >>> from keras_xd import kmatrix
    >>> cycle = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)
    >>> butterflies = kmatrix.sparse(cycle, (3, 4))
    >>> len(butterflies), bool(np.allclose(kmatrix.kmatrix_dense(butterflies)[:6, :6], cycle))
    (6, True)
    """
    matrix, n = np.asarray(matrix), math.prod(radices)
    if matrix.ndim != 2:
        raise ValueError(
            f"`matrix` must be an array of two axes. Received: matrix of shape {matrix.shape}"
        )
    row, column = np.nonzero(matrix)  # sorted by rows
    values = matrix[row, column]
    if expanded:
        empty_rows = np.setdiff1d(np.arange(matrix.shape[0]), row)
        empty_columns = np.setdiff1d(np.arange(matrix.shape[1]), column)
        slots = len(row) + max(len(empty_rows), len(empty_columns))
    else:
        slots = max(*matrix.shape, len(row))
    if n < slots:
        raise ValueError(
            f"This sparse matrix needs a K-matrix of size {slots} at least, for its shape and "
            f"non-zeros{' and empty rows or columns' if expanded else ''}. "
            f"Received: radices={tuple(radices)} (product {n}), matrix of shape {matrix.shape} "
            f"with {len(row)} non-zeros"
        )
    if expanded:
        used_rows, used_columns = np.arange(matrix.shape[0]), np.arange(matrix.shape[1])
        row_slots = np.sort(np.concatenate([row, empty_rows]))
        column_slots = np.sort(np.concatenate([column, empty_columns]))
    else:
        used_rows, used_columns = np.unique(row), np.unique(column)
        row_slots, column_slots = row, np.sort(column)
    # The first slots of a row (column), as many as it has non-zeros, are theirs.
    by_column = np.argsort(column, kind="stable")
    to = _slots(row, row_slots)
    source = np.empty(len(row), dtype=int)
    source[by_column] = _slots(column[by_column], column_slots)
    order = np.empty(n, dtype=int)
    order[to] = source
    order[np.setdiff1d(np.arange(n), to)] = np.setdiff1d(np.arange(n), source)
    weights = np.zeros(n, dtype=complex)
    weights[to] = values
    total = _packing(np.arange(len(row_slots)), np.searchsorted(used_rows, row_slots), radices)
    copy = _packing(
        np.arange(len(column_slots)), np.searchsorted(used_columns, column_slots), radices
    )
    sort = constructions.permutation(order, radices, rising_first=True)
    if expanded:
        spread, packs = constructions.identity(radices), []
    else:
        spread = _packing(used_rows, np.arange(len(used_rows)), radices)
        packs = [_packing(used_columns, np.arange(len(used_columns)), radices)]
    return [*special.times_diagonal([spread, total], weights), *sort, copy, *packs]


def _slots(keys, slots):
    """Return for each of the sorted `keys` a slot of its own among the sorted `slots`."""
    return np.searchsorted(slots, keys) + np.arange(len(keys)) - np.searchsorted(keys, keys)


def _packing(positions, ranks, radices):
    """Return the rising butterfly that adds entry `positions[k]` to entry `ranks[k]`.

    Before stage `j` the path of `k` is at the lower digits of its rank and the higher digits of its
    position. Two paths of different ranks never meet: equal higher digits put the positions closer
    than `r_1 ⋯ r_{j-1}`, equal lower digits the ranks at least that far apart, and positions are at
    least as far apart as ranks, which are 0, 1, 2, … in the order of the positions.
    """
    stages = constructions.zero(radices)
    for stage, (_, inner, r, _) in zip(stages, constructions.stage_shapes(radices), strict=True):
        above, from_digit = divmod(positions // inner, r)
        stage[above, ranks % inner, ranks // inner % r, from_digit] = 1
    return stages
