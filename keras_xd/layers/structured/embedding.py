"""StructuredEmbedding: an embedding layer whose table is a structured matrix of any family."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Unpack

import keras
import numpy as np
from keras import ops
from numpy.typing import ArrayLike

from keras_xd.core import validation
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.type_aliases import Config, LayerOptions, Regularizer, Shape, Tensor
from keras_xd.kmatrix.structured import Projection
from keras_xd.layers.structured import base

FAMILIES = ("low_rank", "monarch", "block_tensor_train", "blast", "dense")
_LARGEST_MULTIPLE = 64


def rows_of(input_dim: int) -> int:
    """Return how many rows a table of so many tokens has, with those that no token has."""
    multiple = min(2 ** int(math.log2(math.isqrt(input_dim))), _LARGEST_MULTIPLE)
    return math.ceil(input_dim / multiple) * multiple


def check_families(families: Sequence[str]) -> None:
    """Raise `ValueError` for a family of which no single row can be computed."""
    for family in [families] if isinstance(families, str) else families:
        validation.one_of(family, FAMILIES, "family")


class EmbeddingOptions(LayerOptions, total=False):
    """Keyword arguments of a `MixedEmbedding` after its sizes and candidates."""

    embeddings_stddev: float
    mask_zero: bool
    learning_rates: str
    embeddings_regularizer: Regularizer
    seed: int | None


@keras.saving.register_keras_serializable(package="keras_xd")
class StructuredEmbedding(ConfiguredLayer, base.FactorFiles):
    """An `Embedding` layer whose table is a structured matrix.

        y_i = table[x_i]

    The table, of `rows × output_dim`, is never formed: for each token its row is computed from the
    factors. It has a few rows that no token has, `rows_of(input_dim) - input_dim`, so that it has
    the divisors that the families need.

    | family               | a row costs, in multiply–adds        | `sizes`                        |
    |----------------------|--------------------------------------|--------------------------------|
    | `low_rank`           | `rank · output_dim`                  | `rank`                         |
    | `monarch`            | `output_dim`                         | `blocks`                       |
    | `block_tensor_train` | `rank · output_dim` with two factors | `row_factors` of `output_dim`, |
    |                      |                                      | `column_factors` of the rows,  |
    |                      |                                      | `rank`                         |
    | `blast`              | `rank · (output_dim + blocks)`       | `blocks`, `rank`               |
    | `dense`              | nothing                              | none                           |

    The kernel, with the rows as its inputs, is as in `StructuredDense`.

    A variable is its factor divided by a rate, so that one learning rate of Adam changes a table of
    that deviation about as much in every family as it does that of `Embedding`.

    Args:
        input_dim: number of tokens, which are 0 to `input_dim - 1`.
        output_dim: size of the vector of a token.
        family: name of the family.
        embeddings_stddev: standard deviation of the entries of the table at the random start; by
            default about that of `Embedding`.
        mask_zero: whether token 0 is padding that later layers mask.
        embeddings_regularizer: regularizer of each variable.
        density, sizes, learning_rates, seed: as in `StructuredDense`, for the table.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.StructuredEmbedding(10000, 64, "block_tensor_train", density=0.1)
    >>> layer(np.array([[3, 7, 9999]])).shape
    TensorShape([1, 3, 64])
    >>> layer.count_params() < 0.1 * 10048 * 64
    True

    Reference:
        Hrinchuk et al., "Tensorized Embedding Layers", 2020, for tables as tensor trains.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        family: str = "block_tensor_train",
        embeddings_stddev: float = 0.03,
        mask_zero: bool = False,
        density: float = 0.25,
        sizes: Config | None = None,
        learning_rates: str = "spectral",
        *,
        embeddings_regularizer: Regularizer = None,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**kwargs)
        self.input_dim = validation.positive_integer(input_dim, "input_dim")
        self.output_dim = validation.positive_integer(output_dim, "output_dim")
        check_families(family)
        self.structure = base.StructuredOptions(
            family, density, sizes, learning_rates, embeddings_regularizer, seed
        )
        self.embeddings_stddev = validation.positive_number(embeddings_stddev, "embeddings_stddev")
        self.mask_zero = self.supports_masking = validation.boolean(mask_zero, "mask_zero")
        self.autocast = False  # tokens are no numbers to round

    def build(self, input_shape: Shape) -> None:
        asked = base.KernelSpecification(
            rows_of(self.input_dim),
            self.output_dim,
            self.structure.sizes,
            deviation=self.embeddings_stddev,
        )
        (self.kernel,) = self.structure.kernels(self, [asked])

    def call(self, inputs: Tensor) -> Tensor:
        if keras.backend.standardize_dtype(inputs.dtype) not in ("int32", "int64"):
            inputs = ops.cast(inputs, "int32")
        rows = self.kernel.rows(ops.reshape(inputs, (-1,)))
        rows = ops.reshape(rows, (*ops.shape(inputs), self.output_dim))
        return ops.cast(rows, self.compute_dtype)

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor | None:
        return ops.not_equal(inputs, 0) if self.mask_zero else None

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape, self.output_dim)

    def project(self, table: ArrayLike) -> Projection:
        """Set the table to the nearest one to a dense table `(input_dim, output_dim)`.

        See `StructuredDense.project`.
        """
        return self.kernel.project(self._padded(table))

    @staticmethod
    def kernels_of(layer: keras.layers.Layer) -> list[tuple[int, int]]:
        """Return the rows and columns of the table in place of that of an `Embedding` layer."""
        return [(rows_of(layer.input_dim), layer.output_dim)]

    @staticmethod
    def arguments_from(layer: keras.layers.Layer) -> Config:
        """Return what the configuration of an `Embedding` layer does not tell."""
        table = ops.convert_to_numpy(layer.embeddings)
        deviation = float(np.sqrt(np.mean(np.square(table, dtype="float64"))))
        return {"embeddings_stddev": deviation} if deviation else {}

    def start_from(
        self, layer: keras.layers.Layer, arguments: list[np.ndarray] | None = None
    ) -> list[base.Start]:
        """Begin as near to an `Embedding` layer of the same sizes as can be."""
        old = layer.embeddings
        starts = self.kernel.start_from(self._padded(old), old)
        return [dataclasses.replace(one, numbers=math.prod(old.shape)) for one in starts]

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample."""
        return math.prod(input_shape[1:]) * self.kernel.row_multiply_adds

    def get_config(self) -> Config:
        config = super().get_config()
        config["embeddings_regularizer"] = config.pop("kernel_regularizer")
        return config

    def _padded(self, table):
        """Return a table as an array, with rows of zeros for those that no token has."""
        table = ops.convert_to_numpy(table)
        if table.shape != (self.input_dim, self.output_dim):
            raise ValueError(
                f"The table must have shape {(self.input_dim, self.output_dim)}. "
                f"Received: table of shape {table.shape}"
            )
        return np.pad(table, ((0, rows_of(self.input_dim) - self.input_dim), (0, 0)))
