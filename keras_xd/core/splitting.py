"""Tensors cut into parts of known sizes, as one operation."""

import itertools
from collections.abc import Sequence

import keras
from keras import ops

from keras_xd.core.type_aliases import Tensor


def split(x: Tensor, sizes: Sequence[int], axis: int) -> list[Tensor]:
    """Return the parts of a tensor along an axis.

    `keras.ops.split` works out the sizes from the places of the cuts, on TensorFlow in a dozen
    operations that take longer than the cutting.

    Args:
        x: the tensor.
        sizes: the sizes of its parts, which together are that of the axis.
        axis: the axis.

    Example:

    >>> import numpy as np
    >>> from keras_xd.core import splitting
    >>> [part.shape[1] for part in splitting.split(np.ones((2, 6)), (1, 2, 3), axis=1)]
    [1, 2, 3]
    """
    if len(sizes) == 1:
        return [x]
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.split(x, list(sizes), axis=axis)
    return ops.split(x, list(itertools.accumulate(sizes))[:-1], axis=axis)
