"""The dynamic kernels of several edges from one node, computed together."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_xd.core.type_aliases import Tensor


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
    places, largest = images.shape[-1], max(sizes)
    inner = ops.matmul(ops.reshape(x, (-1, x.shape[-1])), matrix)
    inner = ops.reshape(ops.relu(inner + offset), (-1, places, matrix.shape[-1]))
    context = _own_channels(_attended(ops.matmul(taps, images), inner), sizes, edges)
    kernels = ops.transpose(ops.matmul(context, decode), (0, 2, 1))
    if len(sizes) > 1:
        # Taps of all sizes at their places in the largest; a softmax makes zeros elsewhere.
        chosen = _places(sizes)
        kernels = ops.matmul(kernels, ops.cast(chosen, kernels.dtype))
        kernels = kernels + ops.cast(np.where(np.any(chosen, axis=0), 0.0, -np.inf), kernels.dtype)
    kernels = ops.reshape(kernels, (-1, decode.shape[-1], len(sizes), largest**2))
    kernels = ops.softmax(kernels, axis=-1) * ops.transpose(shares, (2, 0, 1))
    kernels = ops.sum(kernels, axis=2)
    return ops.reshape(ops.transpose(kernels, (0, 2, 1)), (-1, largest, largest, kernels.shape[1]))


@ops.custom_gradient
def _attended(scores, values):
    """Return sums of values over places, weighted by the softmax of scores.

    The derivatives of a softmax would take three more tensors of the size of the scores.

    Args:
        scores: `(batch, taps, places)`.
        values: `(batch, places, channels)`.
    """
    weights = ops.softmax(scores, axis=-1)
    context = ops.matmul(weights, values)

    def gradient(*arguments, upstream=None):
        upstream = arguments[0] if upstream is None else upstream
        mean = ops.sum(upstream * context, axis=-1, keepdims=True)
        of_weights = ops.einsum("btc,bpc->btp", upstream, values)
        of_values = ops.einsum("btp,btc->bpc", weights, upstream)
        return weights * (of_weights - mean), of_values

    return context, gradient


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


def _places(sizes):
    """Return the matrix of ones that puts the taps of all sizes into kernels of the largest."""
    largest, found = max(sizes), []
    for number, size in enumerate(sizes):
        margin = (largest - size) // 2
        kernel = np.zeros((size**2, len(sizes), largest, largest))
        inside = slice(margin, margin + size)
        kernel[:, number, inside, inside] = np.eye(size**2).reshape(-1, size, size)
        found.append(kernel.reshape(size**2, -1))
    return np.concatenate(found)
