"""The architecture weights of relaxed cells."""

import random
from collections.abc import Sequence
from typing import Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core import fixed_architecture, splitting, validation
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.mixtures import (
    SMALLEST_PROBABILITY,
    UPDATES,
    ProbabilityFloor,
    described,
    with_update,
)
from keras_xd.core.randomness import gumbel_noise
from keras_xd.core.tracing import traced_part
from keras_xd.core.type_aliases import Description, LayerOptions, Shape, Tensor
from keras_xd.layers.cells.genotypes import (
    BLOCKS,
    EDGES,
    FIRST_TIER_EDGES,
    NOS_OPERATIONS,
    SOURCES,
    XD_OPERATIONS,
    CellGenotype,
    cell_of_weights,
    checked_operations,
    derive_cell,
    first_tier_edge,
    second_tier_edge,
)
from keras_xd.layers.cells.relaxation import (
    PATHS,
    RELAXATIONS,
    WITH_EDGES,
    WITH_TEMPERATURE,
    drawn_cell,
    drawn_paths,
)

# The softmax of it and of zeros is 1 in float32. Training hardly moves such logits, random ones of
# `random_values` lead by 11.6 at most, and those of `keep` by less than what says a decision.
_DECIDED, _LEAD, _KEPT = 30.0, 20.0, 15.0


