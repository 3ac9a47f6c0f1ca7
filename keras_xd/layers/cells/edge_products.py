"""What all operations on the edges from one node of a relaxed cell make, computed together.

A graph holds the function here once for all nodes of equal shapes with as many edges. What does not
depend on the edges is computed before: see `node_products`.

Channels of all edges lie side by side, edge by edge, so that edges are no more operations than one
edge is. Where the inputs differ, too, the matrix of the 1 × 1 convolutions has a block for each
edge and zeros elsewhere.

The batch normalisation behind a linear map `W` is part of that map: with the means `μ` and the
second moments `Σ` of its inputs, its outputs have the means `μ W` and the second moments
`diag(Wᵀ Σ W)`. So features of which only the weighted sum is wanted are never formed one by one.
"""

import functools
import math

import keras
import numpy as np
from keras import ops

from keras_xd.core.type_aliases import Tensor
from keras_xd.layers.cells.block_matrices import block_diagonal, side_by_side
from keras_xd.layers.cells.dynamic_products import dynamic_kernels
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
    moments,
    scale_and_offset,
)


def outcomes(
    edge: Edge, node: dict[str, Tensor], weights: dict[str, Tensor], shares: Tensor
) -> tuple[dict[str, list[Tensor]], dict[str, Tensor]]:
    """Return what the operations on the edges from a node make, weighted by their shares.

    Args:
        edge: the `Edge` that all of them are.
        node: the `node_values` of the node that they come from.
        weights: those of the edges by name, along the first axis, see `EdgeStack`.
        shares: the shares of the operations, a float32 tensor `(edges, operations)`.

    Returns:
        A dictionary with those of `features`, `spatial`, `channel` and `kernel` that there are, a
        list with one tensor for each edge; and one with `moving_mean` and `moving_variance`, in
        training those of the batch, `(edges, channels)`, else empty.
    """
    return _Outcomes(edge, node, weights, shares).compute()


