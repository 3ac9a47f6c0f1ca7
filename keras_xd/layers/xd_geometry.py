"""Where a convolution's inputs, outputs and weights lie on a circle of padded size. Pure Python."""

import dataclasses

import numpy as np

from keras_xd import kmatrix, validation


@dataclasses.dataclass(frozen=True)
class AxisGeometry:
    """One spatial axis of a convolution `y[t] = Σ_j w[j] · x[stride·t + dilation·j − left]`.

    Attributes:
        size: number of inputs `H`.
        output_size: number of outputs `T`.
        kernel_size: number of weights `k`.
        stride: distance of neighbouring outputs.
        dilation: distance of neighbouring weights.
        left: padding before the first input.
        padded_size: size `n` of the circle on which the convolution is exact.
    """

    size: int
    output_size: int
    kernel_size: int
    stride: int
    dilation: int
    left: int
    padded_size: int

    def placement(self):
        """Return the `(n, k)` zero-one array with weight `j` at `(left − dilation·j) mod n`."""
        array = np.zeros((self.padded_size, self.kernel_size), dtype="float32")
        taps = np.arange(self.kernel_size)
        array[(self.left - self.dilation * taps) % self.padded_size, taps] = 1.0
        return array

    def placement_order(self):
        """Return a permutation of the circle that puts weight `j` where `placement` does."""
        n = self.padded_size
        places = (self.left - self.dilation * np.arange(self.kernel_size)) % n
        order = np.full(n, -1)
        order[places] = np.arange(self.kernel_size)
        order[order < 0] = np.arange(self.kernel_size, n)
        return order

    def inputs_in_window(self):
        """Return for each output how many of its `kernel_size` inputs are not padding."""
        starts = self.stride * np.arange(self.output_size)[:, None] - self.left
        sources = starts + self.dilation * np.arange(self.kernel_size)
        if self.padded_size == self.size:
            return np.full(self.output_size, self.kernel_size)  # circular: nothing is padding
        return np.sum((sources >= 0) & (sources < self.size), axis=1)


def axis_geometry(size, kernel_size, stride, dilation, padding, radix=None):
    """Return the `AxisGeometry` of one axis.

    Without wrapping the circle must have `n ≥ max(H + left, stride·(T−1) + span − left)` points,
    `span = dilation·(k−1) + 1`, and room for all weights; the cheapest such size is taken.
    With `padding="circular"` it is the axis itself, `n = H`.

    Args:
        size: number of inputs.
        kernel_size, stride, dilation: the convolution's, along this axis.
        padding: "valid", "same", "causal" or "circular". "same" and "circular" have the same number
            of outputs and the same left padding, filled with zeros or with the other end.
        radix: as in `kmatrix.factorise`.

    Raises:
        ValueError: if the kernel is larger than the padded input or the radices do not fit.
    """
    span = dilation * (kernel_size - 1) + 1
    if padding == "valid":
        outputs, left = (size - span) // stride + 1, 0
    elif padding == "causal":
        outputs, left = -(-size // stride), span - 1
    else:
        outputs = -(-size // stride)
        left = max((outputs - 1) * stride + span - size, 0) // 2
    if padding in ("valid", "circular") and span > size:
        raise ValueError(
            "The kernel must not be larger than the padded input. "
            f"Received: kernel_size={kernel_size}, dilation_rate={dilation} (spanning {span}), "
            f"input size {size}, padding={padding!r}"
        )
    if padding == "circular":
        kmatrix.factorise(size, radix)
        padded = size
    else:
        need = max(size + left, stride * (outputs - 1) + span - left, span)
        padded = kmatrix.padded_size(need, radix)
    return AxisGeometry(size, outputs, kernel_size, stride, dilation, left, padded)


def axis_geometries(sizes, kernel_size, strides, dilation_rate, padding, radices):
    """Return the `AxisGeometry` of every axis; each argument but `padding` has a value for each."""
    return tuple(
        axis_geometry(size, kernel, stride, dilation, padding, radix)
        for size, kernel, stride, dilation, radix in zip(
            sizes, kernel_size, strides, dilation_rate, radices, strict=True
        )
    )


def axis_radices(radix, rank):
    """Return the radix argument of each axis.

    Args:
        radix: `None`, an integer or a tuple of radices for every axis, or a tuple of one of these
            for each axis; lists count as tuples.
        rank: number of axes.

    Raises:
        ValueError: if it is none of these.
    """
    if isinstance(radix, list):
        radix = tuple(tuple(r) if isinstance(r, list) else r for r in radix)
    nested = isinstance(radix, tuple) and any(not validation.is_integer(r) for r in radix)
    radices = radix if nested else (radix,) * rank
    if len(radices) != rank:
        raise ValueError(
            f"`radix` must have one entry for each of the {rank} axes. Received: radix={radix!r}"
        )
    radices = tuple(tuple(r) if isinstance(r, list) else r for r in radices)
    for axis_radix in radices:
        kmatrix.check_radix(axis_radix)
    return radices
