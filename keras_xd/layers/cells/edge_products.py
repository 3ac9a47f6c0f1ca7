"""What all operations on one edge of a relaxed cell make, computed together.

A graph holds the function here once for all edges of equal shapes. What the edges from a node have
in common is computed once for the node: see `node_products`.

The batch normalisation behind a linear map `W` is part of that map: with the means `μ` and the
second moments `Σ` of its inputs, its outputs have the means `μ W` and the second moments
`diag(Wᵀ Σ W)`. So features of which only the weighted sum is wanted are never formed one by one.
"""

import math

import keras
import numpy as np
from keras import ops

from keras_xd.core.type_aliases import Tensor
from keras_xd.layers.cells.dynamic_conv import widened
from keras_xd.layers.cells.edge import (
    DEPTHWISE,
    POOLING,
    Edge,
    depthwise_names,
    kernel_sizes,
)
from keras_xd.layers.cells.node_products import (
    flattened,
    joined,
    scale_and_offset,
    sums_and_products,
)


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
        # Kernels are scaled in float32 where the inputs are shorter.
        double = keras.backend.standardize_dtype(self.x.dtype) == "float64"
        self.exact = "float64" if double else "float32"
        self.inverse_batch = 1 / ops.cast(ops.shape(self.x)[0], self.exact)
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
            statistics["moving_mean"] = joined(self.means, 0)
            statistics["moving_variance"] = joined(self.variances, 0)
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
        rows = ops.multiply(rows, np.eye(self.edge.filters, dtype=self.exact))
        return _product(shared, ops.reshape(rows, (-1, self.edge.filters)))

    def _add_convolutions(self, parts, phased, offsets):
        """Add the depthwise separable operations' products and offsets to lists."""
        names, strides = depthwise_names(self.edge.operations), self.edge.strides
        inputs = dict.fromkeys(names, self.node["rectified"])
        for step in (0, 1):
            flats = [
                flattened(self._depthwise(name, step, inputs[name], strides)) for name in names
            ]
            matrices = ops.cast(self.weights[f"pointwise_{step}"], self.exact)
            moments = [sums_and_products(flat) for flat in flats] if self.edge.training else []
            scale, offset = self._normalized(f"pointwise_{step}", moments, matrices)
            again = depthwise_names(names, 1) if step == 0 else []
            # What is done again is rectified first, so that its share comes later.
            factor = ops.stack([1.0 if name in again else self.shares[name] for name in names])
            # Of ones alone it would be float32 in a cell of float64, too.
            factor = ops.reshape(ops.cast(factor, self.exact), (-1, 1, 1))
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
        return flattened(ops.transpose(y, (2, 3, 0, 4, 1, 5)))

    def _add_reduction(self, parts, offsets):
        """Add the factorized reduction's product and its offset to lists."""
        even, odd = (ops.cast(self.weights[name], self.exact) for name in ("even", "odd"))
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
        matrix = ops.cast(self.weights["spatial_squeeze"], self.exact)
        scale, offset = self._normalized("spatial", self._moments_of(name), matrix[None])
        y = _product(flattened(self.node[name]), matrix * scale[0])
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
        matrix, places = ops.cast(self.weights["bottleneck"], self.exact), images.shape[-1]
        moments = self._moments_of("features")
        scale, offset = self._normalized("bottleneck", moments, matrix[None], places)
        inner = _product(flattened(x), matrix * scale[0])
        inner = ops.relu(inner + ops.cast(offset[0], x.dtype))
        inner = ops.reshape(inner, (-1, places, inner.shape[-1]))
        inner = [inner] if len(sizes) == 1 else ops.split(inner, len(sizes), axis=-1)
        largest, total = max(sizes), None
        for size, values in zip(sizes, inner, strict=True):
            mask = ops.softmax(ops.matmul(self.weights[f"transform_{size}"], images), axis=-1)
            context = ops.transpose(ops.matmul(mask, values), (0, 2, 1))
            kernel = ops.softmax(ops.matmul(self.weights[f"decode_{size}"], context), axis=-1)
            kernel = kernel * ops.cast(self.shares[f"dynamic_{size}"], kernel.dtype)
            kernel = ops.reshape(kernel, (-1, self.edge.filters, size, size))
            kernel = widened(kernel, largest, axes=(2, 3))
            total = kernel if total is None else total + kernel
        return ops.transpose(total, (0, 2, 3, 1))

    def _moments_of(self, name):
        """Return the moments of a node's features, of one in a list, empty unless in training."""
        if not self.edge.training:
            return []
        return [(self.node[f"{name}_sums"], self.node[f"{name}_products"])]

    def _normalized(self, name, moments, matrices, places=None):
        """Return the scales and the offsets that normalise products of features and matrices.

        Args:
            name: that of the statistics.
            moments: in training the `sums_and_products` of each of the features.
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
        return scale_and_offset(*(ops.reshape(kind, shape) for kind in kinds))

    def _noted(self, mean, variance):
        self.means.append(ops.reshape(mean, (-1,)))
        self.variances.append(ops.reshape(variance, (-1,)))
        return scale_and_offset(mean, variance)


def _product(flat, matrix):
    return ops.matmul(flat, ops.cast(matrix, flat.dtype))
