"""The operations on all edges of a cell as one layer, with one variable for each kind of weight."""

import math
from collections.abc import Iterable, Sequence
from typing import Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.tracing import calls_traced_functions, traced_part
from keras_xd.core.type_aliases import LayerOptions, Shape, Tensor
from keras_xd.layers.cells.chosen_operation import chosen_outcome, combined_chosen
from keras_xd.layers.cells.dynamic_conv import MOMENTUM
from keras_xd.layers.cells.edge_operations import Edge, node_values, outcomes
from keras_xd.layers.cells.edge_products import joined


@keras.saving.register_keras_serializable(package="keras_xd", name="EdgeStack")
class FusedEdgeOps(ConfiguredLayer):
    """The operations on the edges of a cell."""

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
        # The variable of each name, and the edges that have it, or the nodes for poolings.
        self._stacked: dict[str, tuple[keras.Variable, list[int]]] = {}
        edges = {
            strides: [n for n, node in enumerate(self.nodes) if self.strides[node] == strides]
            for strides in (1, 2)
        }

        def add(name, shape, numbers, **options):
            if numbers and shape[0]:
                variable = self.add_weight(name=name, shape=(len(numbers), *shape), **options)
                self._stacked[name] = variable, numbers
                setattr(self, name, variable)  # which TensorFlow's checkpoints look for

        plain = self.edge(1).weights()
        for name, (shape, fans) in self.edge(2 if edges[2] else 1).weights().items():
            # Drawn as the layer of one edge would draw it.
            limit = math.sqrt(6 / sum(fans))
            numbers = list(range(len(self.nodes))) if name in plain else edges[2]
            add(name, shape, numbers, initializer=keras.initializers.RandomUniform(-limit, limit))
        for strides, prefix in ((1, ""), (2, "strided_")):
            count = sum(p.stop - p.start for p in self.edge(strides).statistics.values())
            for kind, initializer in (("mean", "zeros"), ("variance", "ones")):
                options = {"trainable": False, "autocast": False, "initializer": initializer}
                add(f"{prefix}moving_{kind}", (count,), edges[strides], **options)
                if strides == 1:
                    nodes = list(range(len(self.strides)))
                    add(f"pooling_moving_{kind}", (self.edge(1).pooled,), nodes, **options)
        self.built = True

    def edge(self, strides: int, training: bool | None = False) -> Edge:
        """Return what is fixed about the edges from nodes of some strides."""
        return Edge(self.filters, strides, self.operations, bool(training) and self.trainable)

    def edge_weights(self) -> list[dict[str, Tensor]]:
        """Return the weights of each edge by their names."""
        return self._unstacked(len(self.nodes), of_poolings=False)

    def node_weights(self) -> list[dict[str, Tensor]]:
        """Return the weights of each node by their names, the statistics of its poolings."""
        return self._unstacked(len(self.strides), of_poolings=True)

    def groups(self) -> list[tuple[int, ...]]:
        """Return the numbers of the edges that are computed together: all those from one node."""
        if calls_traced_functions():
            return [(number,) for number in range(len(self.nodes))]
        found = {}
        for number, node in enumerate(self.nodes):
            found[node] = (*found.get(node, ()), number)
        return list(found.values())

    def group_weights(
        self, groups: Iterable[tuple[int, ...]]
    ) -> dict[tuple[int, ...], dict[str, Tensor]]:
        """Return the weights of groups of edges by their names, edges along the first axis."""
        found = {group: {} for group in groups}
        for name, value, numbers in self._values(of_poolings=False):
            for group, own in grouped(value, found, numbers).items():
                found[group][name] = own
        return found

    def moving_statistics(self) -> list[tuple[str, keras.Variable, list[int]]]:
        """Return the name, the variable and the edges, or nodes, of all moving statistics."""
        return [
            (name.removeprefix("strided_"), variable, numbers)
            for name, (variable, numbers) in self._stacked.items()
            if "moving_" in name
        ]

    def fill(self, layer: keras.layers.Layer, number: int, operation: str) -> None:
        """Give the built layer of an operation the weights that it has on an edge."""
        node = self.nodes[number]
        places = self.edge(self.strides[node]).places(operation)
        for variable, place in zip(layer.weights, places, strict=True):
            row = node if place.name.startswith("pooling") else number
            for name in (place.name, f"strided_{place.name}"):
                stacked, numbers = self._stacked.get(name, (None, ()))
                if row in numbers:
                    value = ops.convert_to_numpy(stacked)[numbers.index(row)][place.index]
            value = value.T if place.transposed else value
            variable.assign(np.reshape(value, variable.shape))

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


