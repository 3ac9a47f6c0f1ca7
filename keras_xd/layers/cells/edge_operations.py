"""The operations of relaxed cells, each written for a stack of edges from one node at once."""

import dataclasses
import functools
import math
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_xd.core import splitting, window_padding
from keras_xd.core.type_aliases import Tensor
from keras_xd.layers.cells.edge_products import (
    block_diagonal,
    dynamic_kernels,
    flattened,
    joined,
    moments,
    scale_and_offset,
    side_by_side,
)
from keras_xd.layers.cells.features import POOLING, SEPARABLE
from keras_xd.layers.cells.genotypes import DILATION_RATES, KERNEL_SIZES

DYNAMIC_REDUCTION, ATTENTION_REDUCTION = 8, 16


class Place(NamedTuple):
    """Where a weight of an operation's layer lies in a weight of the edge."""

    name: str
    index: tuple[slice, ...] = ()
    transposed: bool = False


@dataclasses.dataclass(frozen=True)
class Edge:
    """What is fixed about an edge, or the node that it comes from, and the same for many.

    Attributes:
        filters: number of channels of the node and of what the operations make.
        strides: 1 or 2.
        operations: names of the operations.
        training: whether normalisations use the batch's statistics.
    """

    filters: int
    strides: int
    operations: tuple[str, ...]
    training: bool = False

    @functools.cached_property
    def kinds(self) -> list["OperationKind"]:
        """The kinds of the operations, in the order of their weights."""
        return [found for found in (kind(self) for kind in KINDS) if found.names]

    @functools.cached_property
    def statistics(self) -> dict[str, slice]:
        """Where the mean and variance of what is normalised lie in a vector, in this order."""
        found, start = {}, 0
        for kind in self.kinds:
            for name, size in kind.statistics().items():
                found[name] = slice(start, start + size)
                start += size
        return found

    @property
    def pooled(self) -> int:
        """The number of means of the poolings of the node."""
        return self.filters * sum(name in POOLING for name in self.operations)

    def weights(self) -> dict[str, tuple[tuple[int, ...], tuple[int, int]]]:
        """Return the learned weights of all kinds, see `OperationKind.weights`."""
        return {name: value for kind in self.kinds for name, value in kind.weights().items()}

    def places(self, operation: str) -> list[Place]:
        """Return where the weights of an operation's layer lie, in the order of that layer."""
        (kind,) = (kind for kind in self.kinds if operation in kind.names)
        return kind.places(operation)

    def alone(self, operation: str) -> "Edge":
        """Return the edge with one of the operations."""
        return dataclasses.replace(self, operations=(operation,))


