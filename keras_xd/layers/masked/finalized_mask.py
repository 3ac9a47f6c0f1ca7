"""Masks that are found: fixed numbers that features are multiplied by."""

import math
from typing import Unpack

import keras
from keras import ops

from keras_xd.core import validation
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.protocol import add_bounded_weight
from keras_xd.core.type_aliases import LayerOptions, Shape, Sizes, Tensor


@keras.saving.register_keras_serializable(package="keras_xd")
class StaticMask(ConfiguredLayer):
    """Multiplies its inputs by fixed numbers along one or several axes.

    A `DifferentiableMask` becomes one by `finalize()`.

    Args:
        axis: integer or tuple of integers, not the batch's axis.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> searched = layers.DifferentiableMask(profile="gaussian")
    >>> _ = searched(np.ones((1, 9)))
    >>> np.round(searched.finalize()(np.ones((1, 9)))[0], 1)
    array([0. , 0. , 0. , 0.1, 1. , 0.1, 0. , 0. , 0. ], dtype=float32)
    """

    add_weight = add_bounded_weight

    def __init__(self, axis: Sizes = -1, **kwargs: Unpack[LayerOptions]):
        super().__init__(**kwargs)
        self.axis = axis if validation.is_integer(axis) else validation.collection(axis, "axis")

    def build(self, input_shape: Shape) -> None:
        self._axes = inner_axes(self.axis, input_shape, self.name)
        sizes = {axis: input_shape[axis] for axis in self._axes}
        self.input_spec = keras.layers.InputSpec(ndim=len(input_shape), axes=sizes)
        self.masks = tuple(
            self.add_weight(
                name=f"mask{axis}",
                shape=(size,),
                initializer="ones",
                trainable=False,
                autocast=False,
            )
            for axis, size in sizes.items()
        )

    def call(self, inputs: Tensor) -> Tensor:
        return multiply_along(inputs, self._axes, self.masks)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiplications of one sample."""
        return math.prod(input_shape[1:])


def multiply_along(inputs, axes, values):
    """Multiply a tensor by one vector along each of the axes."""
    rank = len(inputs.shape)
    for axis, mask in zip(axes, values, strict=True):
        shape = [1] * rank
        shape[axis] = -1
        inputs = inputs * ops.reshape(ops.cast(mask, inputs.dtype), shape)
    return inputs


def inner_axes(axis, shape, layer_name):
    """Return axes counted from the start as a tuple."""
    given = (axis,) if validation.is_integer(axis) else axis
    rank = len(shape)
    axes = tuple(a + rank if a < 0 else a for a in given)
    if not all(0 < a < rank for a in axes) or len(set(axes)) < len(axes):
        raise ValueError(
            f"Layer '{layer_name}' needs different axes of its inputs other than the batch's. "
            f"Received: axis={axis}, input_shape={tuple(shape)}"
        )
    return axes
