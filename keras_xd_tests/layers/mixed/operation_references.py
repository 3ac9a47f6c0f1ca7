"""The operations of the DARTS space in NumPy, one window after the other."""

import itertools

import numpy as np

PLACES = {  # name: (size, dilation rate)
    "convolution_3": (3, 1),
    "convolution_5": (5, 1),
    "dilated_convolution_3": (3, 2),
    "dilated_convolution_5": (5, 2),
    "max_pooling_3": (3, 1),
    "average_pooling_3": (3, 1),
    "skip": (1, 1),
    "zero": (1, 1),
}


def operation(name, x, filters, kernel=None, *, window=3, stride=1, padding="valid", rate=1):
    """Return the outputs of an operation, channels last.

    Args:
        name: name of the operation, or "convolution".
        x: inputs `(batch, *spatial, channels)`.
        filters: number of output channels.
        kernel: kernel of a convolution.
        window, stride, padding, rate: size, stride, padding and dilation of the convolution whose
            output shape it is, the same along all axes.
    """
    size, dilation = (window, rate) if name == "convolution" else PLACES[name]
    span, own_span = dilation * (size - 1) + 1, rate * (window - 1) + 1
    axes = []  # for each axis and output the list of places read
    for n in x.shape[1:-1]:
        if padding == "valid":
            middles = np.arange(0, n - own_span + 1, stride) + (own_span - 1) // 2
            firsts = middles - (span - 1) // 2
        elif padding == "causal":
            firsts = np.arange(0, n, stride) - (span - 1)
        else:
            count = -(-n // stride)
            firsts = np.arange(count) * stride - max((count - 1) * stride + span - n, 0) // 2
        axes.append([[first + dilation * j for j in range(size)] for first in firsts])
    y = np.zeros((len(x), *map(len, axes), filters))
    for place in itertools.product(*(range(len(axis)) for axis in axes)):
        reads = itertools.product(
            *(enumerate(axis[t]) for axis, t in zip(axes, place, strict=True))
        )
        inside = []
        for read in reads:
            taps, positions = zip(*read, strict=True)
            if all(0 <= p < n for p, n in zip(positions, x.shape[1:-1], strict=True)):
                value = x[(slice(None), *positions)]
                if "convolution" in name:
                    y[(slice(None), *place)] += _by_groups(value, kernel[taps])
                inside.append(value)
        pooled = None
        if name == "max_pooling_3":
            pooled = np.max(inside, axis=0)
        elif name in ("average_pooling_3", "skip"):
            pooled = np.mean(inside, axis=0)
        if pooled is not None:
            count = min(filters, x.shape[-1])
            y[(slice(None), *place, slice(count))] = pooled[:, :count]
    return y


def _by_groups(value, matrix):
    """Return `value @ matrix` for a matrix `(channels / groups, filters)`."""
    groups = value.shape[-1] // matrix.shape[0]
    pairs = (np.split(array, groups, axis=-1) for array in (value, matrix))
    return np.concatenate([part @ block for part, block in zip(*pairs, strict=True)], axis=-1)
