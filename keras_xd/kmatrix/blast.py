"""A BLAST matrix near to a dense matrix, in NumPy."""

import numpy as np

from keras_xd.core import validation
from keras_xd.kmatrix import block_tensor_train, structured
from keras_xd.kmatrix.structured import Projection

_EXACT = 1e-12  # relative error at which there is nothing left to gain
_CHECK_EVERY = 4  # sweeps, as the error costs as much as half a sweep
_LEAST_GAIN = 4e-4  # relative decrease of the error between checks that makes more of them worth it


def nearest_blast(matrix: np.ndarray, blocks: int, rank: int, steps: int = 20) -> Projection:
    """Return a BLAST matrix near to a matrix, by alternating least squares.

    Block `(i, j)` of `blocks × blocks` is `U_i diag(s_ij) V_jᵀ`. The search starts at the nearest
    matrix of this rank and its error never rises; the paper projects by gradient descent.
    """
    validation.nonnegative_integer(steps, "steps")
    start = block_tensor_train.nearest_low_rank(matrix, rank)
    (rows, columns), (left, right) = matrix.shape, start.factors
    grid = matrix.reshape(blocks, rows // blocks, blocks, columns // blocks).swapaxes(1, 2)
    left = left.reshape(blocks, -1, rank)
    right = right.T.reshape(blocks, -1, rank)
    scale, error = np.ones((blocks, blocks, rank)), start.error
    backwards = np.swapaxes(grid, 0, 1).swapaxes(2, 3)
    for step in range(1, (steps if error > _EXACT else 0) + 1):
        products = grid @ right
        left = _side_solved(left, products, right, scale)
        scale = _scale_solved(scale, products, left, right)
        right = _side_solved(right, backwards @ left, left, scale.swapaxes(0, 1))
        if step % _CHECK_EVERY == 0:
            found = _blast_dense(left, scale, right)
            before, error = error, structured.relative_error(matrix, found)
            if error <= _EXACT or before - error <= _LEAST_GAIN * before:
                break
    dense = _blast_dense(left, scale, right)
    sides = matrix.reshape(blocks, -1, columns), matrix.T.reshape(blocks, -1, rows)
    bound = max(structured.tail(side, rank) for side in sides)
    return structured.measured("blast", (left, scale, right), dense, matrix, bound)


def _side_solved(side, products, other, scale):
    """Return the best `U` for given `V` and `s`; `products` are `A_ij V_j`."""
    grams = np.swapaxes(other, 1, 2) @ other
    normal = np.einsum("jrs,ijr,ijs->irs", grams, scale, scale, optimize=True)
    target = (products * scale[:, :, None]).sum(axis=1)
    missing = np.swapaxes(target - side @ normal, 1, 2)
    return side + np.swapaxes(np.linalg.solve(structured.damped(normal), missing), 1, 2)


def _scale_solved(scale, products, left, right):
    """Return the best `s` for given `U` and `V`; `products` are `A_ij V_j`."""
    left_gram, right_gram = np.swapaxes(left, 1, 2) @ left, np.swapaxes(right, 1, 2) @ right
    normal = left_gram[:, None] * right_gram[None]
    target = (left[:, None] * products).sum(axis=2)
    missing = target[..., None] - normal @ scale[..., None]
    return scale + np.linalg.solve(structured.damped(normal), missing)[..., 0]


def _blast_dense(left, scale, right):
    blocks, height, _ = left.shape
    products = (left[:, None] * scale[:, :, None]) @ np.swapaxes(right, 1, 2)
    return products.swapaxes(1, 2).reshape(blocks * height, -1)
