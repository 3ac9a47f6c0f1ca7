"""Base classes of projections of dense, rectangular matrices to structured families."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from keras_xd.core import validation

_DAMPING = 1e-9  # of normal equations, relative; towards the solution so far


@dataclasses.dataclass(frozen=True)
class Projection:
    """A structured matrix near to a dense one, and how near.

    Attributes:
        family: name of the family.
        factors: its arrays, as the function of the family describes them.
        matrix: the structured matrix multiplied out.
        error: `‖A - P‖ / ‖A‖` in the Frobenius norm, 0 for a zero matrix.
        bound: an error below which no matrix of this family and size can be, from singular values
            of slices of `A`; 0 where none is known.
        low_rank_error: the error of the best matrix of low rank with no more numbers.
        output_error: `‖(A - P) X‖ / ‖A X‖` for the given inputs, else `None`.
    """

    family: str
    factors: tuple[np.ndarray, ...]
    matrix: np.ndarray = dataclasses.field(repr=False)
    error: float
    bound: float
    low_rank_error: float
    output_error: float | None = None

    def __repr__(self) -> str:
        output = "" if self.output_error is None else f", output_error={self.output_error:.3g}"
        return (
            f"Projection({self.family!r}, shape={self.matrix.shape}, parameters={self.parameters}, "
            f"error={self.error:.3g}, bound={self.bound:.3g}, "
            f"low_rank_error={self.low_rank_error:.3g}{output})"
        )

    @property
    def parameters(self) -> int:
        """How many numbers the factors hold."""
        return sum(factor.size for factor in self.factors)


def check_finite(matrix):
    """Raise `ValueError` if a matrix has entries that are not finite."""
    count = matrix.size - np.count_nonzero(np.isfinite(matrix))
    if count:
        raise ValueError(
            "`matrix` must be finite. "
            f"Received: matrix of shape {matrix.shape} with {count} NaN or infinite entries"
        )


def checked(
    matrix: ArrayLike, inputs: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return matrix and inputs as arrays of floats, or raise `ValueError`."""
    matrix = np.asarray(matrix)
    if matrix.ndim != 2 or not matrix.size or matrix.dtype.kind not in "biuf":
        raise ValueError(
            "`matrix` must be a real array of two axes. "
            f"Received: matrix of shape {matrix.shape} and dtype {matrix.dtype}"
        )
    matrix = matrix.astype(float)
    check_finite(matrix)
    if inputs is not None:
        inputs = np.asarray(inputs, dtype=float)
        if inputs.ndim != 2 or inputs.shape[1] != matrix.shape[1] or not len(inputs):
            raise ValueError(
                f"`inputs` must have shape (samples, {matrix.shape[1]}), the matrix's columns. "
                f"Received: inputs of shape {inputs.shape}"
            )
        if not np.isfinite(inputs).all():
            raise ValueError("`inputs` must be finite. Received: NaN or infinite entries")
    return matrix, inputs


def check_divides(blocks, shape):
    if any(size % blocks for size in shape):
        raise ValueError(
            "`blocks` must divide rows and columns. "
            f"Received: blocks={blocks}, matrix of shape {shape}"
        )


def check_factors(row_factors, column_factors, shape):
    """Raise `ValueError` unless factors multiply to the rows and columns."""
    whole = all(validation.is_integer(f) and f >= 1 for f in (*row_factors, *column_factors))
    fits = whole and (math.prod(row_factors), math.prod(column_factors)) == tuple(shape)
    if not fits or len(row_factors) != len(column_factors) or len(row_factors) < 2:
        raise ValueError(
            "`row_factors` and `column_factors` must be as many positive integers, at least two, "
            f"that multiply to the rows and columns. Received: {row_factors=}, {column_factors=}, "
            f"matrix of shape {tuple(shape)}"
        )


def relative_error(matrix, found):
    norm = np.linalg.norm(matrix)
    return float(np.linalg.norm(matrix - found) / norm) if norm else 0.0


def measured(
    family: str,
    factors: Sequence[np.ndarray],
    dense: np.ndarray,
    matrix: np.ndarray,
    bound: float,
    inputs: np.ndarray | None = None,
) -> Projection:
    rows, columns = matrix.shape
    norm = np.linalg.norm(matrix) or 1.0
    rank = sum(factor.size for factor in factors) // (rows + columns)
    low_rank_error = tail(matrix[None], rank) / norm
    output_error = None
    if inputs is not None:
        output_error = relative_error(inputs @ matrix.T, inputs @ dense.T)
    error = relative_error(matrix, dense)
    return Projection(
        family,
        tuple(factors),
        dense,
        error,
        min(float(bound / norm), error),  # singular values of Gram matrices are rounded
        float(low_rank_error),
        output_error,
    )


def tail(slices, rank):
    """Return the norm of what matrices of this rank cannot hold of `slices`, `(…, p, q)`."""
    if rank >= min(slices.shape[-2:]):
        return 0.0
    if slices.shape[-2] > slices.shape[-1]:
        slices = np.swapaxes(slices, -1, -2)
    squares = np.linalg.eigvalsh(slices @ np.swapaxes(slices, -1, -2))
    return math.sqrt(np.clip(squares[..., : squares.shape[-1] - rank], 0, None).sum())


def damped(normal):
    """Return the matrices of normal equations, made invertible."""
    size = normal.shape[-1]
    trace = np.trace(normal, axis1=-2, axis2=-1)[..., None, None]
    return normal + (_DAMPING * trace / size + np.finfo(float).tiny) * np.eye(size)