def node_values(
    edge: Edge, x: Tensor, weights: dict[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return what all edges from a node need, and the statistics of its pooled features."""
    values, statistics = {"features": ops.convert_to_tensor(x)}, {}
    for kind in edge.kinds:
        statistics |= kind.add_node_values(values, weights) or {}
    return values, statistics


def outcomes(
    edge: Edge, node: dict[str, Tensor], weights: dict[str, Tensor], probabilities: Tensor
) -> tuple[dict[str, list[Tensor]], dict[str, Tensor]]:
    """Return what the operations on the edges from a node make, times their probabilities."""
    stack = _Stack(edge, node, weights, probabilities)
    for kind in edge.kinds:
        kind.compute(stack)
    result = {**stack.features(), **stack.maps}
    result = {
        kind: [value] if stack.count == 1 else ops.split(value, stack.count, axis=-1)
        for kind, value in result.items()
    }
    kinds = {"moving_mean": stack.means, "moving_variance": stack.variances}
    return result, {name: joined(values, 1) for name, values in kinds.items() if values}


class _Stack:
    """Edges from one node, their weights and probabilities, and what has been made of them.

    Attributes:
        parts, phased, offsets: weighted features that are to be added up: all places along the
            first axis, those of the phases of images, and what is the same at all places.
        maps: what operations make that is no features.
        means, variances: those of what was normalised.
    """

    def __init__(self, edge, node, weights, probabilities):
        self.edge, self.node, self.weights = edge, node, weights
        self.x = node["features"]
        self.sizes = [-(-n // edge.strides) for n in self.x.shape[1:-1]]
        self.count = probabilities.shape[0]
        # Slices have several times the nodes of a graph, with their gradients.
        self.probabilities = ops.unstack(ops.convert_to_tensor(probabilities), axis=-1)
        # Kernels are scaled in float32 where the inputs are shorter.
        double = keras.backend.standardize_dtype(self.x.dtype) == "float64"
        self.exact = "float64" if double else "float32"
        self.inverse_batch = 1 / ops.cast(ops.shape(self.x)[0], self.exact)
        self.parts, self.phased, self.offsets = [], [], []
        self.maps, self.means, self.variances = {}, [], []

    def features(self):
        """Return the weighted sum of the features of each edge, if there are any."""
        parts = [*self.parts]
        if self.phased:
            parts.append(self._unphased(sum(self.phased[1:], self.phased[0])))
        if not parts:
            return {}
        total = sum(parts[1:], parts[0])
        if self.offsets:
            total = total + ops.cast(sum(self.offsets[1:], self.offsets[0]), total.dtype)
        return {"features": self.as_images(total)}

    def weight(self, name):
        """Return a weight of the edges in the precision of scales."""
        return ops.cast(self.weights[name], self.exact)

    def as_images(self, flat):
        """Return images of the size of the outcomes, from all places along the first axis."""
        return ops.reshape(flat, (-1, *self.sizes, flat.shape[-1]))

    def side_by_side(self, x):
        """Return features of the node once for each edge."""
        return ops.concatenate([x] * self.count, axis=-1) if self.count > 1 else x

    def recomputed(self, function):
        """Return a function that keeps nothing for its gradient in training."""
        return keras.remat(function) if _recomputes(self.edge) else function

    def of(self, names):
        """Return the probabilities of operations, a tensor `(operations, edges)`."""
        return ops.stack([self.probabilities[self.edge.operations.index(name)] for name in names])

    def wide(self, names):
        """Return `of` for each filter, `(number, 1, channels)`; of one edge to be broadcast."""
        values = ops.cast(self.of(names), self.exact)
        if self.count == 1:
            return ops.expand_dims(values, 1)
        values = ops.multiply(values[..., None], np.ones(self.edge.filters, self.exact))
        return ops.reshape(values, (values.shape[0], 1, -1))

    def moments_of(self, name):
        """Return the moments of a node's features, of one in a list, empty unless in training."""
        return [self.node[f"{name}_moments"]] if self.edge.training else []

    def normalized(self, name, found, matrices, places=None):
        """Return scales and offsets that normalise products of features and matrices."""
        number, edges = matrices.shape[0], self.count
        if not self.edge.training:
            place = self.edge.statistics[name]
            kinds = (self.weight(f"moving_{kind}")[:, place] for kind in ("mean", "variance"))
            kinds = (_swapped(kind, edges, number) for kind in kinds)
            return scale_and_offset(*(ops.reshape(kind, (number, 1, -1)) for kind in kinds))
        found = ops.stack(found) if number > 1 else ops.expand_dims(found[0], 0)
        found = ops.matmul(
            found, matrices * (self.inverse_batch / (places or math.prod(self.sizes)))
        )
        squares, mean = splitting.split(found, (found.shape[1] - 1, 1), axis=1)
        squares = ops.sum(matrices * squares, axis=1, keepdims=True)
        variance = ops.relu(squares - ops.square(mean))
        for noted, value in ((self.means, mean), (self.variances, variance)):
            # Functions that are traced once hand over nothing longer aside.
            value = ops.cast(_swapped(value, number, edges), "float32")
            noted.append(ops.reshape(value, (edges, -1)))
        return scale_and_offset(mean, variance)

    def _unphased(self, flat):
        """Return features of the phases, all places along the first axis, as those of images."""
        height, width = (n // 2 for n in self.sizes)
        y = ops.reshape(flat, (2, 2, -1, height, width, flat.shape[-1]))
        return flattened(ops.transpose(y, (2, 3, 0, 4, 1, 5)))


class OperationKind:
    """Base class of the kinds of operations on an edge, without weights and statistics."""

    def __init__(self, edge: Edge):
        self.edge = edge
        self.names = [name for name in edge.operations if self.holds(name)]

    def holds(self, name: str) -> bool:
        """Return whether an operation on the edge is of this kind."""
        return False

    def weights(self) -> dict[str, tuple[tuple[int, ...], tuple[int, int]]]:
        """Return the shapes and the fans, in and out, of the learned weights by their names."""
        return {}

    def statistics(self) -> dict[str, int]:
        """Return the number of means of what is normalised, by its name."""
        return {}

    def places(self, operation: str) -> list[Place]:
        """Return where the weights of an operation's layer lie, in the order of that layer."""
        return []

    def add_node_values(self, values: dict[str, Tensor], weights: dict[str, Tensor]):
        """Add what all edges from a node need; return statistics of the batch, if there are any."""

    def compute(self, stack: _Stack) -> None:
        """Add what the operations make to a stack."""

    def add_moments(self, values, name):
        """Add the moments of a node's features in training."""
        if self.edge.training and f"{name}_moments" not in values:
            values[f"{name}_moments"] = moments(flattened(values[name]))

    def normalization(self, name, row=0, count=1):
        """Return where the statistics of one of `count` normalised features lie."""
        start, size = self.edge.statistics[name].start, self.statistics()[name] // count
        own = (slice(start + row * size, start + (row + 1) * size),)
        return [Place("moving_mean", own), Place("moving_variance", own)]


class DepthwiseSeparable(OperationKind):
    """Rectification, depthwise and 1 × 1 convolution, normalisation; separable ones twice."""

    def holds(self, name):
        return name in SEPARABLE

    def step_names(self, step):
        """Return the names of the operations that have a step, 0 or 1."""
        return [name for name in self.names if step < SEPARABLE[name][2]]

    def weights(self):
        found, c = {}, self.edge.filters
        for step in (0, 1):
            names = self.step_names(step)
            for name in names:
                size = SEPARABLE[name][0]
                found[f"{name}_depthwise_{step}"] = (size, size, c, 1), (size**2 * c, size**2)
            if names:
                found[f"pointwise_{step}"] = (len(names), c, c), (c, c)
        return found

    def statistics(self):
        sizes = {f"pointwise_{step}": len(self.step_names(step)) for step in (0, 1)}
        return {name: self.edge.filters * size for name, size in sizes.items() if size}

    def places(self, operation):
        found = []
        for step in (0, 1):
            names, name = self.step_names(step), f"pointwise_{step}"
            if operation in names:
                row = names.index(operation)
                found.append(Place(f"{operation}_depthwise_{step}"))
                found.append(Place(name, (slice(row, row + 1),)))
                found += self.normalization(name, row, len(names))
        return found

    def add_node_values(self, values, weights):
        x, strides = values["features"], self.edge.strides
        values["rectified"] = ops.relu(x)
        # Whether the phases of images are those that dilated windows read.
        phases = strides > 1 or all(n % 2 == 0 for n in x.shape[1:-1])
        if phases and any(SEPARABLE[name][1] > 1 for name in self.names):
            values["phases"] = _phases(values["rectified"], strides)

    def compute(self, stack):
        x, names = stack.node["rectified"], self.names
        # Several kernels for one channel are possible, too, but XLA is slow at their gradient.
        x = stack.side_by_side(x)
        flats = [self._depthwise(stack, name, 0, self.edge.strides, x) for name in names]
        for step in (0, 1):
            matrices = block_diagonal(stack.weight(f"pointwise_{step}"))
            found = [moments(flat) for flat in flats] if self.edge.training else []
            scale, offset = stack.normalized(f"pointwise_{step}", found, matrices)
            again = self.step_names(1) if step == 0 else []
            factor = stack.wide(names)
            # What is done again is rectified first, so that its probability comes later.
            now = np.array([name not in again for name in names], stack.exact)[:, None, None]
            if again:
                factor = ops.add(ops.multiply(factor, now), 1 - now)
            matrices, offsets = ops.unstack(matrices * (scale * factor)), ops.unstack(offset)
            if np.any(now):
                stack.offsets.append(ops.sum(offset * ops.multiply(factor, now), axis=0))
            later = []
            for row, (name, flat, matrix) in enumerate(zip(names, flats, matrices, strict=True)):
                if name in again:
                    later.append(self._done_again(stack, name, flat, matrix, offsets[row]))
                    continue
                phased = SEPARABLE[name][1] > 1 and "phases" in stack.node
                target = stack.phased if phased and self.edge.strides == 1 else stack.parts
                target.append(_product(flat, matrix))
            names, flats = again, later
            if not names:
                return

    def _done_again(self, stack, name, flat, matrix, offset):
        """Return the second depthwise convolution of a separable operation, from the first one."""

        def compute(flat, matrix, offset, kernel):
            y = ops.relu(_product(flat, matrix) + ops.cast(offset, flat.dtype))
            return self._convolved(name, 1, stack.as_images(y), kernel)

        # What is rectified is not kept in training: one small product computes it again.
        return stack.recomputed(compute)(flat, matrix, offset, self._taps(stack, name, 1))

    def _taps(self, stack, name, step):
        kernel = stack.weights[f"{name}_depthwise_{step}"]
        return ops.transpose(kernel, (1, 2, 0, 3, 4)) if stack.count > 1 else kernel

    def _depthwise(self, stack, name, step, strides, x):
        """Return a first convolution, of the phases for dilated ones if the node has them."""
        rate = SEPARABLE[name][1]
        if rate > 1 and "phases" in stack.node:
            x, strides, rate = stack.side_by_side(stack.node["phases"]), 1, 1
        return self._convolved(name, strides, x, self._taps(stack, name, step), rate)

    def _convolved(self, name, strides, x, kernel, rate=1):
        """Return a depthwise convolution, all places along the first axis."""
        size = SEPARABLE[name][0]
        kernel = ops.reshape(kernel, (size, size, x.shape[-1], -1))
        return flattened(
            ops.depthwise_conv(x, kernel, strides, "same", "channels_last", (rate, rate))
        )


class WithoutWeights(OperationKind):
    """Poolings, normalised once for all edges from a node, and the identity without strides."""

    def holds(self, name):
        return name in POOLING or (name == "identity" and self.edge.strides == 1)

    def places(self, operation):
        if operation == "identity":
            return []
        c, row = self.edge.filters, [n for n in self.names if n in POOLING].index(operation)
        own = (slice(row * c, (row + 1) * c),)
        return [Place(f"pooling_moving_{kind}", own) for kind in ("mean", "variance")]

    def add_node_values(self, values, weights):
        x, statistics = values["features"], {}
        shared = [flattened(_pooled(self.edge, name, x)) for name in self.names if name in POOLING]
        if shared:
            pooled = joined(shared, -1)
            if self.edge.training:
                of_batch = ops.moments(ops.cast(pooled, "float32"), 0, keepdims=True)
                kinds = zip(("mean", "variance"), of_batch, strict=True)
                statistics = {f"pooling_moving_{kind}": ops.reshape(m, (-1,)) for kind, m in kinds}
            else:
                kinds = (weights[f"pooling_moving_{kind}"] for kind in ("mean", "variance"))
                of_batch = [ops.reshape(kind, (1, -1)) for kind in kinds]
            scale, offset = (ops.cast(v, pooled.dtype) for v in scale_and_offset(*of_batch))
            shared = [pooled * scale + offset]
        if "identity" in self.names:
            shared.append(flattened(x))
        values["shared"] = joined(shared, -1)
        return statistics

    def compute(self, stack):
        """Add the weighted sums of what edges from one node share."""
        shared, c, count = stack.node["shared"], self.edge.filters, stack.count
        names = [name for name in self.names if name in POOLING]
        names += [name for name in self.names if name not in POOLING]
        if len(names) == 1:
            factor = ops.reshape(stack.of(names), (count, 1))
            y = ops.reshape(shared, (-1, 1, c)) * ops.cast(factor, shared.dtype)
            stack.parts.append(ops.reshape(y, (-1, count * c)))
            return
        factor = ops.reshape(stack.of(names), (-1, 1, count, 1))
        rows = ops.multiply(factor, np.eye(c, dtype=stack.exact)[:, None])
        stack.parts.append(_product(shared, ops.reshape(rows, (-1, count * c))))


class Reduction(OperationKind):
    """The identity with strides, a `FactorizedReduce`."""

    def holds(self, name):
        return name == "identity" and self.edge.strides > 1

    def weights(self):
        c = self.edge.filters
        half = (c + 1) // 2
        widths = (("even", half), ("odd", c - half))
        return {name: ((c, width), (c, width)) for name, width in widths}

    def statistics(self):
        return {"reduction": self.edge.filters}

    def places(self, operation):
        return [Place("even"), Place("odd"), *self.normalization("reduction")]

    def add_node_values(self, values, weights):
        x, steps = values["features"], (2, 2)
        rectified = values["rectified"] if "rectified" in values else ops.relu(x)
        whole = window_padding.extended(rectified, [(0, n % 2) for n in x.shape[1:3]])
        halves = [
            window_padding.every(rectified, steps),
            window_padding.every(whole, steps, (1, 1)),
        ]
        values["halves"] = flattened(ops.concatenate(halves, axis=-1))
        self.add_moments(values, "halves")

    def compute(self, stack):
        even, odd = stack.weight("even"), stack.weight("odd")
        blocks = [
            ops.pad(even, [(0, 0), (0, 0), (0, odd.shape[-1])]),
            ops.pad(odd, [(0, 0), (0, 0), (even.shape[-1], 0)]),
        ]
        matrix = side_by_side(ops.concatenate(blocks, axis=1))
        found = stack.moments_of("halves")
        scale, offset = stack.normalized("reduction", found, ops.expand_dims(matrix, 0))
        factor = stack.wide(self.names)
        stack.parts.append(_product(stack.node["halves"], matrix * ops.squeeze(scale * factor, 0)))
        stack.offsets.append(ops.squeeze(offset * factor, 0))


class SpatialAttentionMaps(OperationKind):
    """Attention to places, `(batch, height, width, edges)`: see `SpatialAttention`."""

    def __init__(self, edge):
        super().__init__(edge)
        self.inner = max(edge.filters // ATTENTION_REDUCTION, 1)
        self.source = "strided" if edge.strides > 1 else "features"

    def holds(self, name):
        return name == "spatial_attention"

    def weights(self):
        c, inner = self.edge.filters, self.inner
        return {
            "spatial_squeeze": ((c, inner), (c, inner)),
            "spatial_score": ((3, 3, inner, 1), (9 * inner, 9)),
        }

    def statistics(self):
        return {"spatial": self.inner}

    def places(self, operation):
        return [Place("spatial_squeeze"), *self.normalization("spatial"), Place("spatial_score")]

    def add_node_values(self, values, weights):
        if self.edge.strides > 1:
            values["strided"] = flattened(window_padding.every(values["features"], (2, 2)))
        self.add_moments(values, self.source)

    def compute(self, stack):
        matrix = side_by_side(stack.weight("spatial_squeeze"))
        found = stack.moments_of(self.source)
        scale, offset = stack.normalized("spatial", found, ops.expand_dims(matrix, 0))
        y = _product(flattened(stack.node[self.source]), matrix * ops.squeeze(scale, 0))
        y = stack.as_images(ops.relu(y + ops.cast(ops.squeeze(offset, 0), y.dtype)))
        kernel = ops.reshape(stack.weights["spatial_score"], (stack.count, 9, self.inner, 1))
        kernel = ops.reshape(block_diagonal(kernel), (3, 3, -1, stack.count))
        y = ops.sigmoid(ops.conv(y, kernel, 1, "same", "channels_last"))
        stack.maps["spatial"] = y * ops.cast(ops.squeeze(stack.of(self.names), 0), y.dtype)


class ChannelAttentionMaps(OperationKind):
    """Attention to channels, `(batch, 1, 1, edges * filters)`: see `ChannelAttention`."""

    def holds(self, name):
        return name == "channel_attention"

    def weights(self):
        c = self.edge.filters
        inner = max(c // ATTENTION_REDUCTION, 1)
        shapes = (("channel_squeeze", (c, inner)), ("channel_excite", (inner, c)))
        return {name: (shape, shape) for name, shape in shapes}

    def places(self, operation):
        return [Place("channel_squeeze"), Place("channel_excite")]

    def compute(self, stack):
        squeeze, excite = (stack.weights[f"channel_{name}"] for name in ("squeeze", "excite"))
        y = ops.relu(ops.matmul(ops.mean(stack.x, axis=(1, 2)), side_by_side(squeeze)))
        y = ops.sigmoid(ops.matmul(y, ops.squeeze(block_diagonal(ops.expand_dims(excite, 1)), 0)))
        factor = stack.wide(self.names)
        stack.maps["channel"] = ops.reshape(
            y * ops.cast(ops.squeeze(factor, 0), y.dtype), (-1, 1, 1, y.shape[-1])
        )


class DynamicKernels(OperationKind):
    """Sums of dynamic kernels, `(batch, k, k, edges * filters)`: see `DynamicKernel`."""

    def __init__(self, edge):
        super().__init__(edge)
        self.sizes = [KERNEL_SIZES[name] for name in self.names]
        self.rates = [DILATION_RATES[name] for name in self.names]
        self.inner = max(edge.filters // DYNAMIC_REDUCTION, 1)

    def holds(self, name):
        return name in KERNEL_SIZES

    def weights(self):
        c, inner = self.edge.filters, self.inner
        found = {"bottleneck": ((c, len(self.sizes) * inner), (c, inner))}
        for name, size in zip(self.names, self.sizes, strict=True):
            found[_of_kernel("transform", name)] = (size**2, c), (c, size**2)
            found[_of_kernel("decode", name)] = (c, inner), (inner, c)
        return found

    def statistics(self):
        return {"bottleneck": self.inner * len(self.sizes)}

    def places(self, operation):
        row = self.names.index(operation)
        columns = (slice(None), slice(row * self.inner, (row + 1) * self.inner))
        return [
            Place("bottleneck", columns),
            *self.normalization("bottleneck", row, len(self.names)),
            Place(_of_kernel("transform", operation), transposed=True),
            Place(_of_kernel("decode", operation), transposed=True),
        ]

    def add_node_values(self, values, weights):
        x = values["features"]
        images = ops.reshape(x, (-1, math.prod(x.shape[1:-1]), x.shape[-1]))
        values["images"] = ops.transpose(images, (0, 2, 1))
        self.add_moments(values, "features")

    def compute(self, stack):
        images = stack.node["images"]
        matrix = side_by_side(stack.weight("bottleneck"))
        found = stack.moments_of("features")
        scale, offset = stack.normalized(
            "bottleneck", found, ops.expand_dims(matrix, 0), images.shape[-1]
        )
        taps = joined([stack.weights[_of_kernel("transform", name)] for name in self.names], 1)
        taps = ops.transpose(taps, (1, 0, 2)) if stack.count > 1 else taps
        decode = joined([stack.weights[_of_kernel("decode", name)] for name in self.names], 2)
        decode = ops.expand_dims(ops.transpose(decode, (0, 2, 1)), 1)
        compute = functools.partial(dynamic_kernels, self.sizes, self.rates, stack.count)
        stack.maps["kernel"] = stack.recomputed(compute)(
            stack.x,
            images,
            ops.cast(matrix * ops.squeeze(scale, 0), stack.x.dtype),
            ops.cast(ops.squeeze(offset, 0), stack.x.dtype),
            ops.reshape(taps, (-1, self.edge.filters)),
            ops.squeeze(block_diagonal(decode), 0),
            ops.cast(stack.wide(self.names), stack.x.dtype),
        )


# In the order in which their weights are created and saved.
KINDS = (
    DepthwiseSeparable,
    WithoutWeights,
    Reduction,
    SpatialAttentionMaps,
    ChannelAttentionMaps,
    DynamicKernels,
)


def _of_kernel(weight, operation):
    """Return the name of a weight of a dynamic kernel: `"decode_3"`, `"decode_dilated_3"`."""
    return f"{weight}_{operation.removeprefix('dynamic_')}"


def _recomputes(edge):
    return edge.training and len(edge.operations) > 1


def _product(flat, matrix):
    return ops.matmul(flat, ops.cast(matrix, flat.dtype))


def _swapped(values, rows, columns):
    """Return values of rows and columns with columns first: `(columns, rows, outputs)`."""
    if 1 in (rows, columns):
        return ops.reshape(values, (columns, rows, -1))
    return ops.transpose(ops.reshape(values, (rows, columns, -1)), (1, 0, 2))


def _phases(x, strides):
    """Return every other place of images, as images: windows dilated by 2 read one phase."""
    height, width, channels = x.shape[1:]
    if strides > 1:
        # By the rule of "same" the first window reaches an odd number of places beyond even sizes.
        return window_padding.every(x, (2, 2), (1 - height % 2, 1 - width % 2))
    x = ops.reshape(x, (-1, height // 2, 2, width // 2, 2, channels))
    x = ops.transpose(x, (2, 4, 0, 1, 3, 5))
    return ops.reshape(x, (-1, height // 2, width // 2, channels))


def _pooled(edge, name, x):
    steps = (edge.strides, edge.strides)
    border = window_padding.borders(x.shape[1:-1], (3, 3), (3, 3), steps, "same")
    if name != "max_pooling_3":
        return window_padding.average_pool(x, (3, 3), border, steps)

    def pool(images):
        return window_padding.max_pool(images, (3, 3), border, steps)

    # TensorFlow's fast gradient needs the pooling beside it, not in the function that is called
    # before; pooling again takes less time than the other gradient takes longer.
    return (keras.remat(pool) if _recomputes(edge) else pool)(x)
