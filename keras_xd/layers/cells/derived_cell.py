"""Discrete cells of features, attention and dynamic convolutions."""

from collections.abc import Sequence
from typing import Any, Unpack

import keras
from keras import ops

from keras_xd.core import validation
from keras_xd.core.configured import built_like
from keras_xd.core.searchable import SearchableLayer, searchable_layers
from keras_xd.core.type_aliases import Config, LayerOptions, Shape, Tensor
from keras_xd.graph import cloning
from keras_xd.graph.replacing import LayerReplacer
from keras_xd.layers.cells.genotypes import (
    CellGenotype,
    first_tier_edge,
    largest_span,
    second_tier_edge,
)
from keras_xd.layers.cells.operator_cell import OperatorCell, Outcomes, outcome_kind


@keras.saving.register_keras_serializable(package="keras_xd")
class DerivedCell(OperatorCell):
    """A cell of the operations that a search has found.

    What `HeterogeneousCell` computes, with two operations in the first tier of each block and one
    in the second, without weights. Where the operation of the second tier makes no features, it
    calibrates the surrogate node itself, `z + z · a(z)` or `z + z ∗ d(z)`.

    With drop-path, in training every operation of a first tier but an identity (without strides)
    gives zeros for a sample with the probability `drop_path * drop_path_progress`; what the others
    give is divided by the rest of the probability. `drop_path_progress`, a weight that begins as 1,
    is for `keras_xd.callbacks.DropPathSchedule`, by which the probability grows.

    Args:
        genotype_cell: a `keras_xd.genotypes.CellGenotype`, or the dictionary of one.
        filters, reduction, previous_reduction, partial_channels, calibration_gate: as in
            `HeterogeneousCell`.
        drop_path: the largest probability of drop-path, from 0 to below 1.
        affine: whether normalisations have a scale and an offset that are learned, and poolings no
            normalisation. `False` is the form in a search.
        seed: an integer makes drop-path reproducible.
        tiers: 1 for cells of DARTS, whose second tiers are identities and so are left out.

    Example:

    >>> import numpy as np
    >>> from keras_xd import genotypes, layers
    >>> found = genotypes.random_genotype(np.random.default_rng(0))
    >>> cell = layers.DerivedCell(found.reduction, 4, reduction=True, drop_path=0.3)
    >>> cell([np.ones((2, 8, 8, 3)), np.ones((2, 8, 8, 3))]).shape
    TensorShape([2, 4, 4, 16])

    Reference:
        "Neural Operator Search", 2020, sections 3.2 and 3.3; Larsson et al., "FractalNet", 2017.
    """

    def __init__(
        self,
        genotype_cell: CellGenotype | dict[str, Any],
        filters: int,
        reduction: bool = False,
        previous_reduction: bool = False,
        drop_path: float = 0.0,
        affine: bool = True,
        partial_channels: int = 1,
        seed: int | None = None,
        calibration_gate: str | None = None,
        tiers: int = 2,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(
            filters,
            reduction,
            previous_reduction,
            partial_channels,
            affine=affine,
            calibration_gate=calibration_gate,
            **kwargs,
        )
        if isinstance(genotype_cell, dict):
            genotype_cell = CellGenotype.from_dict(genotype_cell)
        if not isinstance(genotype_cell, CellGenotype):
            raise ValueError(
                "`genotype_cell` must be a CellGenotype, such as `genotype.normal`. "
                f"Received: genotype_cell={genotype_cell!r}"
            )
        self.genotype_cell = genotype_cell
        self.tiers = validation.one_of(tiers, (1, 2), "tiers")
        if tiers == 1 and any(block.second != "identity" for block in genotype_cell.blocks):
            raise ValueError(
                "The second tiers of a cell with tiers=1 must be identities. "
                f"Received: genotype_cell={genotype_cell}"
            )
        self.drop_path = validation.number_within(drop_path, "[)", 0, 1, "drop_path")
        self.seed = validation.seed(seed)
        self.drop_path_progress = None
        self.seed_generator = keras.random.SeedGenerator(seed) if drop_path else None
        operations, edges = [], []

        def add(operation, strides, name, source, edge):
            operations.append(self.make_operation(operation, strides, name))
            edges.append((edge, operation, source))

        for block, genotype in enumerate(genotype_cell.blocks):
            for operation, source in genotype.first:
                name = f"node_{source}_to_block_{block}_{operation}"
                strides = self.strides_from(source)
                add(operation, strides, name, source, first_tier_edge(block, source))
            name = f"surrogate_{block}_to_block_{block}_{genotype.second}"
            add(genotype.second, 1, name, None, second_tier_edge(block))
        self.operations, self._edges = tuple(operations), tuple(edges)

    def build(self, input_shape: Sequence[Shape]) -> None:
        super().build(input_shape)
        if self.drop_path:
            self.drop_path_progress = self.add_weight(
                name="drop_path_progress",
                shape=(),
                initializer="ones",
                trainable=False,
                autocast=False,
            )

    @property
    def edges(self) -> list[tuple[int, str]]:
        """The number of the edge and the name of each of `operations`, a list of pairs."""
        return [(edge, name) for edge, name, _ in self._edges]

    @property
    def operation_names(self) -> tuple[str, ...]:
        """The names of all operations in the cell."""
        return tuple(name for _, name, _ in self._edges)

    def operation_shapes(
        self, input_shape: Sequence[Shape]
    ) -> list[tuple[keras.layers.Layer, Shape]]:
        """Return pairs of each operation and the shape of its inputs."""
        edges = zip(self.operations, self._edges, strict=True)
        return [(layer, self.node_shape(input_shape, source)) for layer, (*_, source) in edges]

    def block_sources(self, block: int) -> Sequence[int]:
        """Return the nodes that a block reads."""
        return [source for _, source in self.genotype_cell.blocks[block].first]

    def first_tier(
        self, block: int, nodes: list[Tensor], common: dict[Any, Tensor], training: bool | None
    ) -> Tensor:
        """Return the surrogate node of a block: equations 2 and 3."""
        outcomes = Outcomes(largest_span(self.operation_names))
        for number in range(3 * block, 3 * block + 2):
            _, name, source = self._edges[number]
            x = self.operated(nodes[source])
            made = self.operations[number](x, training=training)
            if (
                training
                and self.drop_path
                and (name != "identity" or self.strides_from(source) > 1)
            ):
                made = self._dropped(made)
            outcomes.add(outcome_kind(name), made)
        return outcomes.calibrated(outcomes.sums["features"], self.tier_gate(block))

    def second_tier(
        self, block: int, surrogate: Tensor, common: dict[Any, Tensor], training: bool | None
    ) -> Tensor:
        """Return the node of a block: equations 4 and 5."""
        outcomes = Outcomes(largest_span(self.operation_names))
        _, name, _ = self._edges[3 * block + 2]
        layer = self.operations[3 * block + 2]
        outcomes.add(outcome_kind(name), layer(surrogate, training=training))
        features = outcomes.sums.get("features", surrogate)
        return outcomes.calibrated(features, self.tier_gate(block, second=True))

    def multiply_adds(self, input_shape: Sequence[Shape]) -> int:
        """Return the multiply–adds of one sample; products with attention are not counted."""
        total = self.preprocessing_multiply_adds(input_shape)
        for layer, (_, name, source) in zip(self.operations, self._edges, strict=True):
            total = total + self.operation_multiply_adds(layer, name, input_shape, source)
        return total

    def get_config(self) -> Config:
        return {**super().get_config(), "genotype_cell": self.genotype_cell.to_dict()}

    def _dropped(self, outcome):
        """Return the outcome with zeros for some samples."""
        progress = ops.convert_to_tensor(self.drop_path_progress)
        kept = 1 - self.drop_path * progress
        shape = (ops.shape(outcome)[0], 1, 1, 1)
        draw = keras.random.uniform(shape, dtype="float32", seed=self.seed_generator)
        return outcome * ops.cast(ops.where(draw < kept, 1 / kept, 0.0), outcome.dtype)


def derived_from(cell: OperatorCell) -> keras.layers.Layer:
    """Return a built cell of what a built relaxed one has decided on, with its weights."""
    plain = built_like(
        cell,
        DerivedCell,
        cell.genotype,
        cell.filters,
        cell.reduction,
        cell.previous_reduction,
        affine=False,
        partial_channels=cell.partial_channels,
        calibration_gate=cell.calibration_gate,
        tiers=cell.tiers,
    )
    pairs = list(zip(cell.preprocessing, plain.preprocessing, strict=True))
    pairs += [
        (cell.edge_operation(edge, operation), layer)
        for (edge, operation), layer in zip(plain.edges, plain.operations, strict=True)
        if layer.weights
    ]
    for old, new in pairs:
        cloning.copy_state(old, new)
    if plain.calibration_gates is not None:
        plain.calibration_gates.assign(cell.calibration_gates)
    if not searchable_layers(plain):
        return plain
    # XD-operations are multiplied out.
    return LayerReplacer(lambda layer: isinstance(layer, SearchableLayer), _finalized)(plain)


def _finalized(layer):
    plain = layer.finalize()
    plain.name = layer.name
    return plain
