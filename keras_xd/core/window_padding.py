"""Padding of the windows of different operations for equal outputs."""

import math

import numpy as np
from keras import ops

from keras_xd.core.convolutions import convolution


def spans(size, rate):
    """Return the number of places from the first to the last one that each window reads."""
    return tuple(d * (k - 1) + 1 for k, d in zip(size, rate, strict=True))


def output_sizes(sizes, windows, strides, padding):
    """Return the output sizes of the Keras convolution."""
    if padding != "valid":
        windows = (1,) * len(sizes)
    return tuple((n - w) // s + 1 for n, w, s in zip(sizes, windows, strides, strict=True))


def borders(sizes, wanted, windows, strides, padding):
    """Return how many places `(before, after)` each axis is extended by for windows."""
    result = []
    outputs = output_sizes(sizes, windows, strides, padding)
    for size, count, span, window, stride in zip(
        sizes, outputs, wanted, windows, strides, strict=True
    ):
        reach = stride * (count - 1) + span
        before = {
            "same": max(reach - size, 0) // 2,
            "causal": span - 1,
            "valid": (span - 1) // 2 - (window - 1) // 2,
        }[padding]
        result.append((before, reach - size - before))
    return result


def extended(x, border, value=0.0):
    """Return a tensor with places of a value added around it, or cut off for negative numbers."""
    # A slice of everything costs a copy, and its gradient another.
    if min(map(min, border)) < 0:
        cut = [
            slice(max(-before, 0), size - max(-after, 0))
            for size, (before, after) in zip(x.shape[1:-1], border, strict=True)
        ]
        x = x[(slice(None), *cut)]
    if max(map(max, border)) <= 0:
        return x
    added = [(max(before, 0), max(after, 0)) for before, after in border]
    return ops.pad(x, [(0, 0), *added, (0, 0)], constant_values=value)


def wrapped(x, border):
    """Return a tensor continued around the circle of each spatial axis, by places before and after.

    An axis may be read several times around.
    """
    for axis, (before, after) in enumerate(border, start=1):
        size = x.shape[axis]
        x = ops.take(x, np.arange(-before, size + after) % size, axis=axis)
    return x


def every(x, steps, starts=None):
    """Return every step-th place along each spatial axis."""
    if max(steps) == 1:
        return x
    # Slices with strides, and even more their gradients, take several times as long.
    if starts is None or max(starts) == 0:
        return ops.average_pool(x, 1, steps, "valid", "channels_last")
    sizes, channels = x.shape[1:-1], x.shape[-1]
    if any(n % step for n, step in zip(sizes, steps, strict=True)):
        return every(extended(x, [(-start, 0) for start in starts]), steps)
    outputs = [n // step for n, step in zip(sizes, steps, strict=True)]
    # Each axis in two, of which the last and the first are one with channels and batch.
    split = sum(([n, step] for n, step in zip(outputs, steps, strict=True)), [])[1:-1]
    place = sum(([start, 0] for start in starts), [])[:-2]
    wanted = sum(([1, n] for n in outputs[1:]), [])
    samples = ops.shape(x)[0] * outputs[0]
    x = ops.reshape(x, (-1, *split, steps[-1] * channels))
    x = ops.slice(x, (0, *place, starts[-1] * channels), (samples, *wanted, channels))
    return ops.reshape(x, (-1, *outputs, channels))


def convolve(x, kernel, border, strides, rate):
    """Return a convolution with strides and dilation, which may both be larger than 1."""
    x = extended(x, border)
    # Only every g-th input is read where g divides both the stride and the dilation.
    shared = tuple(map(math.gcd, strides, rate))
    x = every(x, shared)
    strides = tuple(s // g for s, g in zip(strides, shared, strict=True))
    rate = tuple(d // g for d, g in zip(rate, shared, strict=True))
    if max(strides) > 1 and max(rate) > 1:  # which backends do not combine
        return every(ops.conv(x, kernel, 1, "valid", "channels_last", rate), strides)
    return convolution(x, kernel, strides, "valid", "channels_last", rate)


def max_pool(x, size, border, strides):
    """Return the maxima of windows; places outside the input do not count."""
    return ops.max_pool(extended(x, border, -math.inf), size, strides, "valid", "channels_last")


def average_pool(x, size, border, strides):
    """Return the averages of windows; places outside the input do not count."""
    y = ops.average_pool(extended(x, border), size, strides, "valid", "channels_last")
    for axis, (length, (before, after)) in enumerate(zip(x.shape[1:-1], border, strict=True)):
        if max(before, after) > 0:
            starts = strides[axis] * np.arange(y.shape[axis + 1]) - before
            counts = np.minimum(starts + size[axis], length) - np.maximum(starts, 0)
            shape = [-1 if other == axis else 1 for other in range(len(size) + 1)]
            y = y * ops.cast(np.reshape(size[axis] / counts, shape), y.dtype)
    return y


def with_channels(x, count):
    """Return the first `count` channels, zeros in place of those missing."""
    missing = count - x.shape[-1]
    if missing == 0:
        return x
    if missing < 0:
        return x[..., :count]
    return ops.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, missing)])


def shuffled(x, parts):
    """Return the channels of equally many consecutive parts one from each part in turn."""
    sizes, channels = tuple(x.shape[1:-1]), x.shape[-1]
    y = ops.reshape(x, (-1, *sizes, parts, channels // parts))
    return ops.reshape(ops.swapaxes(y, -1, -2), (-1, *sizes, channels))
