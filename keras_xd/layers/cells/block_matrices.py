"""Matrices of several edges as one."""

import numpy as np
from keras import ops

from keras_xd.core.type_aliases import Tensor


def side_by_side(matrices: Tensor) -> Tensor:
    """Return the matrix by which features are multiplied by several matrices at once.

    Args:
        matrices: `(edges, inputs, outputs)`.

    Returns:
        A tensor `(inputs, edges * outputs)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd.layers.cells.block_matrices import side_by_side
    >>> np.array(side_by_side(np.array([[[1], [2]], [[3], [4]]]))).tolist()
    [[1, 3], [2, 4]]
    """
    count, inputs, outputs = matrices.shape
    if count > 1:
        matrices = ops.transpose(matrices, (1, 0, 2))
    return ops.reshape(matrices, (inputs, count * outputs))


def block_diagonal(matrices: Tensor) -> Tensor:
    """Return matrices by which each edge's own features are multiplied, side by side.

    Args:
        matrices: `(edges, number, inputs, outputs)`, a number of matrices for each edge.

    Returns:
        A tensor `(number, edges * inputs, edges * outputs)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd.layers.cells.block_matrices import block_diagonal
    >>> two = np.array([[[[1.0], [2.0]]], [[[3.0], [4.0]]]], "float32")
    >>> np.array(block_diagonal(two)[0]).tolist()
    [[1.0, 0.0], [2.0, 0.0], [0.0, 3.0], [0.0, 4.0]]
    """
    count, number, inputs, outputs = matrices.shape
    if count > 1:
        own = ops.cast(np.eye(count, dtype="float32"), matrices.dtype)
        matrices = ops.expand_dims(ops.transpose(matrices, (1, 0, 2, 3)), 3)
        matrices = matrices * ops.reshape(own, (count, 1, count, 1))
    return ops.reshape(matrices, (number, count * inputs, count * outputs))
