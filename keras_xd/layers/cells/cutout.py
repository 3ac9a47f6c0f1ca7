"""Cutout: a square of each training image is set to zero."""

from typing import Unpack

import keras
from keras import ops

from keras_xd.core import validation
from keras_xd.core.configured import ConfiguredLayer, checked_data_format
from keras_xd.core.type_aliases import LayerOptions, Shape, Tensor


# Not `keras.layers.RandomErasing`: its patch lies inside the image, in shares of the sides. The
# middle of a cutout is any pixel, and near the borders its square sticks out of the image.
@keras.saving.register_keras_serializable(package="keras_xd")
class Cutout(ConfiguredLayer):
    """Sets a square of each image to zero, in training only.

    The middle of the square is any pixel with the same probability, another one for each image.
    With middle `c` it covers the rows `c - length // 2` to `c - length // 2 + length - 1`, and
    columns likewise, as far as they are in the image. Zero should be the mean of the pixels, so
    normalize images before.

    Args:
        length: integer, side of the square in pixels.
        data_format: `"channels_last"`, `"channels_first"` or `None` for Keras' default.
        seed: integer for reproducible places, or `None`.

    Input shape:
        `(batch, height, width, channels)`, or `(batch, channels, height, width)`. All sizes may
        be unknown.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> images = layers.Cutout(4, seed=1)(np.ones((2, 8, 8, 3)), training=True)
    >>> float(images.numpy().min()), images.shape
    (0.0, TensorShape([2, 8, 8, 3]))

    Reference:
        DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout",
        2017. The evaluation networks of "Neural Operator Search" use length 16.
    """

    def __init__(
        self,
        length: int = 16,
        data_format: str | None = None,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**kwargs)
        self.length = validation.positive_integer(length, "length")
        self.data_format = checked_data_format(data_format)
        self.seed = validation.seed(seed)
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.input_spec = keras.layers.InputSpec(ndim=4)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if not training:
            return inputs
        axes = (1, 2) if self.data_format == "channels_last" else (2, 3)
        rows, columns = (self._covered(inputs, axis) for axis in axes)
        hole = ops.logical_and(rows, columns)
        return ops.where(hole, ops.zeros((), inputs.dtype), inputs)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

    def _covered(self, inputs, axis):
        """Return which places of an axis each square covers, in the shape of `inputs` or 1."""
        shape = ops.shape(inputs)
        middle = keras.random.randint((shape[0], 1, 1, 1), 0, shape[axis], seed=self.seed_generator)
        places = [1, 1, 1, 1]
        places[axis] = -1
        offset = ops.reshape(ops.arange(shape[axis], dtype="int32"), places) - middle
        first = -(self.length // 2)
        return ops.logical_and(offset >= first, offset < first + self.length)
