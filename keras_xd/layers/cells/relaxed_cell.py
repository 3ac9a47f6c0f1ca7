"""Relaxed cells of features, attention and dynamic convolutions."""

from collections.abc import Sequence
from typing import Any, Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core import shared_objects, validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import (
    SearchableLayer,
    check_finite,
    flatten_layers,
    searchable_layers,
)
from keras_xd.core.tracing import traced_part
from keras_xd.core.type_aliases import Config, Description, LayerOptions, Shape, Tensor
from keras_xd.layers.cells.architecture_logits import ArchitectureLogits
from keras_xd.layers.cells.derived_cell import derived_from
from keras_xd.layers.cells.features import POOLING
from keras_xd.layers.cells.fused_edge_ops import ChosenCall, FusedCall, FusedEdgeOps
from keras_xd.layers.cells.genotypes import (
    BLOCKS,
    INPUTS,
    SOURCES,
    XD_OPERATIONS,
    CellGenotype,
    Genotype,
    first_tier_edge,
    largest_span,
    second_tier_edge,
)
from keras_xd.layers.cells.operator_cell import OperatorCell, combined, outcome_kind

# The node that each edge comes from, `None` for surrogate nodes.
EDGE_SOURCES = (*(source for sources in SOURCES for source in sources), *([None] * BLOCKS))
# How many nodes there are before the surrogate nodes, which come last in `FusedEdgeOps`.
NODES = len(SOURCES[-1])


