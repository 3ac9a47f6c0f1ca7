"""Geometry of a convolution's axis on a circle of padded size. Pure Python."""

import dataclasses
import warnings

import numpy as np

from keras_xd import kmatrix
from keras_xd.core import validation
from keras_xd.core.warning_location import stacklevel
from keras_xd.kmatrix.radix import check_radix, parameter_count

# A circle is large if its matrices have so many parameters, and so many times those of the next
# size that factors.
_MANY_PARAMETERS, _TIMES_AS_MANY = 10**6, 10


@dataclasses.dataclass(frozen=True)
class AxisGeometry:
    """One spatial axis of a convolution `y[t] = Σ_j w[j] · x[stride·t + dilation·j − left]`.

    Attributes:
        size: number of inputs `H`.
        output_size: number of outputs `T`.
        kernel_size: number of weights `k`.
        stride: distance of neighbouring outputs on the circle.
        dilation: distance of neighbouring weights.
        left: padding before the first input that a weight reaches.
        padded_size: size `n` of the circle on which the convolution is exact.
        input_stride: distance of neighbouring inputs on the circle.
        window: `(first, number)` of the weights that make up the window that padding and outputs
            are counted for.
    """

    size: int
    output_size: int
    kernel_size: int
    stride: int
    dilation: int
    left: int
    padded_size: int
    input_stride: int = 1
    window: tuple = None

    @property
    def is_circle(self):
        """Whether inputs and outputs are all points of the same circle."""
        whole = self.padded_size == self.size == self.output_size
        return whole and self.stride == self.input_stride == 1

    def tap_positions(self):
        """Return the place of each weight on the circle."""
        return (self.left - self.dilation * np.arange(self.kernel_size)) % self.padded_size

    def placed_weights(self):
        """Return for each point of the circle the index of the weight there, −1 for none."""
        weights = np.full(self.padded_size, -1)
        weights[self.tap_positions()] = np.arange(self.kernel_size)
        return weights

    def placement(self):
        """Return the `(n, k)` zero-one array that puts the weights in their places."""
        return (self.placed_weights()[:, None] == np.arange(self.kernel_size)).astype(float)

    def placement_order(self):
        """Return a permutation of the circle that puts weight `j` where `placement` does."""
        order = self.placed_weights()
        order[order < 0] = np.arange(self.kernel_size, self.padded_size)
        return order

    def window_filter(self):
        """Return the filter of ones in the window, on the circle."""
        first, number = self.window
        weights = self.placed_weights()
        return ((weights >= first) & (weights < first + number)).astype(float)

    def inputs_in_window(self):
        """Return for each output how many inputs of its window are not padding."""
        first, number = self.window
        if self.padded_size == self.size:
            return np.full(self.output_size, number)  # circular: nothing is padding
        starts = self.stride * np.arange(self.output_size)[:, None] - self.left
        sources = starts + self.dilation * np.arange(first, first + number)
        return np.sum((sources >= 0) & (sources < self.size), axis=1)


@dataclasses.dataclass(frozen=True)
class TransposedAxisGeometry(AxisGeometry):
    """One spatial axis of a transposed convolution: `y[input_stride·s + dilation·j − left]` gets
    `w[j] · x[s]` for all `s` and `j`.
    """

    def tap_positions(self):
        """Return the place of each weight on the circle."""
        return (self.dilation * np.arange(self.kernel_size) - self.left) % self.padded_size


@dataclasses.dataclass(frozen=True)
class CausalAxisGeometry(AxisGeometry):
    """One time axis of an operation whose frequencies are ordered in time."""

    def placed_weights(self):
        """Return for each frequency the index of its weight."""
        delays = -np.arange(self.padded_size) % self.kernel_size
        return self.kernel_size - 1 - delays