class _Outcomes:
    """One computation of `outcomes`."""

    def __init__(self, edge, node, weights, shares):
        self.edge, self.node, self.weights = edge, node, weights
        self.x = node["features"]
        self.sizes = [-(-n // edge.strides) for n in self.x.shape[1:-1]]
        self.count = shares.shape[0]
        shares = ops.convert_to_tensor(shares)
        self.shares = ops.transpose(shares) if self.count > 1 else ops.reshape(shares, (-1, 1))
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
            result["kernel"] = self._dynamic_kernel()
        result = {
            kind: [value] if self.count == 1 else ops.split(value, self.count, axis=-1)
            for kind, value in result.items()
        }
        statistics = {}
        if self.means:
            statistics["moving_mean"] = joined(self.means, 1)
            statistics["moving_variance"] = joined(self.variances, 1)
        return result, statistics

    def _features(self):
        """Return the weighted sums of the features, those of all edges, or `None`."""
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
        return ops.reshape(total, (-1, *self.sizes, total.shape[-1]))

    def _shared(self, names):
        """Return the weighted sums of what edges from one node share."""
        shared, c = self.node["shared"], self.edge.filters
        share = ops.reshape(self._shares_of(names), (-1, 1, self.count, 1))
        if len(names) == 1:
            y = ops.reshape(shared, (-1, 1, c)) * ops.cast(share[0, 0], shared.dtype)
            return ops.reshape(y, (-1, self.count * c))
        rows = ops.multiply(share, np.eye(c, dtype=self.exact)[:, None])
        return _product(shared, ops.reshape(rows, (-1, self.count * c)))

    def _add_convolutions(self, parts, phased, offsets):
        """Add the depthwise separable operations' products and offsets to lists."""
        names, strides = depthwise_names(self.edge.operations), self.edge.strides
        x = self.node["rectified"]
        if self.count > 1:
            # Several kernels for one channel are possible, too, but XLA is slow at their gradient.
            x = ops.concatenate([x] * self.count, axis=-1)
        flats = [self._depthwise(name, strides, x, self._taps(name, 0)) for name in names]
        for step in (0, 1):
            matrices = block_diagonal(ops.cast(self.weights[f"pointwise_{step}"], self.exact))
            found = [moments(flat) for flat in flats] if self.edge.training else []
            scale, offset = self._normalized(f"pointwise_{step}", found, matrices)
            again = depthwise_names(names, 1) if step == 0 else []
            factor = self._wide(self._shares_of(names))
            # What is done again is rectified first, so that its share comes later.
            now = np.array([name not in again for name in names], self.exact)[:, None, None]
            if again:
                factor = ops.add(ops.multiply(factor, now), 1 - now)
            matrices = ops.unstack(matrices * (scale * factor))
            if np.any(now):
                offsets.append(ops.sum(offset * ops.multiply(factor, now), axis=0))
            later = []
            for row, (name, flat, matrix) in enumerate(zip(names, flats, matrices, strict=True)):
                if name in again:
                    later.append(self._done_again(name, flat, matrix, offset[row]))
                    continue
                dilated = DEPTHWISE[name][1] > 1
                target = phased if dilated and "phases" in self.node and strides == 1 else parts
                target.append(_product(flat, matrix))
            names, flats = again, later
            if not names:
                return

    def _done_again(self, name, flat, matrix, offset):
        """Return the second depthwise convolution of a separable operation, from the first one."""

        def compute(flat, matrix, offset, kernel):
            y = ops.relu(_product(flat, matrix) + ops.cast(offset, flat.dtype))
            return self._depthwise(name, 1, ops.reshape(y, (-1, *self.sizes, y.shape[-1])), kernel)

        if self.edge.training and len(self.edge.operations) > 1:
            # What is rectified is not kept in training: one small product computes it again.
            compute = keras.remat(compute)
        return compute(flat, matrix, offset, self._taps(name, 1))

    def _taps(self, name, step):
        kernel = self.weights[f"{name}_depthwise_{step}"]
        return ops.transpose(kernel, (1, 2, 0, 3, 4)) if self.count > 1 else kernel

    def _depthwise(self, name, strides, x, kernel):
        """Return a depthwise convolution, all places along the first axis.

        That of dilated ones is of the phases, if the node has them.
        """
        size, rate = DEPTHWISE[name][:2]
        if rate > 1 and "phases" in self.node:
            x, strides, rate = self.node["phases"], 1, 1
            x = ops.concatenate([x] * self.count, axis=-1) if self.count > 1 else x
        kernel = ops.reshape(kernel, (size, size, x.shape[-1], -1))
        y = ops.depthwise_conv(x, kernel, strides, "same", "channels_last", (rate, rate))
        return flattened(y)

    def _unphased(self, flat):
        """Return features of the phases, all places along the first axis, as those of images."""
        height, width = (n // 2 for n in self.sizes)
        y = ops.reshape(flat, (2, 2, -1, height, width, flat.shape[-1]))
        return flattened(ops.transpose(y, (2, 3, 0, 4, 1, 5)))

    def _add_reduction(self, parts, offsets):
        """Add the factorized reductions' product and its offset to lists."""
        even, odd = (ops.cast(self.weights[name], self.exact) for name in ("even", "odd"))
        blocks = [
            ops.pad(even, [(0, 0), (0, 0), (0, odd.shape[-1])]),
            ops.pad(odd, [(0, 0), (0, 0), (even.shape[-1], 0)]),
        ]
        matrix = side_by_side(ops.concatenate(blocks, axis=1))
        scale, offset = self._normalized("reduction", self._moments_of("halves"), matrix[None])
        share = self._wide(self._shares_of(["identity"]))
        parts.append(_product(self.node["halves"], matrix * (scale * share)[0]))
        offsets.append((offset * share)[0])

    def _spatial_attention(self):
        """Return the weighted attention to places, `(batch, height, width, edges)`."""
        name = "strided" if "strided" in self.node else "features"
        matrix = side_by_side(ops.cast(self.weights["spatial_squeeze"], self.exact))
        scale, offset = self._normalized("spatial", self._moments_of(name), matrix[None])
        y = _product(flattened(self.node[name]), matrix * scale[0])
        y = ops.relu(y + ops.cast(offset[0], y.dtype))
        y = ops.reshape(y, (-1, *self.sizes, y.shape[-1]))
        kernel = self.weights["spatial_score"]
        blocks = block_diagonal(ops.reshape(kernel, (self.count, 9, kernel.shape[3], 1)))
        y = ops.conv(y, ops.reshape(blocks, (3, 3, -1, self.count)), 1, "same", "channels_last")
        return ops.sigmoid(y) * ops.cast(self._shares_of(["spatial_attention"])[0], y.dtype)

    def _channel_attention(self):
        """Return the weighted attention to channels, `(batch, 1, 1, edges * filters)`."""
        squeeze, excite = (self.weights[f"channel_{name}"] for name in ("squeeze", "excite"))
        y = ops.relu(ops.matmul(ops.mean(self.x, axis=(1, 2)), side_by_side(squeeze)))
        y = ops.sigmoid(ops.matmul(y, block_diagonal(ops.expand_dims(excite, 1))[0]))
        share = self._wide(self._shares_of(["channel_attention"]))
        return ops.reshape(y * ops.cast(share[0], y.dtype), (-1, 1, 1, y.shape[-1]))

    def _dynamic_kernel(self):
        """Return the weighted sums of the dynamic kernels, `(batch, k, k, edges * filters)`."""
        sizes, images = kernel_sizes(self.edge.operations), self.node["images"]
        matrix = side_by_side(ops.cast(self.weights["bottleneck"], self.exact))
        found = self._moments_of("features")
        scale, offset = self._normalized("bottleneck", found, matrix[None], images.shape[-1])
        taps = joined([self.weights[f"transform_{size}"] for size in sizes], 1)
        taps = ops.transpose(taps, (1, 0, 2)) if self.count > 1 else taps
        decode = joined([self.weights[f"decode_{size}"] for size in sizes], 2)
        decode = ops.transpose(decode, (0, 2, 1))[:, None]
        share = self._wide(self._shares_of([f"dynamic_{size}" for size in sizes]))
        compute = functools.partial(dynamic_kernels, sizes, self.count)
        # In training none of what it computes on the way is kept. One operation alone is in a
        # branch, where TensorFlow cannot compute it again.
        if self.edge.training and len(self.edge.operations) > 1:
            compute = keras.remat(compute)
        return compute(
            self.x,
            images,
            ops.cast(matrix * scale[0], self.x.dtype),
            ops.cast(offset[0], self.x.dtype),
            ops.reshape(taps, (-1, self.edge.filters)),
            block_diagonal(decode)[0],
            ops.cast(share, self.x.dtype),
        )

    def _shares_of(self, names):
        """Return the shares of operations, a tensor `(operations, edges)`."""
        rows = [self.edge.operations.index(name) for name in names]
        if rows == list(range(rows[0], rows[-1] + 1)):
            return self.shares[rows[0] : rows[-1] + 1]
        return ops.concatenate([self.shares[row : row + 1] for row in rows], axis=0)

    def _wide(self, values):
        """Return values of edges, `(number, edges)`, for each filter, `(number, 1, channels)`.

        Those of one edge are left to be broadcast.
        """
        values = ops.cast(values, self.exact)
        if self.count == 1:
            return values[:, None]
        values = ops.multiply(values[..., None], np.ones(self.edge.filters, self.exact))
        return ops.reshape(values, (values.shape[0], 1, -1))

    def _moments_of(self, name):
        """Return the moments of a node's features, of one in a list, empty unless in training."""
        return [self.node[f"{name}_moments"]] if self.edge.training else []

    def _normalized(self, name, found, matrices, places=None):
        """Return the scales and the offsets that normalise products of features and matrices.

        Args:
            name: that of the statistics.
            found: in training the `moments` of each of the features.
            matrices: float32 tensor `(number of features, inputs, edges * outputs)`.
            places: number of places of a sample, that of the outcomes by default.

        Returns:
            Two tensors `(number of features, 1, edges * outputs)`.
        """
        number, edges = matrices.shape[0], self.count
        if not self.edge.training:
            place = self.edge.statistics[name]
            kinds = (self.weights[f"moving_{kind}"][:, place] for kind in ("mean", "variance"))
            kinds = (_swapped(kind, edges, number) for kind in kinds)
            return scale_and_offset(*(ops.reshape(kind, (number, 1, -1)) for kind in kinds))
        found = ops.stack(found) if number > 1 else ops.expand_dims(found[0], 0)
        share = self.inverse_batch / (places or math.prod(self.sizes))
        found = ops.matmul(found, matrices * share)
        mean, squares = found[:, -1:], found[:, :-1]
        squares = ops.sum(matrices * squares, axis=1, keepdims=True)
        variance = ops.relu(squares - ops.square(mean))
        for noted, value in ((self.means, mean), (self.variances, variance)):
            # Functions that are traced once hand over nothing longer aside.
            value = ops.cast(_swapped(value, number, edges), "float32")
            noted.append(ops.reshape(value, (edges, -1)))
        return scale_and_offset(mean, variance)


def _product(flat, matrix):
    return ops.matmul(flat, ops.cast(matrix, flat.dtype))


def _swapped(values, rows, columns):
    """Return values of rows and columns with columns first: `(columns, rows, outputs)`."""
    if 1 in (rows, columns):
        return ops.reshape(values, (columns, rows, -1))
    return ops.transpose(ops.reshape(values, (rows, columns, -1)), (1, 0, 2))
