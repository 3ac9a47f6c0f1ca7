"""The weights of the operations on all edges of a cell, those of one kind in one variable."""

import math
from collections.abc import Sequence
from typing import Unpack

import keras
from keras import ops

from keras_xd.core.tracing import calls_traced_functions, traced_part
from keras_xd.core.type_aliases import Config, LayerOptions, Shape, Tensor
from keras_xd.layers.cells.chosen_operation import chosen_outcome, combined_chosen
from keras_xd.layers.cells.dynamic_conv import MOMENTUM
from keras_xd.layers.cells.edge import (
    ATTENTION_REDUCTION,
    DEPTHWISE,
    DYNAMIC_REDUCTION,
    POOLING,
    Edge,
    depthwise_names,
    is_separable,
    kernel_sizes,
)
from keras_xd.layers.cells.edge_products import outcomes
from keras_xd.layers.cells.node_products import joined, node_values


@keras.saving.register_keras_serializable(package="keras_xd")
class EdgeStack(keras.layers.Layer):
    """The operations on the edges of a cell.

    The first axis of every variable is that of the edges: `variable[e]` is what the layer of one
    operation would have, see `keras_xd.layers.FeatureOperation` and its like. So an optimizer has a
    few variables to move, and all edges of equal shapes are one function, traced once.

    Args:
        filters: number of channels of every node and of what operations make.
        operations: names of the operations.
        strides: 1 or 2 for each node; the operations on it have these strides.
        nodes: the number of the node that each edge comes from.

    Example:

    >>> import numpy as np
    >>> from keras_xd.layers.cells.edge_stack import EdgeStack
    >>> names = ("dilated_3", "identity", "dynamic_3")
    >>> stack = EdgeStack(4, names, strides=[1, 2], nodes=[0, 1])
    >>> stack.build()
    >>> images = np.ones((2, 8, 8, 4), "float32")
    >>> values, _ = stack.node_values(1, images, stack.node_weights())
    >>> weights, shares = stack.group_weights([(1,)]), np.full((1, 3), 1 / 3, "float32")
    >>> made, _ = stack.outcomes((1,), values, weights[1,], shares)
    >>> made[1]["features"].shape, made[1]["kernel"].shape
    (TensorShape([2, 4, 4, 4]), TensorShape([2, 3, 3, 4]))
    """

    def __init__(
        self,
        filters: int,
        operations: Sequence[str],
        strides: Sequence[int],
        nodes: Sequence[int],
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**kwargs)
        self.filters, self.operations = filters, tuple(operations)
        self.strides, self.nodes = tuple(strides), tuple(nodes)

    def build(self, input_shape: Shape | None = None) -> None:
        c, names = self.filters, self.operations
        every = list(range(len(self.nodes)))
        # The variable of each name, and the edges that have it.
        self._stacked: dict[str, tuple[keras.Variable, list[int]]] = {}

        def add(name, shape, fans=None, edges=every, **options):
            """Add a weight of each edge, drawn as the layer of one edge would draw it."""
            if fans:
                limit = math.sqrt(6 / sum(fans))
                options["initializer"] = keras.initializers.RandomUniform(-limit, limit)
            variable = self.add_weight(name=name, shape=(len(edges), *shape), **options)
            self._stacked[name] = variable, edges
            setattr(self, name, variable)  # which TensorFlow's checkpoints look for

        for step in (0, 1):
            again = depthwise_names(names, step)
            for name in again:
                size = DEPTHWISE[name][0]
                fans = size**2 * c, size**2
                add(f"{name}_depthwise_{step}", (size, size, c, 1), fans)
            if again:
                add(f"pointwise_{step}", (len(again), c, c), (c, c))
        strided = [edge for edge in every if self.strides[self.nodes[edge]] > 1]
        if "identity" in names and strided:
            half = (c + 1) // 2
            for name, width in (("even", half), ("odd", c - half)):
                add(name, (c, width), (c, width), strided)
        inner = max(c // ATTENTION_REDUCTION, 1)
        if "spatial_attention" in names:
            add("spatial_squeeze", (c, inner), (c, inner))
            add("spatial_score", (3, 3, inner, 1), (9 * inner, 9))
        if "channel_attention" in names:
            add("channel_squeeze", (c, inner), (c, inner))
            add("channel_excite", (inner, c), (inner, c))
        inner, sizes = max(c // DYNAMIC_REDUCTION, 1), kernel_sizes(names)
        if sizes:
            add("bottleneck", (c, len(sizes) * inner), (c, inner))
        for size in sizes:
            add(f"transform_{size}", (size**2, c), (c, size**2))
            add(f"decode_{size}", (c, inner), (inner, c))
        poolings = c * sum(name in POOLING for name in names)
        numbers = list(range(len(self.strides)))
        for strides in (1, 2):
            edges = [edge for edge in every if self.strides[self.nodes[edge]] == strides]
            count = sum(p.stop - p.start for p in self._edge(strides, False).statistics.values())
            for kind, initializer in (("mean", "zeros"), ("variance", "ones")):
                options = {"trainable": False, "autocast": False, "initializer": initializer}
                if edges and count:
                    name = f"moving_{kind}" if strides == 1 else f"strided_moving_{kind}"
                    add(name, (count,), edges=edges, **options)
                if poolings and strides == 1:
                    add(f"pooling_moving_{kind}", (poolings,), edges=numbers, **options)
        self.built = True

    def edge_weights(self) -> list[dict[str, Tensor]]:
        """Return the weights of each edge by their names."""
        return self._unstacked(len(self.nodes), of_poolings=False)

    def groups(self) -> list[tuple[int, ...]]:
        """Return the numbers of the edges that are computed together: all those from one node.

        Where a function is traced once for many calls every edge is computed alone: a function for
        each number of edges would take longer to trace, and no less time to compute.
        """
        if calls_traced_functions():
            return [(number,) for number in range(len(self.nodes))]
        found = {}
        for number, node in enumerate(self.nodes):
            found[node] = (*found.get(node, ()), number)
        return list(found.values())

    def group_weights(
        self, groups: Sequence[tuple[int, ...]]
    ) -> dict[tuple[int, ...], dict[str, Tensor]]:
        """Return the weights of groups of edges by their names, edges along the first axis."""
        found = {group: {} for group in groups}
        for name, value, numbers in self._values(of_poolings=False):
            for group, own in self.grouped(value, groups, numbers).items():
                found[group][name] = own
        return found

    def node_weights(self) -> list[dict[str, Tensor]]:
        """Return the weights of each node by their names, the statistics of its poolings."""
        return self._unstacked(len(self.strides), of_poolings=True)

    def grouped(
        self,
        values: Tensor,
        groups: Sequence[tuple[int, ...]],
        numbers: Sequence[int] | None = None,
    ) -> dict[tuple[int, ...], Tensor]:
        """Return the rows of edges, those of each group in one tensor.

        Args:
            values: a tensor of one row for each edge.
            groups: of edges.
            numbers: of the edges that the rows are of, all by default.
        """
        numbers = range(len(self.nodes)) if numbers is None else numbers
        rows = [values] if len(numbers) == 1 else ops.split(values, len(numbers))
        rows = dict(zip(numbers, rows, strict=True))
        # Edges from one node have the same weights.
        return {
            group: joined([rows[number] for number in group], 0)
            for group in groups
            if group[0] in rows
        }

    def node_values(
        self,
        number: int,
        x: Tensor,
        weights: Sequence[dict[str, Tensor]],
        training: bool | None = None,
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return what all edges from a node need, see `node_products.node_values`.

        Args:
            number: of the node.
            x: its features, `(batch, height, width, filters)`.
            weights: those of `node_weights()`.
            training: whether to normalise by the batch.
        """
        edge = self._edge(self.strides[number], training)
        return traced_part(node_values, edge)(x, weights[number])

    def outcomes(
        self,
        group: tuple[int, ...],
        node: dict[str, Tensor],
        weights: dict[str, Tensor],
        shares: Tensor,
        training: bool | None = None,
    ) -> tuple[dict[int, dict[str, Tensor]], dict[int, dict[str, Tensor]]]:
        """Return what the operations on edges from one node make, see `edge_products.outcomes`.

        Args:
            group: the numbers of the edges.
            node: the first of `node_values` of their node.
            weights: those of the group, of `group_weights`.
            shares: the shares of the operations, a float32 row for each of the edges.
            training: whether to normalise by the batch.

        Returns:
            Two dictionaries from the numbers of the edges to those of each.
        """
        edge = self._edge(self.strides[self.nodes[group[0]]], training)
        made, statistics = traced_part(outcomes, edge)(node, weights, shares)
        statistics = {name: ops.unstack(rows) for name, rows in statistics.items()}
        return tuple(
            {
                number: {name: values[row] for name, values in found.items()}
                for row, number in enumerate(group)
            }
            for found in (made, statistics)
        )

    def chosen_node(
        self,
        edges: dict[int, Tensor],
        paths: dict[str, Sequence[Tensor]],
        weights: tuple[Sequence[dict[str, Tensor]], Sequence[dict[str, Tensor]]],
        gate: Tensor | None,
        surrogate: Tensor | None,
        training: bool | None = None,
    ) -> tuple[Tensor, list[tuple[int, dict[str, Tensor]]]]:
        """Return the node that chosen operations on edges make, see `chosen_operation`.

        Args:
            edges: from the numbers of the edges to the features of the nodes they come from.
            paths: of each edge, by `numbers` the columns of its chosen operations, by `weights`
                their weights.
            weights: those of `edge_weights()` and of `node_weights()`.
            gate, surrogate: as for `chosen_operation.combined_chosen`.
            training: whether to normalise by the batch.

        Returns:
            The node, and what `update_chosen` takes.
        """
        made, moved, columns, factors = [], [], [], []
        for number, x in edges.items():
            node = self.nodes[number]
            function = traced_part(chosen_outcome, self._edge(self.strides[node], training))
            own = {**weights[0][number], **weights[1][node]}
            drawn = (ops.unstack(paths[name][number]) for name in ("numbers", "weights"))
            for column, factor in zip(*drawn, strict=True):
                outcome, statistics = function(x, own, column, factor)
                made.append(outcome)
                moved.append((number, statistics))
                columns.append(column)
                factors.append(factor)
        combine = traced_part(combined_chosen, self.operations, len(edges))
        factors = ops.stack(factors)
        return combine(made, gate, ops.stack(columns), surrogate, factors)[0], moved

    def update_chosen(self, moved: Sequence[tuple[int, dict[str, Tensor]]]) -> None:
        """Assign the moving statistics that chosen operations have moved.

        Args:
            moved: pairs of the number of an edge and the second of `chosen_outcome`, several of
                one edge if several of its operations were chosen.
        """
        for name, (variable, numbers) in self._stacked.items():
            if "moving_" in name:
                kind = name.removeprefix("strided_")
                rows = ops.unstack(ops.convert_to_tensor(variable))
                before = dict(zip(numbers, rows, strict=True))
                after = dict(before)
                for edge, statistics in moved:
                    place = self.nodes[edge] if name.startswith("pooling") else edge
                    if place in before:
                        found = statistics[kind]
                        after[place] = ops.where(found != before[place], found, after[place])
                variable.assign(ops.stack([after[number] for number in numbers]))

    def update(
        self, nodes: dict[int, dict[str, Tensor]], edges: dict[int, dict[str, Tensor]]
    ) -> None:
        """Move the moving statistics towards those of a batch.

        Args:
            nodes: of each node, the second of its values in training.
            edges: of each edge, the second of its outcomes in training.
        """
        for name, (variable, numbers) in self._stacked.items():
            if "moving_" in name:
                statistics = nodes if name.startswith("pooling") else edges
                kind = name.removeprefix("strided_")
                found = ops.stack([statistics[number][kind] for number in numbers])
                variable.assign(variable * MOMENTUM + found * (1 - MOMENTUM))

    def fill(self, layer: keras.layers.Layer, number: int, operation: str) -> None:
        """Give the built layer of an operation the weights that it has on an edge.

        Args:
            layer: a `FeatureOperation`, attention or `DynamicKernel`.
            number: of the edge.
            operation: name of the operation.
        """
        node = self.nodes[number]
        edge = self._edge(self.strides[node], False)

        def weight(name):
            """Return the weight of that name on the edge, or at its node."""
            place = node if name.startswith("pooling") else number
            found = [
                self._stacked[own] for own in (name, f"strided_{name}") if own in self._stacked
            ]
            ((variable, numbers),) = [one for one in found if place in one[1]]
            return ops.convert_to_numpy(variable)[numbers.index(place)]

        def normalize(normalization, name, row=0):
            variables = normalization.moving_mean, normalization.moving_variance
            for variable, kind in zip(variables, ("mean", "variance"), strict=True):
                if name == "pooling":
                    values = weight(f"pooling_moving_{kind}")
                else:
                    values = weight(f"moving_{kind}")[edge.statistics[name]]
                variable.assign(values.reshape(-1, *variable.shape)[row])

        def assign(convolution, matrix):
            convolution.kernel.assign(matrix[None, None])

        if operation in DEPTHWISE:
            steps = {step.name: step for step in layer.steps}
            for step in range(1 + is_separable(operation)):
                row = depthwise_names(self.operations, step).index(operation)
                kernel = weight(f"{operation}_depthwise_{step}")
                steps[f"depthwise_{step}"].kernel.assign(kernel)
                assign(steps[f"pointwise_{step}"], weight(f"pointwise_{step}")[row])
                normalize(steps[f"normalization_{step}"], f"pointwise_{step}", row)
        elif operation in POOLING:
            row = [name for name in self.operations if name in POOLING].index(operation)
            normalize(layer.steps[-1], "pooling", row)
        elif operation == "identity":
            for step in layer.steps:  # none without strides
                assign(step.even, weight("even"))
                assign(step.odd, weight("odd"))
                normalize(step.normalization, "reduction")
        elif operation == "spatial_attention":
            assign(layer.squeeze, weight("spatial_squeeze"))
            normalize(layer.normalization, "spatial")
            layer.score.kernel.assign(weight("spatial_score"))
        elif operation == "channel_attention":
            assign(layer.squeeze, weight("channel_squeeze"))
            assign(layer.excite, weight("channel_excite"))
        else:
            row = kernel_sizes(self.operations).index(layer.kernel_size)
            inner = layer.bottleneck.filters
            columns = slice(row * inner, (row + 1) * inner)
            assign(layer.bottleneck, weight("bottleneck")[:, columns])
            normalize(layer.normalization, "bottleneck", row)
            assign(layer.transform, weight(f"transform_{layer.kernel_size}").T)
            assign(layer.decode, weight(f"decode_{layer.kernel_size}").T)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "filters": self.filters,
            "operations": self.operations,
            "strides": self.strides,
            "nodes": self.nodes,
        }

    def _edge(self, strides, training):
        return Edge(self.filters, strides, self.operations, bool(training) and self.trainable)

    def _unstacked(self, count, of_poolings):
        """Return the weights of each edge or node by their names."""
        found = [{} for _ in range(count)]
        for name, value, numbers in self._values(of_poolings):
            for number, own in zip(numbers, ops.unstack(value), strict=True):
                found[number][name] = own
        return found

    def _values(self, of_poolings):
        """Return the name, the value and the edges, or nodes, of each variable."""
        return [
            (name.removeprefix("strided_"), ops.convert_to_tensor(variable), numbers)
            for name, (variable, numbers) in self._stacked.items()
            if name.startswith("pooling") == of_poolings
        ]