def axis_geometry(
    size, kernel_size, stride, dilation, padding, radix=None, window_size=None, least=1
):
    """Return the `AxisGeometry` of one axis, whose circle has `least` points or more.

    Without wrapping the circle must have `n ≥ max(H + left, stride·(T−1) + span − left)` points,
    `span = dilation·(k−1) + 1`, and room for all weights; the cheapest such size is taken.
    With `padding="circular"` it is the axis itself, `n = H`.
    """
    window_size = kernel_size if window_size is None else window_size
    first = (kernel_size - window_size) // 2
    span = dilation * (window_size - 1) + 1
    if padding == "valid":
        outputs, left = (size - span) // stride + 1, 0
    elif padding == "causal":
        outputs, left = -(-size // stride), span - 1
    else:
        outputs = -(-size // stride)
        left = max((outputs - 1) * stride + span - size, 0) // 2
    left += dilation * first
    full_span = dilation * (kernel_size - 1) + 1
    widest = full_span if padding == "circular" else span
    if padding in ("valid", "circular") and widest > size:
        raise ValueError(
            "The kernel must not be larger than the padded input. "
            f"Received: kernel_size={kernel_size}, dilation_rate={dilation} (spanning {widest}), "
            f"input size {size}, padding={padding!r}"
        )
    if padding == "circular":
        kmatrix.radix.factorise(size, radix)
        padded = size
    else:
        need = max(size + left, stride * (outputs - 1) + full_span - left, full_span, least)
        padded = kmatrix.padded_size(need, radix)
    window = (first, window_size)
    return AxisGeometry(size, outputs, kernel_size, stride, dilation, left, padded, window=window)


def transposed_axis_geometry(
    size, kernel_size, stride, dilation, padding, output_padding=None, radix=None
):
    """Return the `TransposedAxisGeometry` of one axis of a transposed convolution.

    Output sizes and padding are Keras'. The circle must have
    `n ≥ max(stride·(H−1) + span − left, T + left)` points; with `padding="circular"` it has
    `n = stride·H = T`.
    """
    span = dilation * (kernel_size - 1) + 1
    smallest = stride * (size - 1) + span
    if padding == "valid":
        outputs = size * stride + max(span - stride, 0)
        if output_padding is not None:
            outputs = smallest + output_padding
        left = 0
    else:
        outputs = size * stride
        if output_padding is not None and padding == "same":
            outputs = smallest - 2 * (span // 2) + output_padding
        left = max(smallest - outputs, 0) // 2
    if outputs < 1 or (padding == "circular" and span > outputs):
        raise ValueError(
            "A transposed convolution must have outputs, and with padding='circular' at least as "
            f"many as its kernel spans. Received: input size {size}, kernel_size={kernel_size}, "
            f"strides={stride}, dilation_rate={dilation}, output_padding={output_padding}, "
            f"{padding=}"
        )
    if padding == "circular":
        kmatrix.radix.factorise(outputs, radix)
        padded = outputs
    else:
        padded = kmatrix.padded_size(max(smallest - left, outputs + left, smallest), radix)
    window = (0, kernel_size)
    return TransposedAxisGeometry(
        size, outputs, kernel_size, 1, dilation, left, padded, stride, window
    )


def causal_axis_geometry(size, kernel_size, stride, dilation):
    """Return the `CausalAxisGeometry` of one axis: `n = k (H − 1) + 1`, and as many outputs as
    `padding="causal"` has.
    """
    n, outputs = kernel_size * (size - 1) + 1, -(-size // stride)
    return CausalAxisGeometry(
        size,
        outputs,
        kernel_size,
        kernel_size * stride,
        dilation,
        left=0,
        padded_size=n,
        input_stride=kernel_size,
        window=(0, kernel_size),
    )


def warn_of_large_circles(name, plans, radices, depths):
    """Warn of circular axes whose size has a large prime factor, which makes matrices
    nearly dense.
    """
    for axis, (plan, radix) in enumerate(zip(plans, radices, strict=True)):
        if isinstance(radix, tuple):
            continue
        other = kmatrix.padded_size(plan.n, radix)
        count, least = (
            sum(parameter_count(n, kmatrix.radix.factorise(n, radix), depth) for depth in depths)
            for n in (plan.n, other)
        )
        if count >= max(_MANY_PARAMETERS, _TIMES_AS_MANY * least):
            warnings.warn(
                f"Layer '{name}' is circular on axis {axis} of size {plan.n}, whose largest prime "
                f"factor leaves blocks of {max(plan.radices)} × {max(plan.radices)}: K, L and M of "
                f"this axis have {count:,} parameters. Of size {other} they would have {least:,}: "
                "resize or pad the inputs, or take a padding other than 'circular', for which a "
                "size that factors is chosen.",
                UserWarning,
                stacklevel=stacklevel(),
            )


def radix_argument(radix):
    """Return a radix argument, whatever the rank, with tuples for lists, or raise `ValueError`."""
    nested = isinstance(radix, (tuple, list)) and not all(map(validation.is_integer, radix))
    radices = axis_radices(radix, len(radix) if nested else 1)
    return radices if nested else radices[0]


def axis_radices(radix, rank):
    """Return the radix argument of each axis."""
    if isinstance(radix, (list, tuple)):
        radix = tuple(tuple(r) if isinstance(r, list) else r for r in radix)
    nested = isinstance(radix, tuple) and any(not validation.is_integer(r) for r in radix)
    radices = radix if nested else (radix,) * rank
    if len(radices) != rank:
        raise ValueError(
            f"`radix` must have one entry for each of the {rank} axes. Received: radix={radix!r}"
        )
    for axis_radix in radices:
        check_radix(axis_radix)
    return radices
