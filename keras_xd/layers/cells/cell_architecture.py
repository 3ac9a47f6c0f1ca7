"""The architecture weights that relaxed cells share."""

from collections.abc import Sequence
from typing import Unpack

import keras
from keras import ops

from keras_xd.core import validation
from keras_xd.core.type_aliases import Config, LayerOptions, Shape, Tensor
from keras_xd.layers.cells.genotypes import (
    EDGES,
    NOS_OPERATIONS,
    CellGenotype,
    checked_operations,
    derive_cell,
)


@keras.saving.register_keras_serializable(package="keras_xd")
class CellArchitecture(keras.layers.Layer):
    """The architecture weights that all cells of one kind in a network share.

    One logit for each operation on each of the 18 edges, see `HeterogeneousCell`. The shares of
    the operations on an edge are the softmax of its logits.

    Args:
        reduction: whether it is for reduction cells; for normal ones otherwise.
        operations: names of the operations; XD-operations are added by
            `(*NOS_OPERATIONS, "xd_3")`.
        seed: an integer makes the first logits reproducible, normal numbers of standard deviation
            0.001.

    Raises:
        ValueError: for unknown, equal or fewer than two operations, or none that makes features.

    Example:

    >>> from keras_xd import layers
    >>> architecture = layers.CellArchitecture(operations=(*layers.NOS_OPERATIONS, "xd_3"))
    >>> architecture.build()
    >>> tuple(architecture.logits.shape)
    (18, 12)

    Reference:
        "Neural Operator Search", 2020, equation 7.
    """

    def __init__(
        self,
        reduction: bool = False,
        operations: Sequence[str] = NOS_OPERATIONS,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**{"dtype": "float32", **kwargs})
        self.reduction = validation.boolean(reduction, "reduction")
        self.operations = checked_operations(operations)
        self.seed = validation.seed(seed)

    def build(self, input_shape: Shape | None = None) -> None:
        self.logits = self.add_weight(
            name="logits",
            shape=(EDGES, len(self.operations)),
            initializer=keras.initializers.RandomNormal(stddev=1e-3, seed=self.seed),
            autocast=False,
        )

    @property
    def shares(self) -> Tensor:
        """The share of each operation on each edge, a tensor."""
        return ops.softmax(ops.convert_to_tensor(self.logits), axis=-1)

    @property
    def genotype(self) -> CellGenotype:
        """The cell that the logits decide on, see `keras_xd.genotypes.derive_cell`."""
        return derive_cell(ops.convert_to_numpy(self.logits), self.operations)

    def call(self, inputs: Tensor | None = None) -> Tensor:
        return self.shares

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "reduction": self.reduction,
            "operations": self.operations,
            "seed": self.seed,
        }
