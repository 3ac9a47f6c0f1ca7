"""The dynamic kernels of several edges from one node, computed together."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_xd.core.type_aliases import Tensor
from keras_xd.layers.cells.dynamic_conv import widened


def dynamic_kernels(
    sizes: Sequence[int],
    edges: int,
    x: Tensor,
    images: Tensor,
    matrix: Tensor,
    offset: Tensor,
    taps: Tensor,
    decode: Tensor,
    shares: Tensor,
) -> Tensor:
    """Return the weighted sums of dynamic kernels of all sizes, see `DynamicKernel`.

    The outputs of the 1 × 1 convolutions have the places last, over which a softmax goes.

    Args:
        sizes: of the kernels.
        edges: number of edges.
        x: features of the node, `(batch, height, width, filters)`.
        images: the same as `(batch, filters, places)`.
        matrix: of the bottlenecks, normalised: `(filters, edges * inner)`, where the inner channels
            of an edge are those of all sizes.
        offset: what their outputs are moved by.
        taps: of the first convolutions behind, `(taps * edges, filters)`: those of all sizes, each
            for all edges.
        decode: of the last ones, `(edges * inner, edges * filters)`.
        shares: `(sizes, 1, edges * filters)`, or the last axis of size 1.

    Returns:
        A tensor `(batch, k, k, edges * filters)`, where `k` is the largest size.
    """
    places = images.shape[-1]
    inner = ops.matmul(ops.reshape(x, (-1, x.shape[-1])), matrix)
    inner = ops.reshape(ops.relu(inner + offset), (-1, places, matrix.shape[-1]))
    context = ops.matmul(ops.softmax(ops.matmul(taps, images), axis=-1), inner)
    context = _own_channels(context, sizes, edges)
    kernels = ops.transpose(ops.matmul(context, decode), (0, 2, 1))
    ends = np.cumsum([size**2 for size in sizes])[:-1].tolist()
    kernels = ops.split(kernels, ends, axis=-1) if ends else [kernels]
    largest, total = max(sizes), None
    shares = ops.unstack(ops.transpose(shares, (0, 2, 1)))
    for size, kernel, share in zip(sizes, kernels, shares, strict=True):
        kernel = ops.softmax(kernel, axis=-1) * share
        kernel = ops.reshape(kernel, (-1, kernel.shape[1], size, size))
        kernel = widened(kernel, largest, axes=(2, 3))
        total = kernel if total is None else total + kernel
    return ops.transpose(total, (0, 2, 3, 1))


def _own_channels(context, sizes, edges):
    """Return sums for taps, `(batch, taps, channels)`, with zeros where channels are not theirs.

    Args:
        context: `(batch, taps * edges, channels)`, where channels are edge by edge those of all
            sizes.
        sizes: of the kernels.
        edges: number of edges.
    """
    channels = context.shape[-1]
    squares = [size**2 for size in sizes]
    own = np.repeat(np.eye(len(sizes)), squares, axis=0)
    own = np.repeat(own, channels // edges // len(sizes), axis=1)
    if edges == 1:
        return context if len(sizes) == 1 else context * ops.cast(own, context.dtype)
    own = np.eye(edges)[:, :, None] * own[:, None, None]
    own = np.reshape(own, (sum(squares), edges, channels))
    context = ops.reshape(context, (-1, *own.shape)) * ops.cast(own, context.dtype)
    return ops.sum(context, axis=2)