@keras.saving.register_keras_serializable(package="keras_xd")
class HeterogeneousCell(OperatorCell, SearchableLayer):
    """A cell in which features, attention and dynamic convolutions are searched together.

    The two inputs are brought to `filters` channels (nodes 0 and 1). Each of four blocks makes one
    more node of all nodes before it. With the probabilities `p` of the features `f`, the
    attention `a` and the dynamic kernels `d`, and `∗` a depthwise convolution

        F = Σ_i Σ_f p_if f(x_i)    A = Σ_i Σ_a p_ia a(x_i)    D = Σ_i Σ_d p_id d(x_i)
        z = F + F · A + F ∗ D

    in the first tier, with 2, 3, 4 or 5 nodes `x_i`, and then the same of `z` alone in the second:
    18 edges. Weights with `tiers=1` have no second tier. The outputs are the channels of all four
    new nodes. All dynamic kernels of a tier, those of 3 × 3 with zeros around them, are one sum and
    one convolution. Other relaxations compute less in a step: see `relaxation` of
    `ArchitectureLogits`.

    `finalize()` keeps the operations of `genotype`, without their probabilities as factors, in a
    `DerivedCell`. It has other outputs than the relaxed cell, as no probabilities take edges away.

    Args:
        filters: number of channels of each node; the cell has four times as many.
        weights: a `ArchitectureLogits`, to be given to all cells of one kind.
        reduction: whether the cell halves the size: the operations on its inputs have strides 2.
        previous_reduction: whether the cell before did, so that the first input is twice as large
            as the second.
        partial_channels: integer `k`; to save memory, operations act on the first 1 / k of the
            channels. What the inputs of a tier have in their other channels is added up (with
            strides as the maxima of windows of that size), put beside, and the channels of all
            parts are interleaved. By default 4 with the relaxation `"partial"`, else 1.
        calibration_gate: `None` for the equations above, or `"zero"` for a learned gate `g` that
            starts at 0, one for each tier of each block: `z = F + g · (F · A + F ∗ D)`; with
            `"tanh"` it stays between -1 and 1.
        edge_layers: whether every operation on every edge is a layer, the form of models saved by
            version 0.1; only for weights with the relaxation `"softmax"`.

    Call arguments:
        inputs: list of two tensors, the outputs of the cell before the last one and of the last.

    Input shape:
        Two `(batch, height, width, channels)`; all sizes but the batch's must be known.

    Example:

    >>> import keras_xd
    >>> names = ("identity", "dynamic_3")
    >>> model = keras_xd.models.nos_search_network(3, 4, (8, 8, 3), operations=names)
    >>> cell = model.get_layer("cell1")
    >>> cell.output.shape, cell.operation_names
    ((None, 8, 8, 16), ('identity', 'dynamic_3'))

    Reference:
        "Neural Operator Search", 2020, section 3.2; Liu et al., "DARTS", 2019; Xu et al.,
        "PC-DARTS", 2020.
    """

    fixed = ("affine",)

    def __init__(
        self,
        filters: int,
        weights: ArchitectureLogits,
        reduction: bool = False,
        previous_reduction: bool = False,
        partial_channels: int | None = None,
        calibration_gate: str | None = None,
        edge_layers: bool = False,
        **kwargs: Unpack[LayerOptions],
    ):
        if partial_channels is None:
            partial_channels = 4 if getattr(weights, "relaxation", None) == "partial" else 1
        super().__init__(
            filters,
            reduction,
            previous_reduction,
            partial_channels,
            affine=False,
            calibration_gate=calibration_gate,
            **kwargs,
        )
        self.edge_layers = validation.boolean(edge_layers, "edge_layers")
        if isinstance(weights, dict):
            weights = keras.saving.deserialize_keras_object(weights)
        if not isinstance(weights, ArchitectureLogits) or weights.reduction != self.reduction:
            raise ValueError(
                "`weights` must be a ArchitectureLogits with the same `reduction` as the cell. "
                f"Received: weights={weights!r}, its reduction="
                f"{getattr(weights, 'reduction', None)}, reduction={reduction}"
            )
        # `weights` itself is what Keras calls the variables of a layer.
        self.architecture = weights
        self.seed_generator = weights.generator()
        if weights.relaxation != "softmax" and self.edge_layers:
            raise ValueError(
                "Cells with `edge_layers` have the relaxation 'softmax'. Received: "
                f"edge_layers=True, relaxation={weights.relaxation!r}"
            )
        names = self.operation_names
        if self.reduction and "identity" in names and self.operation_filters < 2:
            raise ValueError(
                "An identity that halves the sizes needs two channels: `filters` must be at least "
                "2 for each of `partial_channels`. "
                f"Received: filters={filters}, partial_channels={self.partial_channels}"
            )
        self._layer_names = [n for n in names if self.edge_layers or n in XD_OPERATIONS]
        stacked = [n for n in names if n not in self._layer_names]
        self._numbers, operations = {}, {}
        for block in range(BLOCKS):
            for source in SOURCES[block]:
                self._make_edge(block, source, operations)
        # Edges of second tiers come last, and so do the nodes that they come from.
        second = BLOCKS if self.tiers > 1 else 0
        for block in range(second):
            self._make_edge(block, None, operations)
        self.operations = tuple(layer for layer, _ in operations.values())
        self._sources = tuple(source for _, source in operations.values())
        self.edges = None
        if stacked:
            sources = [*range(NODES), *([None] * second)]
            self.edges = FusedEdgeOps(
                self.operation_filters,
                stacked,
                strides=[self.strides_from(source) for source in sources],
                nodes=[*EDGE_SOURCES[:-BLOCKS], *range(NODES, NODES + second)],
                name="edges",
                dtype=self.dtype_policy,
            )

    def build(self, input_shape: Sequence[Shape]) -> None:
        if not self.architecture.built:
            self.architecture.build()
        if self.edges is not None:
            self.edges.build()
        super().build(input_shape)

    @property
    def shared_parts(self) -> dict[str, Any]:
        """What a copy of a model must copy once for all cells, by the name of the argument."""
        return {"weights": self.architecture}

    @property
    def tiers(self) -> int:
        """The number of tiers of a block, that of the weights."""
        return self.architecture.tiers

    @property
    def operation_names(self) -> tuple[str, ...]:
        """The names of the operations, in the order of the logits' columns."""
        return self.architecture.operations

    @property
    def genotype(self) -> CellGenotype:
        """The discrete cell that the weights decide on, see `ArchitectureLogits.genotype`."""
        return self.architecture.genotype

    @property
    def architecture_variables(self) -> list[keras.Variable]:
        """Those of the weights, then the variables of XD-operations in the cell."""
        inner = [v for layer in self._searched() for v in layer.architecture_variables]
        return [*self.architecture.architecture_variables, *inner]

    def edge_operation(self, edge: int, operation: str) -> keras.layers.Layer:
        """Return the layer of an operation on an edge, as numbered in `keras_xd.genotypes`.

        Without `edge_layers` it is a new one with the present weights, except for XD-operations.
        """
        if (edge, operation) in self._numbers:
            return self.operations[self._numbers[edge, operation]]
        source = EDGE_SOURCES[edge]
        strides = self.strides_from(source)
        layer = self.make_operation(operation, strides, operation)
        if self.built:
            layer.build(self.node_shape(self.get_build_config()["input_shape"], source))
            self.edges.fill(layer, edge, operation)
        return layer

    def operation_shapes(
        self, input_shape: Sequence[Shape]
    ) -> list[tuple[keras.layers.Layer, Shape]]:
        """Return pairs of each operation and the shape of its inputs."""
        sources = zip(self.operations, self._sources, strict=True)
        return [(operation, self.node_shape(input_shape, s)) for operation, s in sources]

    def block_sources(self, block: int) -> Sequence[int]:
        """Return the nodes that a block reads: all before it."""
        return SOURCES[block]

    def common_values(self, training: bool | None) -> dict[Any, Any]:
        """Return the probabilities that all edges look up, and the call of the fused operations."""
        if self.architecture.draws:
            paths = self.architecture.paths(self.seed_generator if training else None)
            return {"call": ChosenCall(self.edges, paths, training)}
        rows = self.architecture.probabilities
        found = {"probabilities": ops.cast(rows, self.compute_dtype)}
        if self.edges is not None:
            rows = rows[: len(self.edges.nodes)]
            if self._layer_names:
                columns = [self.operation_names.index(name) for name in self.edges.operations]
                rows = ops.take(rows, columns, axis=1)
            found["call"] = FusedCall(self.edges, rows, training)
        return found

    def after_call(self, common: dict[Any, Any], training: bool | None) -> None:
        """Move the moving statistics of the fused operations."""
        if training and self.edges is not None and self.edges.trainable:
            common["call"].finish()

    def passing_by(self, block: int, source: int, x: Tensor) -> Tensor:
        """Return what passes operations by, times the probability of its edge."""
        if self.architecture.edge_logits is None:
            return x
        factor = self.architecture.edge_probabilities[first_tier_edge(block, source)]
        return x * ops.cast(factor, x.dtype)

    def first_tier(
        self, block: int, nodes: list[Tensor], common: dict[Any, Tensor], training: bool | None
    ) -> Tensor:
        """Return the surrogate node of a block: equations 2 and 3, relaxed."""
        edges = {first_tier_edge(block, s): self.operated(nodes[s]) for s in SOURCES[block]}
        return self._tier(edges, self.tier_gate(block), common, training)

    def second_tier(
        self, block: int, surrogate: Tensor, common: dict[Any, Tensor], training: bool | None
    ) -> Tensor:
        """Return the node of a block: equations 4 and 5, relaxed."""
        edges = {second_tier_edge(block): surrogate}
        return self._tier(edges, self.tier_gate(block, True), common, training, surrogate)

    def complexity(self, input_shape: Sequence[Shape]) -> float | Tensor:
        """The expected multiply–adds of one sample: each operation times its probability.

        So one edge too many counts in the second block, two in the third, three in the fourth. The
        convolution with a dynamic kernel counts with what makes it; products with attention do not.
        """
        expected = self.architecture.expected_operations
        counts = self._edge_counts(input_shape)
        total = ops.sum(expected * ops.cast(counts, expected.dtype))
        return total + self.preprocessing_multiply_adds(input_shape)

    def finalize(self) -> keras.layers.Layer:
        """Return a built `DerivedCell` of the `genotype` with the weights of its operations."""
        return derived_from(self)

    def describe(self) -> Description:
        """Return the `probabilities`, and their entropy: see `ArchitectureLogits.describe`."""
        return self.architecture.describe()

    def architecture_signature(self) -> Config:
        """Return what tells the meaning of the logits: the operations, and the kind of cell."""
        signature = super().architecture_signature()
        operations = list(self.operation_names)
        return {**signature, "operations": operations, "reduction": self.reduction}

    def random_architecture(self, generator: np.random.Generator) -> list[np.ndarray]:
        """Return logits of probabilities that are drawn evenly, edge by edge."""
        values = self.architecture.random_values(generator)
        inner = [v for layer in self._searched() for v in layer.random_architecture(generator)]
        return [*values, *inner]

    def get_config(self) -> Config:
        return {**super().get_config(), "weights": shared_objects.serialized(self.architecture)}

    @classmethod
    def from_config(cls, config: Config) -> "HeterogeneousCell":
        # Models of version 0.1 have a layer for each operation, and do not say so.
        return super().from_config({"edge_layers": True, **config})

    def _searched(self):
        """Return the XD-operations inside."""
        return [layer for layer in searchable_layers(self) if layer is not self]

    def _make_edge(self, block, source, made):
        """Add the layers of an edge to `made`, a dictionary to pairs of a layer and its source."""
        edge = second_tier_edge(block) if source is None else first_tier_edge(block, source)
        strides = self.strides_from(source)
        for operation in self._layer_names:
            once = operation in POOLING and source is not None
            key = (source, operation) if once else (edge, source, operation)
            if key not in made:
                start = f"surrogate_{block}" if source is None else f"node_{source}"
                name = f"{start}_to_block_{block}_{operation}"
                made[key] = (self.make_operation(operation, strides, name), source)
            self._numbers[edge, operation] = list(made).index(key)

    def _layer_outcomes(self, edge, x, common, training):
        """Return what the layers of an edge make of a node, weighted, as a list."""
        found = []
        for operation in self._layer_names:
            column = self.operation_names.index(operation)
            number = self._numbers[edge, operation]
            made = common.get(number)
            if made is None:
                made = self.operations[number](x, training=training)
            if operation in POOLING:
                common[number] = made
            found.append({outcome_kind(operation): common["probabilities"][edge, column] * made})
        return found

    def _tier(self, edges, gate, common, training, surrogate=None):
        """Return the node that edges, a dictionary from their numbers to their nodes, make."""
        if self.architecture.draws:
            return common["call"].node(edges, gate, surrogate)
        made = []
        for edge, x in edges.items():
            made += self._layer_outcomes(edge, x, common, training)
            if self.edges is not None:
                made.append(common["call"].outcomes(edge, x))
        return traced_part(combined, largest_span(self.operation_names))(made, gate)[0]

    def _edge_counts(self, input_shape):
        """Return the multiply–adds of one sample, an array `(edges, number of operations)`."""
        counts, known = np.zeros((len(EDGE_SOURCES), len(self.operation_names))), {}
        for edge, column in np.ndindex(counts.shape):
            name, source = self.operation_names[column], EDGE_SOURCES[edge]
            strides = self.strides_from(source)
            key = name, strides, source is None or source >= INPUTS
            if key not in known:
                if (edge, name) in self._numbers:  # which are counted when they are built
                    operation = self.edge_operation(edge, name)
                else:
                    operation = self.make_operation(name, strides, name)
                known[key] = self.operation_multiply_adds(operation, name, input_shape, source)
            counts[edge, column] = known[key]
        return counts


