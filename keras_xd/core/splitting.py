"""Tensors cut into parts of known sizes, as one operation."""

import itertools
from collections.abc import Sequence

import keras
from keras import ops

from keras_xd.core.type_aliases import Tensor


def split(x: Tensor, sizes: Sequence[int], axis: int) -> list[Tensor]:
    """Return the parts of a tensor along an axis."""
    if len(sizes) == 1:
        return [x]
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.split(x, list(sizes), axis=axis)
    if backend == "torch":
        import torch

        # Keras makes the sizes a tensor and reads it back, which waits for a GPU.
        return list(torch.split(x, list(sizes), dim=axis))
    return ops.split(x, list(itertools.accumulate(sizes))[:-1], axis=axis)
