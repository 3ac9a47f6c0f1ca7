"""Masks by which a part of a network that is already there can be made smaller."""

from typing import Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.type_aliases import Config, LayerOptions, Regularizer, Sizes, Tensor
from keras_xd.layers.masked import masks
from keras_xd.layers.masked.differentiable_mask import DifferentiableMask


@keras.saving.register_keras_serializable(package="keras_xd")
class RelativeMask(DifferentiableMask):
    """A mask divided by what it is where the search begins, so that it begins as 1 everywhere.

    `m(x) / m₀(x)`, where `m₀`, of the `initial_value` at its last point, is nowhere zero, changes a
    trained network nowhere at first; below the threshold it is 0, as is its gradient. A Gaussian
    mask can be as short as one point (two of an even number), so that a kernel of 3 can shrink.
    """

    fixed = ("initial_size", "minimum_size")

    def __init__(
        self,
        axis: Sizes = -1,
        profile: str = "sigmoid",
        temperature: float = 25.0,
        centre: float = 0.0,
        initial_value: float = masks.LARGEST_AT_END,
        threshold: float = masks.THRESHOLD,
        architecture_regularizer: Regularizer = None,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(
            axis,
            profile,
            temperature,
            centre,
            threshold=threshold,
            architecture_regularizer=architecture_regularizer,
            **kwargs,
        )
        limits = (threshold, masks.LARGEST_AT_END)
        self.initial_value = validation.number_within(initial_value, "[]", *limits, "initial_value")

    @property
    def values(self) -> list[Tensor]:
        """The mask along each axis, divided by what it was at first, a list of float tensors."""
        length = ops.convert_to_tensor(self.length)
        result = []
        for index, points in enumerate(self._points):
            start = self._start(points, self._range(points))
            first = self._mask(points, ops.convert_to_tensor(start, length.dtype))
            result.append(self._mask(points, length[index]) / first)
        return result

    @property
    def gates(self) -> Tensor:
        """How much of each point lies under the mask, for a mask of one axis: a float tensor.

        These are numbers from 0 to 1 whose sum is the size, with the gradient of the size at the
        last point that is not empty.
        """
        (size,), (points,) = self.sizes, self._points
        before = ops.arange(points, dtype=size.dtype)
        value = ops.stop_gradient(size)
        ends_here = ops.logical_or(value <= before + 1, before >= points - 1)
        moving = ops.logical_and(value > before, ends_here)
        step = masks.gradient_only(size)
        return ops.clip(value - before, 0, 1) + ops.cast(moving, size.dtype) * step

    @property
    def supports(self) -> list[np.ndarray]:
        """The numbers of the points that the mask leaves, a list of an integer array an axis."""
        return [np.flatnonzero(ops.convert_to_numpy(values)) for values in self.values]

    def architecture_signature(self) -> Config:
        """Return what tells the meaning of the variable: the kind of the mask, and its start."""
        return {**super().architecture_signature(), "initial_value": self.initial_value}

    def _range(self, points):
        low, high = super()._range(points)
        if self.profile == "gaussian":
            shortest = (1 + abs(self.centre)) / points
            if points % 2 == 0 and self.centre == 0:
                shortest = 1 / (points - 1)  # the two points about the centre
            low = masks.gaussian_width(self.threshold, shortest)
        return low, high

    def _start(self, points, limits):
        if self.profile == "sigmoid":
            return masks.sigmoid_offset(self.initial_value, 1, self.temperature)
        return masks.gaussian_width(self.initial_value, 1 + abs(self.centre))
