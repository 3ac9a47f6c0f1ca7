"""A K-matrix whose corner is near to a rectangular matrix, in NumPy."""

import math

import numpy as np

from keras_xd.kmatrix import constructions, projection, structured
from keras_xd.kmatrix import radix as radices
from keras_xd.kmatrix.structured import Projection

_LARGEST_SIDE = 16  # of the slices from which the bound of a butterfly is computed


def nearest_kaleidoscope(
    matrix: np.ndarray,
    radix: radices.Radix = None,
    depth: int = 1,
    steps: int = 0,
    seed: int | None = None,
) -> Projection:
    """Return a K-matrix whose upper left corner is near to a matrix."""
    size = radices.padded_size(max(matrix.shape), radix)
    factors = radices.factorise(size, radix)
    rows, columns = matrix.shape
    padded = np.zeros((size, size))
    padded[:rows, :columns] = matrix
    if depth == 1 and steps == 0:
        butterflies = [projection.nearest_butterfly(padded, factors)]
    else:
        butterflies, _ = projection.project(padded, factors, depth, steps, seed)
    weights = constructions.kmatrix_weights(butterflies, "float64")[:, :1]
    dense = _corner(butterflies, rows, columns)
    bound = _butterfly_bound(padded, factors) if depth == 1 else 0.0
    return structured.measured("kaleidoscope", (weights,), dense, matrix, bound)


def _corner(butterflies, rows, columns):
    """Return the upper left corner of a real K-matrix."""
    found = np.eye(math.prod(stage.shape[-1] for stage in butterflies[0]), columns)
    for number in reversed(range(len(butterflies))):
        rising = number % 2 == 1
        for stage in butterflies[number] if rising else butterflies[number][::-1]:
            stage = stage.real if rising else np.swapaxes(stage.real, -1, -2)
            found = projection.stage_times(stage, found)
    return found[:rows]


def _butterfly_bound(matrix, factors):
    """Return the largest norm left over of slices that a butterfly holds at rank one."""
    tails, n = [0.0], len(matrix)
    for cut in range(1, len(factors)):
        inner = math.prod(factors[:cut])
        if min(inner, n // inner) <= _LARGEST_SIDE or len(factors) == 2:
            slices = matrix.T.reshape(n // inner, inner, n // inner, inner)
            tails.append(structured.tail(slices.transpose(1, 2, 0, 3), 1))
    return max(tails)
