"""Masks that learn how much of an axis is used."""

import math
from typing import Unpack

import keras
import numpy as np
from keras import ops, regularizers

from keras_xd.core import validation
from keras_xd.core.configured import ConfiguredLayer, built_like
from keras_xd.core.searchable import SearchableLayer
from keras_xd.core.type_aliases import (
    Config,
    Description,
    InitialSize,
    LayerOptions,
    Regularizer,
    Shape,
    Sizes,
    Tensor,
)
from keras_xd.layers.masked import masks
from keras_xd.layers.masked.finalized_mask import StaticMask, inner_axes, multiply_along

PROFILES = ("sigmoid", "gaussian")


@keras.saving.register_keras_serializable(package="keras_xd")
class DifferentiableMask(ConfiguredLayer, SearchableLayer):
    """Multiplies its inputs by a mask along one or several axes, whose length is learned.

    The points of each axis have the coordinates `x` from -1 to 1. With the threshold 0.1

        sigmoid:   m(x) = 1 - 1 / (1 + exp(-temperature (x - offset))), which keeps the first points
        gaussian:  m(x) = exp(-(x - centre)² / (2 width²)), which keeps those around the centre

    and 0 where that is below the threshold. Each axis has an offset or a width of its own; the mask
    is the product over the axes. Points of the value 0 get no gradient and can be cut off.

    A size is the number of points under the mask as a continuous number: `points · x_T` or
    `points · (x_T + 1) / 2`, where `x_T` is the coordinate of the threshold, clipped to the axis
    with the gradient of what was clipped. After every step of an optimizer the variable is set
    back into its admissible range: the smallest sigmoid mask has the value 0.95 at the first point,
    the smallest Gaussian one falls to the threshold within one point, and the largest masks have
    0.85 at the last.

    Args:
        axis: integer or tuple of integers, not the batch's axis. Negative ones count from the end.
        profile: `"sigmoid"` or `"gaussian"`.
        temperature: steepness of the sigmoid, which is not learned. A sigmoid mask takes at least
            2.57 / temperature of its axis.
        centre: coordinate of the Gaussian's largest value, which is not learned.
        initial_size: the size that each axis begins with: a number of points, `"half"` of the axis,
            `"full"` (the largest mask), or `None`: `"half"` for a sigmoid; for a Gaussian a width
            of 0.0325, or the smallest if that is more.
        minimum_size: number of points that no step may go below, or `None`.
        threshold: the smallest value that is not set to zero.
        architecture_regularizer: regularizer of the variable.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> mask = layers.DifferentiableMask()
    >>> outputs = mask(np.ones((1, 5, 280)))
    >>> int(np.count_nonzero(outputs[0, 0])), round(mask.describe()["size"], 3)
    (140, 140.0)

    Reference:
        Romero and Zeghidour, "DNArch", 2023, sections 2.1 and 2.5.
    """

    static_class, static_argument = StaticMask, "axis"
    earlier_names = {"shape": "profile"}

    def __init__(
        self,
        axis: Sizes = -1,
        profile: str = "sigmoid",
        temperature: float = 25.0,
        centre: float = 0.0,
        initial_size: InitialSize = None,
        minimum_size: float | None = None,
        threshold: float = masks.THRESHOLD,
        architecture_regularizer: Regularizer = None,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**kwargs)
        axes = (axis,) if validation.is_integer(axis) else axis
        if not isinstance(axes, (tuple, list)) or not axes or not all(map(_is_inner, axes)):
            raise ValueError(
                "`axis` must be an integer or a tuple of integers other than 0, the batch. "
                f"Received: axis={axis!r}"
            )
        self.axis = axis if validation.is_integer(axis) else tuple(axis)
        self.profile = validation.one_of(profile, PROFILES, "profile")
        limits = (0, masks.LARGEST_AT_END)
        self.threshold = validation.number_within(threshold, "()", *limits, "threshold")
        masks.sigmoid_range(temperature, threshold)
        self.temperature = temperature
        self.centre = validation.number_within(centre, "[]", -1, 1, "centre")
        if not (_is_positive(initial_size) or initial_size in (None, "half", "full")):
            raise ValueError(
                "`initial_size` must be a positive number, 'half', 'full' or None. "
                f"Received: initial_size={initial_size!r}"
            )
        self.initial_size = initial_size
        if minimum_size is not None:
            validation.positive_number(minimum_size, "minimum_size")
        self.minimum_size = minimum_size
        self.architecture_regularizer = regularizers.get(architecture_regularizer)

    def build(self, input_shape: Shape) -> None:
        self._axes = self._checked_axes(input_shape)
        self._points = tuple(input_shape[axis] for axis in self._axes)
        self.input_spec = keras.layers.InputSpec(
            ndim=len(input_shape), axes=dict(zip(self._axes, self._points, strict=True))
        )
        for points in self._points:
            masks.coordinates(points)  # refuses an axis of one point
        limits = [self._range(points) for points in self._points]
        start = [self._start(n, limit) for n, limit in zip(self._points, limits, strict=True)]
        self.length = self.add_weight(
            name="offset" if self.profile == "sigmoid" else "width",
            shape=(len(start),),
            initializer=lambda shape, dtype=None: ops.convert_to_tensor(start, dtype),
            regularizer=self.architecture_regularizer,
            constraint=AdmissibleRange(*zip(*limits, strict=True)),
            autocast=False,
        )

    @property
    def architecture_variables(self) -> list[keras.Variable]:
        """The variable of all offsets or widths."""
        return [self.length]

    @property
    def initial_sizes(self) -> list[float]:
        """The sizes that the mask begins with, numbers; of a built mask."""
        starts = [self._start(n, self._range(n)) for n in self._points]
        return [min(n, self._size(n, start)) for n, start in zip(self._points, starts, strict=True)]

    @property
    def values(self) -> list[Tensor]:
        """The mask along each axis, a list of float tensors."""
        length = ops.convert_to_tensor(self.length)
        return [self._mask(n, length[index]) for index, n in enumerate(self._points)]

    @property
    def sizes(self) -> list[Tensor]:
        """The size of the mask along each axis, a list of differentiable scalars."""
        length = ops.convert_to_tensor(self.length)
        return [
            masks.clip_straight_through(self._size(n, length[index]), 1, n)
            for index, n in enumerate(self._points)
        ]

    @property
    def counts(self) -> list[Tensor]:
        """The number of points that the mask leaves along each axis, with the gradient of the size.

        Whole numbers as floats, so that what is counted in a search is what is left of the model.
        """
        pairs = zip(self.values, self.sizes, strict=True)
        return [
            ops.sum(ops.cast(values > 0, size.dtype)) + masks.gradient_only(size)
            for values, size in pairs
        ]

    @property
    def presence(self) -> Tensor:
        """Which points a mask of one axis leaves, 1 or 0, whose sum has the gradient of the size.

        The last point that is left has it.
        """
        (size,), (values,) = self.sizes, self.values
        left = ops.cast(values > 0, size.dtype)
        last = left - ops.concatenate([left[1:], ops.zeros((1,), size.dtype)])
        return left + last * masks.gradient_only(size)

    def call(self, inputs: Tensor) -> Tensor:
        return multiply_along(inputs, self._axes, self.values)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        self._checked_axes(input_shape)
        return tuple(input_shape)

    def complexity(self, input_shape: Shape) -> float | Tensor:
        """Multiplications of one sample: one for each entry under the mask."""
        axes = self._checked_axes(input_shape)
        others = [n for axis, n in enumerate(input_shape) if axis and axis not in axes]
        return math.prod(others) * math.prod(self.sizes)

    def finalize(self) -> keras.layers.Layer:
        """Return a built layer of the values that the mask has, fixed."""
        static = built_like(self, self.static_class, getattr(self, self.static_argument))
        for weight, values in zip(static.masks, self.values, strict=True):
            weight.assign(values)
        return static

    def describe(self) -> Description:
        """Return `size`, the number of `points` in use, the `edge` and the `mask` of each axis.

        `edge` is the coordinate of the threshold, for a Gaussian its distance from the centre, and
        `offset` or `width` the variable. Of several axes each name ends with `/` and the axis.
        """
        name = "offset" if self.profile == "sigmoid" else "width"
        variable = [float(value) for value in ops.convert_to_numpy(self.length)]
        result = {}
        axes = zip(self._axes, variable, self.sizes, self.values, strict=True)
        for axis, length, size, values in axes:
            values = ops.convert_to_numpy(values)
            found = {
                "size": float(size),
                "points": float(np.count_nonzero(values)),
                "edge": float(self._edge(length)),
                name: length,
                "mask": values,
            }
            ending = f"/{axis}" if len(variable) > 1 else ""
            result |= {f"{key}{ending}": value for key, value in found.items()}
        return result

    def architecture_signature(self) -> Config:
        """Return what tells the meaning of the variable: the kind of the mask."""
        kind = {"sigmoid": "temperature", "gaussian": "centre"}[self.profile]
        signature = {"shape": self.profile, kind: getattr(self, kind), "threshold": self.threshold}
        return {**super().architecture_signature(), **signature}

    def random_architecture(self, generator: np.random.Generator) -> list[np.ndarray]:
        """Return lengths whose sizes are drawn evenly from the admissible ones up to the axis."""
        lengths = []
        for points in self._points:
            low, high = self._range(points)
            whole = min(high, self._length_of(points, points))
            lengths.append(generator.uniform(low, max(low, whole)))
        return [np.array(lengths)]

    def _checked_axes(self, shape):
        """Return the axes counted from the start."""
        axes = inner_axes(self.axis, shape, self.name)
        if any(shape[axis] is None for axis in axes):
            raise validation.UnknownSizeError(
                f"Layer '{self.name}' needs the sizes of the axes that it masks to be known. Give "
                f"the model's Input a complete shape. Received: axis={self.axis}, "
                f"input_shape={tuple(shape)}"
            )
        return axes

    def _mask(self, points, length):
        x = masks.coordinates(points)
        if self.profile == "sigmoid":
            return masks.sigmoid(x, length, self.temperature, self.threshold)
        return masks.gaussian(x, length, self.centre, self.threshold)

    def _edge(self, length):
        if self.profile == "sigmoid":
            return masks.sigmoid_edge(length, self.temperature, self.threshold)
        return masks.gaussian_edge(length, self.threshold)

    def _size(self, points, length):
        """Return the size without clipping."""
        if self.profile == "sigmoid":
            return masks.sigmoid_size(points, length, self.temperature, self.threshold)
        return masks.gaussian_size(points, length, self.centre, self.threshold)

    def _length_of(self, points, size):
        """Return the offset or width of a mask of some size."""
        if self.profile == "sigmoid":
            return masks.sigmoid_offset(self.threshold, 2 * size / points - 1, self.temperature)
        return masks.gaussian_width(self.threshold, (1 + abs(self.centre)) * size / points)

    def _range(self, points):
        """Return the limits of the variable for an axis."""
        if self.profile == "sigmoid":
            low, high = masks.sigmoid_range(self.temperature, self.threshold)
        else:
            low, high = masks.gaussian_range(points, self.centre, self.threshold)
        if self.minimum_size is not None:
            self._check_size(points, low, high, "minimum_size")
            low = self._length_of(points, self.minimum_size)
        return low, high

    def _start(self, points, limits):
        """Return the first value of the variable for an axis."""
        if _is_positive(self.initial_size):
            self._check_size(points, *limits, "initial_size")
            return self._length_of(points, self.initial_size)
        if self.initial_size == "full":
            return limits[1]
        if self.initial_size is None and self.profile == "gaussian":
            return max(masks.INITIAL_WIDTH, limits[0])
        return max(self._length_of(points, points / 2), limits[0])

    def _check_size(self, points, low, high, name):
        least, most = self._size(points, low), min(points, self._size(points, high))
        value = getattr(self, name)
        if not least * (1 - 1e-6) <= value <= most:
            kind = (
                f"temperature={self.temperature} (the smallest size is 2.57 / temperature of the "
                "axis, if `minimum_size` is not more)"
                if self.profile == "sigmoid"
                else f"centre={self.centre}"
            )
            raise ValueError(
                f"`{name}` must be a size that the mask can have, from {least:.4g} to {most:.4g} "
                f"of {points} points. Received: {name}={value}, {kind}"
            )


@keras.saving.register_keras_serializable(package="keras_xd")
class AdmissibleRange(keras.constraints.Constraint):
    """Keeps each entry of a variable between two numbers."""

    def __init__(self, low, high):
        self.low, self.high = low, high

    def __call__(self, w):
        w = ops.convert_to_tensor(w)
        low, high = (ops.convert_to_tensor(limit, w.dtype) for limit in (self.low, self.high))
        return ops.minimum(ops.maximum(w, low), high)

    def get_config(self):
        return {"low": self.low, "high": self.high}


def _is_inner(axis):
    return validation.is_integer(axis) and axis != 0


def _is_positive(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