@check_types
def derived_genotype(model: keras.layers.Layer) -> Genotype:
    """Return what the relaxed cells of a model have decided on so far.

    Args:
        model: a built model with a `HeterogeneousCell` of each kind, all of a kind with the same
            `ArchitectureLogits`, or a `keras_xd.SearchModel` of it.

    Raises:
        ValueError: if a kind is missing, or cells of a kind have different architecture weights;
            with the relaxation `"perturbation"`, until the cells are decided.

    Example:

    >>> import keras_xd
    >>> names = ("identity", "dynamic_3")
    >>> model = keras_xd.models.nos_search_network(3, 2, (8, 8, 3), operations=names)
    >>> genotype = keras_xd.layers.derived_genotype(model)
    >>> genotype.reduction == model.get_layer("cell2").genotype
    True
    """
    return Genotype(*(architecture.genotype for architecture in architectures_of(model)))


def architectures_of(model: keras.layers.Layer) -> tuple[ArchitectureLogits, ArchitectureLogits]:
    """Return the architecture of the normal and that of the reduction cells of a model."""
    found = {False: {}, True: {}}
    for layer in flatten_layers(model):
        if isinstance(layer, HeterogeneousCell):
            found[layer.reduction][id(layer.architecture)] = layer.architecture
    if any(len(architectures) != 1 for architectures in found.values()):
        raise ValueError(
            "A genotype is that of one normal and one reduction ArchitectureLogits, each shared by "
            f"all cells of its kind. Received: a model with {len(found[False])} normal and "
            f"{len(found[True])} reduction ones"
        )
    check_finite(model)
    (normal,), (reduction,) = found[False].values(), found[True].values()
    return normal, reduction
