"""Differentiable masks: how long a part of a network is, as a continuous number that is learned."""

import math
from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.type_aliases import Tensor

# Below this value a mask is zero.
THRESHOLD = 0.1
# Value of a sigmoid mask at the lowest coordinate when it is as short as it may be, and of any mask
# at the highest coordinate when it is as long as it may be.
LARGEST_AT_START = 0.95
LARGEST_AT_END = 0.85
# Width of a Gaussian mask at the beginning of a search.
INITIAL_WIDTH = 0.0325
# A value that equals the threshold except for float32 rounding is not below it.
_ROUNDING = 1e-5


def coordinates(points: int) -> np.ndarray:
    """Return the coordinates of an axis of at least 2 points, evenly spaced from -1 to 1."""
    if points < 2:
        raise ValueError(f"A mask needs an axis of at least 2 points. Received: points={points!r}")
    validation.matrix_numbers(points, "a mask")
    return np.linspace(-1.0, 1.0, points)


def gaussian(
    x: Tensor, width: float | Tensor, centre: float = 0.0, threshold: float = THRESHOLD
) -> Tensor:
    """Return `exp(-(x - centre)² / (2 width²))` (equation 1), 0 below the threshold."""
    distance = (_tensor(x, width) - centre) / width
    return _above(ops.exp(-0.5 * ops.square(distance)), threshold)


def sigmoid(
    x: Tensor, offset: float | Tensor, temperature: float, threshold: float = THRESHOLD
) -> Tensor:
    """Return `sigmoid(temperature (offset - x))` (equation 2), 0 below the threshold."""
    return _above(ops.sigmoid(temperature * (offset - _tensor(x, offset))), threshold)


def product(values: Sequence[Tensor]) -> Tensor:
    """Return the mask over several axes that is the product of one mask for each of them."""
    result = values[0]
    for mask in values[1:]:
        result = ops.expand_dims(result, -1) * mask
    return result


def support(values: Tensor) -> tuple[int, int]:
    """Return `(start, stop)`, Python integers, of the points where a mask is not zero."""
    used = np.flatnonzero(ops.convert_to_numpy(values))
    return int(used[0]), int(used[-1]) + 1


def gaussian_edge(width: float | Tensor, threshold: float = THRESHOLD) -> float | Tensor:
    """Return the distance from the centre where a Gaussian mask is the threshold (equation 3)."""
    return width * math.sqrt(-2 * math.log(threshold))


def sigmoid_edge(
    offset: float | Tensor, temperature: float, threshold: float = THRESHOLD
) -> float | Tensor:
    """Return the coordinate at which a sigmoid mask falls to the threshold (equation 4)."""
    return offset - math.log(1 / (1 - threshold) - 1) / temperature


def gaussian_width(value: float, distance: float) -> float:
    """Return the width of the Gaussian mask that has a value at a distance from its centre."""
    return distance / math.sqrt(-2 * math.log(value))


def sigmoid_offset(value: float, x: float, temperature: float) -> float:
    """Return the offset of the sigmoid mask that has a value at the coordinate `x`."""
    return x + math.log(value / (1 - value)) / temperature


def gaussian_size(
    points: int,
    width: float | Tensor,
    centre: float = 0.0,
    threshold: float = THRESHOLD,
) -> float | Tensor:
    """Return the number of points under a Gaussian mask, differentiable in `width` (equation 9).

    It is `points` for the length that covers the axis from the centre to its farther end, and may
    exceed that: see `clip_straight_through`.
    """
    return points * gaussian_edge(width, threshold) / (1 + abs(centre))


def sigmoid_size(
    points: int,
    offset: float | Tensor,
    temperature: float,
    threshold: float = THRESHOLD,
    initial: float | None = None,
) -> float | Tensor:
    """Return the number of points under a sigmoid mask, differentiable in `offset` (equation 10).

    It is `points` for the mask of the offset `initial`, by default for the length that covers the
    axis, and may exceed that. From the initial offset of a mask that begins longer than its axis,
    as in the paper, a full axis is smaller than `points`.
    """
    whole = 2 if initial is None else 1 + sigmoid_edge(initial, temperature, threshold)
    return points * (1 + sigmoid_edge(offset, temperature, threshold)) / whole


def clip_straight_through(value: float | Tensor, low: float, high: float) -> Tensor:
    """Return `value` within `[low, high]`, with the gradient of `value` outside too."""
    value = ops.convert_to_tensor(value)
    return value + ops.stop_gradient(ops.clip(value, low, high) - value)


def gradient_only(value: float | Tensor) -> Tensor:
    """Return 0, with the gradient of `value`."""
    value = ops.convert_to_tensor(value)
    return value - ops.stop_gradient(value)


def gaussian_range(
    points: int, centre: float = 0.0, threshold: float = THRESHOLD
) -> tuple[float, float]:
    """Return the smallest and the largest admissible width, Python numbers.

    The smallest mask falls to the threshold one grid step from its centre. The largest has the
    value 0.85 at the farther end of the axis.
    """
    step = 2 / (len(coordinates(points)) - 1)
    return gaussian_width(threshold, step), gaussian_width(LARGEST_AT_END, 1 + abs(centre))


def sigmoid_range(temperature: float, threshold: float = THRESHOLD) -> tuple[float, float]:
    """Return the smallest and the largest admissible offset, Python numbers.

    The smallest mask has the value 0.95 at the lowest coordinate, which takes some length at its
    temperature; the largest has 0.85 at the highest.
    """
    validation.positive_number(temperature, "temperature")
    low = sigmoid_offset(LARGEST_AT_START, -1, temperature)
    least = sigmoid_size(1, low, temperature, threshold)
    if least >= 1:
        raise ValueError(
            "`temperature` must be so high that the smallest mask is shorter than its axis: it "
            f"takes {least * temperature:.4g} / temperature of it. "
            f"Received: temperature={temperature}, which takes {least:.4g}"
        )
    return low, sigmoid_offset(LARGEST_AT_END, 1, temperature)


def _tensor(x, like):
    """Return coordinates as a tensor of the type of a parameter."""
    return ops.convert_to_tensor(x, getattr(like, "dtype", None) or "float32")


def _above(values, threshold):
    return ops.where(values >= threshold * (1 - _ROUNDING), values, ops.zeros_like(values))
