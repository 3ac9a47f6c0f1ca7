"""The architecture weights that relaxed cells share."""

import math
import random
from collections.abc import Sequence
from typing import Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.tracing import traced_part
from keras_xd.core.type_aliases import Config, Description, LayerOptions, Shape, Tensor
from keras_xd.layers.cells.genotypes import (
    EDGES,
    NOS_OPERATIONS,
    XD_OPERATIONS,
    CellGenotype,
    checked_operations,
    derive_cell,
)
from keras_xd.layers.cells.relaxation import PATHS, RELAXATIONS, drawn_paths

SMALLEST_SHARE = 1e-5
_SMALLEST_UNIFORM = 1e-20


@keras.saving.register_keras_serializable(package="keras_xd")
class CellArchitecture(keras.layers.Layer):
    """The architecture weights that all cells of one kind in a network share.

    One logit for each operation on each of the 18 edges, see `HeterogeneousCell`. The shares of
    the operations on an edge are the softmax of its logits.

    With the relaxation `"softmax"` the cells compute all operations, weighted by their shares.
    With `"gumbel"` every call in training draws one operation for each edge, by its share, the same
    in all cells, and only that one is computed, with the weight 1. Its derivatives are those of a
    softmax of the logits and the noise divided by `temperature`, a weight that begins as 1: see
    `keras_xd.callbacks.TemperatureSchedule`. In inference the most likely operations are computed.
    One operation at least in the first tier of a block makes features, as in derived cells.

    Args:
        reduction: whether it is for reduction cells; for normal ones otherwise.
        operations: names of the operations; XD-operations are added by
            `(*NOS_OPERATIONS, "xd_3")`.
        seed: an integer makes the first logits reproducible, normal numbers of standard deviation
            0.001, and what is drawn.
        relaxation: `"softmax"` or `"gumbel"`, see above.

    Raises:
        ValueError: for unknown, equal or fewer than two operations, or none that makes features;
            for XD-operations where operations are drawn.

    Example:

    >>> from keras_xd import layers
    >>> architecture = layers.CellArchitecture(operations=(*layers.NOS_OPERATIONS, "xd_3"))
    >>> architecture.build()
    >>> tuple(architecture.logits.shape)
    (18, 12)

    Reference:
        "Neural Operator Search", 2020, equation 7; Dong and Yang, "Searching for a Robust Neural
        Architecture in Four GPU Hours", 2019 (`"gumbel"`).
    """

    def __init__(
        self,
        reduction: bool = False,
        operations: Sequence[str] = NOS_OPERATIONS,
        seed: int | None = None,
        relaxation: str = "softmax",
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**{"dtype": "float32", **kwargs})
        self.reduction = validation.boolean(reduction, "reduction")
        self.operations = checked_operations(operations)
        self.seed = validation.seed(seed)
        self.relaxation = validation.one_of(relaxation, RELAXATIONS, "relaxation")
        self.temperature, self._drawing_seed = None, self.seed
        if self.draws:
            if set(self.operations) & set(XD_OPERATIONS):
                raise ValueError(
                    f"XD-operations cannot be drawn; use another relaxation than {tuple(PATHS)} or "
                    f"other operations. Received: {relaxation=}, operations={operations!r}"
                )
            if seed is None:
                self._drawing_seed = random.randrange(2**31)

    def build(self, input_shape: Shape | None = None) -> None:
        self.logits = self.add_weight(
            name="logits",
            shape=(EDGES, len(self.operations)),
            initializer=keras.initializers.RandomNormal(stddev=1e-3, seed=self.seed),
            autocast=False,
        )
        if self.relaxation == "gumbel":
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
        return [self.logits]

    @property
    def shares(self) -> Tensor:
        """The share of each operation on each edge, a tensor."""
        return ops.softmax(ops.convert_to_tensor(self.logits), axis=-1)

    @property
    def genotype(self) -> CellGenotype:
        """The cell that the logits decide on, see `keras_xd.genotypes.derive_cell`."""
        return derive_cell(ops.convert_to_numpy(self.logits), self.operations)

    def generator(self) -> keras.random.SeedGenerator | None:
        """Return a generator of random numbers for a cell, equal ones for all cells."""
        return keras.random.SeedGenerator(self._drawing_seed) if self.draws else None

    def paths(self, generator: keras.random.SeedGenerator | None) -> dict[str, Tensor]:
        """Return the operations that edges compute and their weights, see `drawn_paths`.

        Args:
            generator: where noise comes from, or `None` for the most likely operations.
        """
        noise = None
        if generator is not None:
            shape = (EDGES, len(self.operations))
            uniform = keras.random.uniform(shape, dtype="float32", seed=generator)
            noise = -ops.log(-ops.log(ops.maximum(uniform, _SMALLEST_UNIFORM)))
        draw = traced_part(drawn_paths, self.operations, self.relaxation)
        return draw(self.logits, noise, self.temperature)[0]

    def describe(self) -> Description:
        """Return the `shares`, an array, and how undecided they are.

        `entropy` is the mean over the edges of the entropies of their shares, in nats, and
        `entropy/relative` is that divided by the entropy of equal shares.
        """
        shares = np.asarray(ops.convert_to_numpy(self.shares), "float64")
        logarithms = np.log(np.where(shares > 0, shares, 1.0))
        entropy = abs(float(-np.sum(shares * logarithms) / EDGES))
        relative = entropy / math.log(len(self.operations))
        return {"shares": shares, "entropy": entropy, "entropy/relative": relative}

    def random_values(self, generator: np.random.Generator) -> list[np.ndarray]:
        """Return values of `architecture_variables` for shares drawn evenly from all possible."""
        shares = generator.dirichlet(np.ones(len(self.operations)), size=EDGES)
        return [np.log(np.maximum(shares, SMALLEST_SHARE))]

    def call(self, inputs: Tensor | None = None) -> Tensor:
        return self.shares

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "reduction": self.reduction,
            "operations": self.operations,
            "seed": self.seed,
            "relaxation": self.relaxation,
        }