@keras.saving.register_keras_serializable(package="keras_xd", name="CellArchitecture")
class ArchitectureLogits(ConfiguredLayer):
    """The architecture weights that all `HeterogeneousCell`s of one kind in a network share.

    One logit for each operation on each of the 18 edges, at first normal with deviation 0.001.
    `operations`, `relaxation`, `update` and `tiers` are those of `models.nos_search_network`.
    """

    def __init__(
        self,
        reduction: bool = False,
        operations: Sequence[str] = NOS_OPERATIONS,
        seed: int | None = None,
        relaxation: str = "softmax",
        update: str = "softmax",
        tiers: int = 2,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**{"dtype": "float32", **kwargs})
        self.reduction = validation.boolean(reduction, "reduction")
        self.operations = checked_operations(operations)
        self.seed = validation.seed(seed)
        self.relaxation = validation.one_of(relaxation, RELAXATIONS, "relaxation")
        self.update = validation.one_of(update, UPDATES, "update")
        self.tiers = validation.one_of(tiers, (1, 2), "tiers")
        if (update, tiers) != ("softmax", 2) and relaxation not in ("softmax", "partial"):
            raise ValueError(
                "update='exponentiated_gradient' and tiers=1 need the relaxation 'softmax' or "
                f"'partial'. Received: {update=}, {tiers=}, {relaxation=}"
            )
        if tiers == 1 and "identity" not in self.operations:
            raise ValueError(
                f"With tiers=1 one of the `operations` must be 'identity'. Received: {operations=}"
            )
        self.temperature, self.edge_logits, self._drawing_seed = None, None, self.seed
        if self.draws:
            if set(self.operations) & set(XD_OPERATIONS):
                raise ValueError(
                    f"XD-operations cannot be drawn; use another relaxation than {tuple(PATHS)} or "
                    f"other operations. Received: {relaxation=}, operations={operations!r}"
                )
            if seed is None:
                self._drawing_seed = random.randrange(2**31)

    def build(self, input_shape: Shape | None = None) -> None:
        initializer = keras.initializers.RandomNormal(stddev=1e-3, seed=self.seed)
        self.logits = self.add_weight(
            name="logits",
            shape=(EDGES if self.tiers > 1 else FIRST_TIER_EDGES, len(self.operations)),
            initializer=initializer,
            constraint=None if self.update == "softmax" else ProbabilityFloor(),
            autocast=False,
        )
        if self.relaxation in WITH_EDGES:
            self.edge_logits = self.add_weight(
                name="edge_logits",
                shape=(FIRST_TIER_EDGES,),
                initializer=initializer,
                autocast=False,
            )
        if self.relaxation in WITH_TEMPERATURE:
            self.temperature = self.add_weight(
                name="temperature", shape=(), initializer="ones", trainable=False, autocast=False
            )

    @property
    def draws(self) -> bool:
        """Whether few operations of each edge are drawn, and only these are computed."""
        return self.relaxation in PATHS

    @property
    def architecture_variables(self) -> list[keras.Variable]:
        """The variables that decide on the cell."""
        return [self.logits] if self.edge_logits is None else [self.logits, self.edge_logits]

    @property
    def probabilities(self) -> Tensor:
        """Those of the operations, a tensor `(18, operations)`, times those of their edges."""
        found = self.operation_probabilities
        return found if self.edge_logits is None else found * self.edge_probabilities[:, None]

    @property
    def operation_probabilities(self) -> Tensor:
        """The probability of each operation on its edge, a tensor."""
        logits = ops.convert_to_tensor(self.logits)
        found = with_update(self.update, logits, ops.softmax(logits, axis=-1))
        if self.tiers > 1:
            return found
        second = np.eye(len(self.operations), dtype="float32")[self.operations.index("identity")]
        return ops.concatenate([found, np.tile(second, (BLOCKS, 1))])

    @property
    def edge_probabilities(self) -> Tensor:
        """That of each edge among those of its block and tier, 1 without `edge_logits`."""
        if self.edge_logits is None:
            return ops.ones((EDGES,), "float32")
        sizes = [len(sources) for sources in SOURCES]
        logits = ops.convert_to_tensor(self.edge_logits)
        parts = map(ops.softmax, splitting.split(logits, sizes, axis=0))
        found = with_update(self.update, logits, ops.concatenate(list(parts)))
        return ops.concatenate([found, ops.ones((BLOCKS,), "float32")])

    @property
    def expected_operations(self) -> Tensor:
        """How many of each operation on each edge there are in the cell, by expectation.

        With `edge_logits` two edges are expected in the first tier of a block, as in what is
        derived.
        """
        found = self.operation_probabilities
        if self.edge_logits is None:
            return found
        kept = [2.0] * FIRST_TIER_EDGES + [1.0] * BLOCKS
        return found * (self.edge_probabilities * ops.convert_to_tensor(kept, "float32"))[:, None]

    @property
    def genotype(self) -> CellGenotype:
        """The cell decided on: `genotype_of_probabilities`.

        With the relaxation `"perturbation"` it raises a `ValueError` unless it is `decided`.
        """
        if self.relaxation == "perturbation" and not self.decided:
            raise ValueError(
                "With the relaxation 'perturbation' probabilities do not decide on cells: train "
                "with `keras_xd.callbacks.PerturbationSelection`; see "
                "`genotype_of_probabilities` for what they would decide on. "
                "Received: logits that nothing has decided on"
            )
        return self.genotype_of_probabilities

    @property
    def decided(self) -> bool:
        """Whether the logits say one cell alone, as `decide` sets them.

        Training on leaves it so, as logits so far apart get hardly any gradient.
        """
        ordered = np.sort(ops.convert_to_numpy(self.logits), axis=-1)
        edges = [
            first_tier_edge(number, source)
            for number, block in enumerate(self.genotype_of_probabilities.blocks)
            for _, source in block.first
        ]
        lead = (ordered[:, -1] - ordered[:, -2])[[*edges, *map(second_tier_edge, range(BLOCKS))]]
        return bool(np.all(lead > _LEAD))

    @property
    def genotype_of_probabilities(self) -> CellGenotype:
        """The cell of the largest `probabilities`, see `keras_xd.genotypes.derive_cell`."""
        if self.edge_logits is None and self.tiers > 1:
            return derive_cell(ops.convert_to_numpy(self.logits), self.operations)
        return cell_of_weights(ops.convert_to_numpy(self.probabilities), self.operations)

    def decide(self, cell: CellGenotype) -> None:
        """Set the logits to values by which the operations of a cell have the probability 1."""
        logits = np.zeros((EDGES, len(self.operations)), "float32")
        edges = np.zeros((FIRST_TIER_EDGES,), "float32")
        for number, block in enumerate(cell.blocks):
            for operation, source in block.first:
                edge = first_tier_edge(number, source)
                logits[edge, self.operations.index(operation)] = edges[edge] = _DECIDED
            column = self.operations.index(block.second)
            logits[second_tier_edge(number), column] = _DECIDED
        self.logits.assign(logits[: self.logits.shape[0]])
        if self.edge_logits is not None:
            self.edge_logits.assign(edges)

    def keep(self, edge: int, operation: str) -> None:
        """Give an operation the probability 1 on its edge, which alone decides on no cell."""
        logits = np.array(ops.convert_to_numpy(self.logits))
        logits[edge] = 0.0
        logits[edge, self.operations.index(operation)] = _KEPT
        self.logits.assign(logits)

    def generator(self) -> keras.random.SeedGenerator | None:
        """Return a generator of random numbers for a cell, equal ones for all cells."""
        return keras.random.SeedGenerator(self._drawing_seed) if self.draws else None

    def paths(self, generator: keras.random.SeedGenerator | None) -> dict[str, Tensor]:
        """Return what edges compute and its weights, see `drawn_paths` and `drawn_cell`.

        Without a generator of noise these are the most likely operations.
        """
        noise = None
        if generator is not None:
            noise = gumbel_noise((EDGES, len(self.operations)), generator)
        if self.relaxation == "single_path":
            logits = (self.logits, self.edge_logits)
            draw = traced_part(drawn_cell, self.operations)
            temperature = ops.convert_to_tensor(self.temperature)
            return draw(*map(ops.convert_to_tensor, logits), noise, temperature)[0]
        alone = generator is None or fixed_architecture.is_fixed()
        count = 1 if alone else PATHS[self.relaxation]
        draw = traced_part(drawn_paths, self.operations, self.relaxation, count)
        temperature = self.temperature
        if temperature is not None:
            temperature = ops.convert_to_tensor(temperature)
        return draw(ops.convert_to_tensor(self.logits), noise, temperature)[0]

    def describe(self) -> Description:
        """Return the `probabilities`, an array, and how undecided they are.

        `probability/<operation>` is the mean probability of an operation over the edges. `entropy`
        is the mean over the edges of the entropies of their probabilities, in nats, and
        `entropy/relative` is that divided by the entropy of equal ones. With `edge_logits` there
        are the `edge_probabilities` too.
        """
        values = ops.convert_to_numpy(self.operation_probabilities)[: self.logits.shape[0]]
        found = {"probabilities": np.asarray(values, "float64")}
        found |= described(self.operations, found["probabilities"])
        if self.edge_logits is not None:
            found["edge_probabilities"] = ops.convert_to_numpy(self.edge_probabilities)
        return found

    def random_values(self, generator: np.random.Generator) -> list[np.ndarray]:
        """Return values of `architecture_variables` for probabilities drawn evenly from all."""
        values = [generator.dirichlet(np.ones(len(self.operations)), size=self.logits.shape[0])]
        if self.edge_logits is not None:
            parts = [generator.dirichlet(np.ones(len(sources))) for sources in SOURCES]
            values.append(np.concatenate(parts))
        return [np.log(np.maximum(rows, SMALLEST_PROBABILITY)) for rows in values]

    def call(self, inputs: Tensor | None = None) -> Tensor:
        return self.probabilities
