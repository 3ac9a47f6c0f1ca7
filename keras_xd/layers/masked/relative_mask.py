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

    A `DifferentiableMask` `m(x)` of some length reaches 1 nowhere but at one end or at the centre:
    put into a trained network it would change it. `m(x) / m₀(x)`, where `m₀` is the mask at the
    beginning and nowhere zero, changes nothing at first. It is the same as dividing the weights
    that are masked by `m₀`, but leaves the weights as they are. Where `m` is below the threshold
    it is 0, as is its gradient.

    The layers of `keras_xd.rewrite(model, to="masked")` share such masks. Sizes are those of
    `DifferentiableMask`. Of the range, one end is different: a Gaussian mask can be as short as one
    point (two of an even number about their centre), since a kernel of 3 could not shrink else.

    Args:
        axis, shape, temperature, centre, threshold, architecture_regularizer: as in
            `DifferentiableMask`.
        initial_value: the value of `m₀` at the last point, from the threshold to 0.85.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> mask = layers.RelativeMask()
    >>> np.round(mask(np.ones((1, 4))), 3)
    array([[1., 1., 1., 1.]], dtype=float32)
    >>> _ = mask.length.assign([0.0])
    >>> np.round(mask(np.ones((1, 4))), 3)
    array([[1., 1., 0., 0.]], dtype=float32)
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