class FusedCall:
    """A call of a cell that computes all operations on all edges."""

    def __init__(self, layer: FusedEdgeOps, probabilities: Tensor, training: bool | None):
        self.layer, self.training = layer, training
        groups = layer.groups()
        self._groups = {number: group for group in groups for number in group}
        self._probabilities = grouped(probabilities, groups, range(len(layer.nodes)))
        self._weights, self._node_weights = layer.group_weights(groups), layer.node_weights()
        self._values, self._made = {}, {}
        # The statistics of the batch: of edges, and of nodes.
        self._of_edges, self._of_nodes = {}, {}

    def outcomes(self, number: int, x: Tensor) -> dict[str, Tensor]:
        """Return what the operations on an edge make of a node: see `edge_operations.outcomes`."""
        if number not in self._made:
            self._compute(self._groups[number], x)
        return self._made.pop(number)

    def finish(self) -> None:
        """Move the moving statistics towards those of the batch."""
        for name, variable, numbers in self.layer.moving_statistics():
            batch = self._of_nodes if name.startswith("pooling") else self._of_edges
            found = ops.cast(ops.stack([batch[n][name] for n in numbers]), variable.dtype)
            variable.assign(variable * MOMENTUM + found * (1 - MOMENTUM))

    def _compute(self, group, x):
        """Compute all edges of a group, which come from one node."""
        node = self.layer.nodes[group[0]]
        edge = self.layer.edge(self.layer.strides[node], self.training)
        if node not in self._values:
            found = traced_part(node_values, edge)(x, self._node_weights[node])
            self._values[node], self._of_nodes[node] = found
        arguments = self._values[node], self._weights[group], self._probabilities[group]
        made, batch = traced_part(outcomes, edge)(*arguments)
        batch = {name: ops.unstack(rows) for name, rows in batch.items()}
        for found, values in ((self._made, made), (self._of_edges, batch)):
            for row, number in enumerate(group):
                found[number] = {name: rows[row] for name, rows in values.items()}


class ChosenCall:
    """A call of a cell that computes only chosen operations: see `chosen_operation`."""

    def __init__(self, layer: FusedEdgeOps, paths: dict[str, Tensor], training: bool | None):
        self.layer, self.training = layer, training
        self._paths = {name: ops.unstack(value) for name, value in paths.items()}
        self._weights = layer.edge_weights(), layer.node_weights()
        self._moved = []

    def node(
        self, edges: dict[int, Tensor], gate: Tensor | None, surrogate: Tensor | None
    ) -> Tensor:
        """Return the node that the chosen operations make of edges' numbers and their features."""
        made, columns, factors = [], [], []
        for number, x in edges.items():
            node = self.layer.nodes[number]
            edge = self.layer.edge(self.layer.strides[node], self.training)
            own = {**self._weights[0][number], **self._weights[1][node]}
            drawn = (ops.unstack(self._paths[name][number]) for name in ("numbers", "weights"))
            for column, factor in zip(*drawn, strict=True):
                outcome, moved = traced_part(chosen_outcome, edge)(x, own, column, factor)
                made.append(outcome)
                self._moved.append((number, node, moved))
                columns.append(column)
                factors.append(factor)
        combine = traced_part(combined_chosen, self.layer.operations, len(edges))
        return combine(made, gate, ops.stack(columns), surrogate, ops.stack(factors))[0]

    def finish(self) -> None:
        """Assign the moving statistics that chosen operations have moved."""
        for name, variable, numbers in self.layer.moving_statistics():
            rows = ops.unstack(ops.convert_to_tensor(variable))
            before = dict(zip(numbers, rows, strict=True))
            after = dict(before)
            for edge, node, moved in self._moved:
                place = node if name.startswith("pooling") else edge
                if place in before:
                    changed = moved[name] != before[place]
                    after[place] = ops.where(changed, moved[name], after[place])
            variable.assign(ops.stack([after[number] for number in numbers]))


def grouped(
    values: Tensor, groups: Iterable[tuple[int, ...]], numbers: Sequence[int]
) -> dict[tuple[int, ...], Tensor]:
    """Return the rows of edges, those of each group in one tensor; `numbers` are those of rows."""
    rows = [values] if len(numbers) == 1 else ops.split(values, len(numbers))
    rows = dict(zip(numbers, rows, strict=True))
    # Edges from one node have the same weights.
    return {
        group: joined([rows[number] for number in group], 0) for group in groups if group[0] in rows
    }
