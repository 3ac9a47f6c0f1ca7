"""Products of the features of a node and the matrices of several edges, as one."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_xd.core import splitting
from keras_xd.core.type_aliases import Tensor
from keras_xd.layers.cells.dynamic_conv import EPSILON


def side_by_side(matrices: Tensor) -> Tensor:
    """Return `(edges, inputs, outputs)` as one matrix `(inputs, edges * outputs)`."""
    count, inputs, outputs = matrices.shape
    if count > 1:
        matrices = ops.transpose(matrices, (1, 0, 2))
    return ops.reshape(matrices, (inputs, count * outputs))


def block_diagonal(matrices: Tensor) -> Tensor:
    """Return matrices by which each edge's own features are multiplied, side by side."""
    count, number, inputs, outputs = matrices.shape
    if count > 1:
        own = ops.cast(np.eye(count, dtype="float32"), matrices.dtype)
        matrices = ops.expand_dims(ops.transpose(matrices, (1, 0, 2, 3)), 3)
        matrices = matrices * ops.reshape(own, (count, 1, count, 1))
    return ops.reshape(matrices, (number, count * inputs, count * outputs))


def flattened(x: Tensor) -> Tensor:
    """Return features with all places of all samples along the first axis."""
    return x if len(x.shape) == 2 else ops.reshape(x, (-1, x.shape[-1]))


def joined(values: list[Tensor], axis: int) -> Tensor:
    """Return tensors one after the other, a single one as it is."""
    return values[0] if len(values) == 1 else ops.concatenate(values, axis=axis)


def scale_and_offset(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Return what normalises features of a mean and a variance."""
    scale = ops.rsqrt(variance + EPSILON)
    return scale, -mean * scale


def moments(flat: Tensor) -> Tensor:
    """Return the sums of the products of all pairs of features, and of features, in float32."""
    return _moments(ops.cast(flat, "float32"))


@ops.custom_gradient
def _moments(flat):
    """Return `moments`, whose derivatives are one product with the features, not two."""

    def gradient(*arguments, upstream=None):
        upstream = arguments[0] if upstream is None else upstream
        products, sums = splitting.split(upstream, (flat.shape[1], 1), axis=0)
        return ops.matmul(flat, products + ops.transpose(products)) + sums

    # A transposed copy would be kept for the gradient; this product needs none.
    products = ops.einsum("nc,nd->cd", flat, flat)
    return ops.concatenate([products, ops.sum(flat, axis=0, keepdims=True)], axis=0), gradient


def dynamic_kernels(
    sizes: Sequence[int],
    rates: Sequence[int],
    edges: int,
    x: Tensor,
    images: Tensor,
    matrix: Tensor,
    offset: Tensor,
    taps: Tensor,
    decode: Tensor,
    probabilities: Tensor,
) -> Tensor:
    """Return the weighted sums of dynamic kernels of all sizes, see `DynamicKernel`."""
    places = images.shape[-1]
    largest = max(_spans(sizes, rates))
    inner = ops.matmul(ops.reshape(x, (-1, x.shape[-1])), matrix)
    inner = ops.reshape(ops.relu(inner + offset), (-1, places, matrix.shape[-1]))
    context = _own_channels(_attended(ops.matmul(taps, images), inner), sizes, edges)
    kernels = ops.transpose(ops.matmul(context, decode), (0, 2, 1))
    if len(sizes) > 1 or max(rates) > 1:
        # Taps of all sizes at their places in the largest; a softmax makes zeros elsewhere.
        chosen = _places(sizes, rates)
        kernels = ops.matmul(kernels, ops.cast(chosen, kernels.dtype))
        kernels = kernels + ops.cast(np.where(np.any(chosen, axis=0), 0.0, -np.inf), kernels.dtype)
    kernels = ops.reshape(kernels, (-1, decode.shape[-1], len(sizes), largest**2))
    kernels = ops.softmax(kernels, axis=-1) * ops.transpose(probabilities, (2, 0, 1))
    kernels = ops.sum(kernels, axis=2)
    return ops.reshape(ops.transpose(kernels, (0, 2, 1)), (-1, largest, largest, kernels.shape[1]))


@ops.custom_gradient
def _attended(scores, values):
    """Return sums of values over places, weighted by the softmax of scores."""
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
    """Return sums for taps, `(batch, taps, channels)`, with zeros where channels are not theirs."""
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


def _spans(sizes, rates):
    """Return how far kernels reach whose taps have distances of the rates."""
    return [(size - 1) * rate + 1 for size, rate in zip(sizes, rates, strict=True)]


def _places(sizes, rates):
    """Return the matrix of ones that puts the taps of all sizes into kernels of the largest."""
    spans, found = _spans(sizes, rates), []
    largest = max(spans)
    for number, (size, rate, span) in enumerate(zip(sizes, rates, spans, strict=True)):
        margin = (largest - span) // 2
        kernel = np.zeros((size**2, len(sizes), largest, largest))
        inside = slice(margin, margin + span, rate)
        kernel[:, number, inside, inside] = np.eye(size**2).reshape(-1, size, size)
        found.append(kernel.reshape(size**2, -1))
    return np.concatenate(found)
