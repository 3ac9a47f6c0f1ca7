"""What all operations on one edge of a relaxed cell make, computed together.

A graph holds the two functions here once for all nodes, and for all edges, of equal shapes. What
the edges from a node have in common, `node_values`, is computed once for the node.

The batch normalisation behind a linear map `W` is part of that map: with the means `μ` and the
second moments `Σ` of its inputs, its outputs have the means `μ W` and the second moments
`diag(Wᵀ Σ W)`. So features of which only the weighted sum is wanted are never formed one by one.
"""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd.core.type_aliases import Tensor
from keras_xd.layers.cells.dynamic_conv import EPSILON
from keras_xd.layers.cells.edge import (
    DEPTHWISE,
    POOLING,
    Edge,
    depthwise_names,
    kernel_sizes,
)
from keras_xd.layers.mixed import window_padding


def node_values(
    edge: Edge, x: Tensor, weights: dict[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return what all edges from a node need, and the statistics of its pooled features.

    Args:
        edge: the `Edge` that they all are.
        x: features of the node, `(batch, height, width, filters)`.
        weights: the moving statistics of poolings, `pooling_moving_mean` and
            `pooling_moving_variance`.

    Returns:
        Two dictionaries: the values for `outcomes`, and of the batch, in training, the means and
        variances by the names that `weights` has.
    """
    x = ops.convert_to_tensor(x)
    names, found, statistics = edge.operations, {"features": x}, {}
    steps = (edge.strides, edge.strides)
    depthwise, reduces = depthwise_names(names), "identity" in names and edge.strides > 1
    rectified = ops.relu(x) if depthwise or reduces else None
    if depthwise:
        found["rectified"] = rectified
        if any(DEPTHWISE[name][1] > 1 for name in depthwise) and _has_phases(edge, x):
            found["phases"] = _phases(rectified, edge.strides)
    shared = [_flat(_pooled(name, x, steps)) for name in names if name in POOLING]
    if shared:
        pooled = _joined(shared, -1)
        if edge.training:
            moments = ops.moments(ops.cast(pooled, "float32"), 0, keepdims=True)
            kinds = zip(("mean", "variance"), moments, strict=True)
            statistics = {f"pooling_moving_{kind}": ops.reshape(m, (-1,)) for kind, m in kinds}
        else:
            kinds = (weights[f"pooling_moving_{kind}"] for kind in ("mean", "variance"))
            moments = [ops.reshape(kind, (1, -1)) for kind in kinds]
        scale, offset = (ops.cast(v, pooled.dtype) for v in _scale_and_offset(*moments))
        shared = [pooled * scale + offset]
    if "identity" in names and edge.strides == 1:
        shared.append(_flat(x))
    if shared:
        found["shared"] = _joined(shared, -1)
    if reduces:
        moved = window_padding.extended(rectified, [(-1, n % 2) for n in x.shape[1:3]])
        halves = [window_padding.every(part, steps) for part in (rectified, moved)]
        found["halves"] = _flat(ops.concatenate(halves, axis=-1))
    if "spatial_attention" in names and edge.strides > 1:
        found["strided"] = _flat(window_padding.every(x, steps))
    if kernel_sizes(names):
        images = ops.reshape(x, (-1, math.prod(x.shape[1:-1]), x.shape[-1]))
        found["images"] = ops.transpose(images, (0, 2, 1))
    if edge.training:
        squeezed = "spatial_attention" in names and edge.strides == 1
        wanted = {"halves", "strided"} | (
            {"features"} if squeezed or kernel_sizes(names) else set()
        )
        for name in ("features", "halves", "strided"):
            if name in found and name in wanted:
                sums, products = _moments(_flat(found[name]))
                found |= {f"{name}_sums": sums, f"{name}_products": products}
    return found, statistics


def outcomes(
    edge: Edge, node: dict[str, Tensor], weights: dict[str, Tensor], shares: Tensor
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return what the operations on an edge make, weighted by their shares.

    Args:
        edge: the `Edge`.
        node: the `node_values` of the node that it comes from.
        weights: those of the edge by name, see `EdgeStack`.
        shares: the shares of the operations, a float32 vector.

    Returns:
        A dictionary with those of `features`, `spatial`, `channel` and `kernel` that there are; and
        one with `moving_mean` and `moving_variance`, in training those of the batch, else empty.
    """
    return _Outcomes(edge, node, weights, shares).compute()


class _Outcomes:
    """One computation of `outcomes`."""

    def __init__(self, edge, node, weights, shares):
        self.edge, self.node, self.weights = edge, node, weights
        self.x = node["features"]
        self.sizes = [-(-n // edge.strides) for n in self.x.shape[1:-1]]
        self.vector = ops.convert_to_tensor(shares)
        shares = ops.unstack(self.vector)
        self.shares = dict(zip(edge.operations, shares, strict=True))
        self.inverse_batch = 1 / ops.cast(ops.shape(self.x)[0], "float32")
        self.means, self.variances = [], []

    def compute(self):
        names, result = self.edge.operations, {}
        features = self._features()
        if features is not None:
            result["features"] = features
        if "spatial_attention" in names:
            result["spatial"] = self._spatial_attention()
        if "channel_attention" in names:
            result["channel"] = self._channel_attention()
        if kernel_sizes(names):
            result["kernel"] = self._recomputed(
                _Outcomes._dynamic_kernel,
                ("features", "images", "features_sums", "features_products"),
                ("bottleneck", "transform", "decode", "moving"),
            )
        statistics = {}
        if self.means:
            statistics["moving_mean"] = _joined(self.means, 0)
            statistics["moving_variance"] = _joined(self.variances, 0)
        return result, statistics

    def _recomputed(self, part, values, weights):
        """Return what a method does, and in training keep none of what it computes on the way.

        Args:
            part: the method.
            values: the names of the node's values that it reads.
            weights: how the names of the weights that it reads begin.
        """
        # One operation alone is in a branch, where TensorFlow cannot compute it again.
        if not self.edge.training or len(self.edge.operations) == 1:
            return part(self)

        def compute(node, weights, shares):
            outcomes = _Outcomes(self.edge, node, weights, shares)
            return part(outcomes), outcomes.means, outcomes.variances

        node = {name: self.node[name] for name in values}
        weights = {name: v for name, v in self.weights.items() if name.startswith(weights)}
        result, means, variances = keras.remat(compute)(node, weights, self.vector)
        self.means += means
        self.variances += variances
        return result

    def _features(self):
        """Return the weighted sum of the features, or `None`."""
        parts, phased, offsets = [], [], []
        if depthwise_names(self.edge.operations):
            self._add_convolutions(parts, phased, offsets)
        if "shared" in self.node:
            names = [n for n in self.edge.operations if n in POOLING]
            if self.edge.strides == 1 and "identity" in self.edge.operations:
                names.append("identity")
            parts.append(self._shared(names))
        if "halves" in self.node:
            self._add_reduction(parts, offsets)
        if phased:
            parts.append(self._unphased(sum(phased[1:], phased[0])))
        if not parts:
            return None
        total = sum(parts[1:], parts[0])
        if offsets:
            total = total + ops.cast(sum(offsets[1:], offsets[0]), total.dtype)
        return ops.reshape(total, (-1, *self.sizes, self.edge.filters))

    def _shared(self, names):
        """Return the weighted sum of what edges from one node share."""
        shared = self.node["shared"]
        if len(names) == 1:
            return shared * ops.cast(self.shares[names[0]], shared.dtype)
        rows = ops.reshape(ops.stack([self.shares[name] for name in names]), (-1, 1, 1))
        rows = ops.multiply(rows, np.eye(self.edge.filters, dtype="float32"))
        return _product(shared, ops.reshape(rows, (-1, self.edge.filters)))

    def _add_convolutions(self, parts, phased, offsets):
        """Add the depthwise separable operations' products and offsets to lists."""
        names, strides = depthwise_names(self.edge.operations), self.edge.strides
        inputs = dict.fromkeys(names, self.node["rectified"])
        for step in (0, 1):
            flats = [_flat(self._depthwise(name, step, inputs[name], strides)) for name in names]
            matrices = ops.cast(self.weights[f"pointwise_{step}"], "float32")
            moments = [_moments(flat) for flat in flats] if self.edge.training else []
            scale, offset = self._normalized(f"pointwise_{step}", moments, matrices)
            again = depthwise_names(names, 1) if step == 0 else []
            # What is done again is rectified first, so that its share comes later.
            factor = ops.stack([1.0 if name in again else self.shares[name] for name in names])
            factor = ops.reshape(factor, (-1, 1, 1))
            matrices, offset = (
                ops.unstack(matrices * (scale * factor)),
                ops.unstack(offset * factor),
            )
            for name, flat, matrix, constant in zip(names, flats, matrices, offset, strict=True):
                y = _product(flat, matrix)
                if name in again:
                    y = ops.relu(y + ops.cast(constant, y.dtype))
                    inputs[name] = ops.reshape(y, (-1, *self.sizes, self.edge.filters))
                    continue
                dilated = DEPTHWISE[name][1] > 1
                target = phased if dilated and "phases" in self.node and strides == 1 else parts
                target.append(y)
                offsets.append(constant)
            names, strides = again, 1
            if not names:
                return

    def _depthwise(self, name, step, x, strides):
        """Return a depthwise convolution; of dilated ones the phases, if the node has them."""
        kernel, rate = self.weights[f"{name}_depthwise_{step}"], DEPTHWISE[name][1]
        if rate > 1 and "phases" in self.node:
            x, strides, rate = self.node["phases"], 1, 1
        return ops.depthwise_conv(x, kernel, strides, "same", "channels_last", (rate, rate))

    def _unphased(self, flat):
        """Return features of the phases, all places along the first axis, as those of images."""
        height, width = (n // 2 for n in self.sizes)
        y = ops.reshape(flat, (2, 2, -1, height, width, self.edge.filters))
        return _flat(ops.transpose(y, (2, 3, 0, 4, 1, 5)))

    def _add_reduction(self, parts, offsets):
        """Add the factorized reduction's product and its offset to lists."""
        even, odd = (ops.cast(self.weights[name], "float32") for name in ("even", "odd"))
        blocks = [
            ops.pad(even, [(0, 0), (0, odd.shape[-1])]),
            ops.pad(odd, [(0, 0), (even.shape[-1], 0)]),
        ]
        matrix = ops.concatenate(blocks, axis=0)
        scale, offset = self._normalized("reduction", self._moments_of("halves"), matrix[None])
        share = self.shares["identity"]
        parts.append(_product(self.node["halves"], matrix * (scale[0] * share)))
        offsets.append(offset[0] * share)

    def _spatial_attention(self):
        """Return the weighted attention to places, `(batch, height, width, 1)`."""
        name = "strided" if "strided" in self.node else "features"
        matrix = ops.cast(self.weights["spatial_squeeze"], "float32")
        scale, offset = self._normalized("spatial", self._moments_of(name), matrix[None])
        y = _product(_flat(self.node[name]), matrix * scale[0])
        y = ops.reshape(ops.relu(y + ops.cast(offset[0], y.dtype)), (-1, *self.sizes, y.shape[-1]))
        y = ops.conv(y, self.weights["spatial_score"], 1, "same", "channels_last")
        return ops.sigmoid(y) * ops.cast(self.shares["spatial_attention"], y.dtype)

    def _channel_attention(self):
        """Return the weighted attention to channels, `(batch, 1, 1, filters)`."""
        y = ops.matmul(ops.mean(self.x, axis=(1, 2)), self.weights["channel_squeeze"])
        y = ops.sigmoid(ops.matmul(ops.relu(y), self.weights["channel_excite"]))
        y = y * ops.cast(self.shares["channel_attention"], y.dtype)
        return ops.reshape(y, (-1, 1, 1, self.edge.filters))

    def _dynamic_kernel(self):
        """Return the weighted sum of the dynamic kernels, `(batch, k, k, filters)`.

        The outputs of the 1 × 1 convolutions have the places last, over which a softmax goes.
        """
        x, sizes, images = self.x, kernel_sizes(self.edge.operations), self.node["images"]
        matrix, places = ops.cast(self.weights["bottleneck"], "float32"), images.shape[-1]
        moments = self._moments_of("features")
        scale, offset = self._normalized("bottleneck", moments, matrix[None], places)
        inner = _product(_flat(x), matrix * scale[0])
        inner = ops.relu(inner + ops.cast(offset[0], x.dtype))
        inner = ops.reshape(inner, (-1, places, inner.shape[-1]))
        inner = [inner] if len(sizes) == 1 else ops.split(inner, len(sizes), axis=-1)
        largest, total = max(sizes), None
        for size, values in zip(sizes, inner, strict=True):
            mask = ops.softmax(ops.matmul(self.weights[f"transform_{size}"], images), axis=-1)
            context = ops.transpose(ops.matmul(mask, values), (0, 2, 1))
            kernel = ops.softmax(ops.matmul(self.weights[f"decode_{size}"], context), axis=-1)
            kernel = kernel * ops.cast(self.shares[f"dynamic_{size}"], kernel.dtype)
            if size < largest:
                kernel = ops.matmul(kernel, ops.cast(_widening(size, largest), kernel.dtype))
            total = kernel if total is None else total + kernel
        total = ops.transpose(total, (0, 2, 1))
        return ops.reshape(total, (-1, largest, largest, self.edge.filters))

    def _moments_of(self, name):
        """Return the moments of a node's features, of one in a list, empty unless in training."""
        if not self.edge.training:
            return []
        return [(self.node[f"{name}_sums"], self.node[f"{name}_products"])]

    def _normalized(self, name, moments, matrices, places=None):
        """Return the scales and the offsets that normalise products of features and matrices.

        Args:
            name: that of the statistics.
            moments: in training the `_moments` of each of the features.
            matrices: float32 tensor `(number of features, inputs, outputs)`.
            places: number of places of a sample, that of the outcomes by default.

        Returns:
            Two tensors `(number of features, 1, outputs)`.
        """
        if not self.edge.training:
            return self._moving(name, (matrices.shape[0], 1, -1))
        sums, products = (ops.stack(values) for values in zip(*moments, strict=True))
        share = matrices * (self.inverse_batch / (places or math.prod(self.sizes)))
        mean = ops.matmul(sums, share)
        squares = ops.sum(matrices * ops.matmul(products, share), axis=1, keepdims=True)
        return self._noted(mean, ops.maximum(squares - ops.square(mean), 0.0))

    def _moving(self, name, shape):
        place = self.edge.statistics[name]
        kinds = (self.weights[f"moving_{kind}"][place] for kind in ("mean", "variance"))
        return _scale_and_offset(*(ops.reshape(kind, shape) for kind in kinds))

    def _noted(self, mean, variance):
        self.means.append(ops.reshape(mean, (-1,)))
        self.variances.append(ops.reshape(variance, (-1,)))
        return _scale_and_offset(mean, variance)


def _scale_and_offset(mean, variance):
    scale = ops.rsqrt(variance + EPSILON)
    return scale, -mean * scale


def _joined(values: list[Any], axis: int):
    return values[0] if len(values) == 1 else ops.concatenate(values, axis=axis)


def _flat(x):
    """Return features with all places of all samples along the first axis."""
    return x if len(x.shape) == 2 else ops.reshape(x, (-1, x.shape[-1]))


def _product(flat, matrix):
    return ops.matmul(flat, ops.cast(matrix, flat.dtype))


def _moments(flat):
    """Return the sums of features and of the products of all pairs of them, in float32."""
    flat = ops.cast(flat, "float32")
    # A transposed copy would be kept for the gradient; this product needs none.
    return ops.sum(flat, axis=0, keepdims=True), ops.einsum("nc,nd->cd", flat, flat)


def _has_phases(edge, x):
    """Whether the phases of images are those that dilated windows read."""
    return edge.strides > 1 or all(n % 2 == 0 for n in x.shape[1:-1])


def _phases(x, strides):
    """Return every other place of images, as images: windows dilated by 2 read one phase.

    With strides 2 all windows read the same one, otherwise all four come one after the other.
    """
    height, width, channels = x.shape[1:]
    if strides > 1:
        # By the rule of "same" the first window reaches an odd number of places beyond even sizes.
        return x[:, 1 - height % 2 :: 2, 1 - width % 2 :: 2]
    x = ops.reshape(x, (-1, height // 2, 2, width // 2, 2, channels))
    x = ops.transpose(x, (2, 4, 0, 1, 3, 5))
    return ops.reshape(x, (-1, height // 2, width // 2, channels))


def _pooled(name, x, steps):
    border = window_padding.borders(x.shape[1:-1], (3, 3), (3, 3), steps, "same")
    pool = window_padding.max_pool if name == "max_pooling_3" else window_padding.average_pool
    return pool(x, (3, 3), border, steps)


def _widening(size, largest):
    """Return the matrix that puts the taps of a kernel into the middle of a larger one."""
    margin = (largest - size) // 2
    places = np.arange(largest**2).reshape(largest, largest)
    places = places[margin : margin + size, margin : margin + size].ravel()
    return np.eye(largest**2, dtype="float32")[places]
