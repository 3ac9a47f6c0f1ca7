"""Dense, einsum and recurrent layers whose kernels are mixtures of structured matrices."""

import math
from collections.abc import Sequence
from typing import Any, Unpack

import keras
from keras import ops

from keras_xd.core.argument_types import constructor_parameters
from keras_xd.core.configured import config_with_functions
from keras_xd.core.mixtures import CandidateMixture
from keras_xd.core.type_aliases import Config, Shape, Tensor
from keras_xd.layers.structured import base, mixture
from keras_xd.layers.structured.dense import StructuredDense
from keras_xd.layers.structured.einsum_dense import StructuredEinsumDense
from keras_xd.layers.structured.embedding import (
    EmbeddingOptions,
    StructuredEmbedding,
    check_families,
)
from keras_xd.layers.structured.recurrent import (
    StructuredGRU,
    StructuredGRUCell,
    StructuredLSTM,
    StructuredLSTMCell,
)


class _MixedStructure(CandidateMixture):
    """What the layers share; comes before the structured layer in the order of classes."""

    fixed = ("family", "density", "sizes")
    plain_class: type  # what a candidate becomes
    dense_class: type  # what the candidate "dense" becomes

    @property
    def operation_names(self) -> tuple[str, ...]:
        """The names of the candidates, such as `"low_rank_0.5"`, in the order of the logits."""
        return tuple(_holder(self).candidates)

    def complexity(self, input_shape: Shape) -> float | Tensor:
        """The expected multiply–adds of one sample, by the probabilities of the candidates."""
        return self.multiply_adds(input_shape)

    def parameters(self) -> Tensor:
        """Return the expected weights of the finalized layer, differentiable in the logits."""
        kernels = _kernels(self)
        inside = {
            id(variable) for kernel in kernels for variable in (*kernel.variables, self.logits)
        }
        others = sum(math.prod(w.shape) for w in self.weights if id(w) not in inside)
        return sum(kernel.parameters for kernel in kernels) + others

    def architecture_signature(self) -> Config:
        """Return what tells the meaning of the logits: the candidates with their sizes."""
        candidates = {
            name: [family, *sizes] for name, (family, sizes) in _holder(self).candidates.items()
        }
        return {**super().architecture_signature(), "candidates": candidates}

    def finalize(self) -> keras.layers.Layer:
        """Return a built structured layer of the family and sizes of the largest probability."""
        family, sizes = _holder(self).candidates[self.largest]
        dense = family == "dense"
        chosen = dict(zip(("sizes", "recurrent_sizes"), sizes, strict=False))
        config = {**config_with_functions(self), "family": family, "density": 1.0, **chosen}
        kind = self.dense_class if dense else self.plain_class
        plain = kind.from_config({name: config[name] for name in _arguments(kind, config)})
        plain.build(self.get_build_config()["input_shape"])
        plain.trainable = self.trainable
        for kernel, new in zip(_kernels(self), _kernels(plain), strict=True):
            if dense:
                new.assign(self.as_dense_kernel(kernel.dense(), new.shape))
            else:
                kernel.become(new, self.largest)
        if hasattr(_holder(self), "bias"):
            base.copy_variable(_holder(self).bias, _holder(plain).bias)
        return plain

    def as_dense_kernel(self, matrix: Tensor, shape: Shape) -> Tensor:
        """Return a matrix as a kernel of the layer of Keras."""
        return ops.reshape(matrix, shape)


def _holder(layer):
    """Return what has the kernels of a layer: the layer, or its cell."""
    return getattr(layer, "cell", layer)


def _kernels(layer):
    """Return the kernels of a layer."""
    holder = _holder(layer)
    names = ("kernel", "recurrent_kernel", "embeddings")
    return [getattr(holder, name) for name in names if hasattr(holder, name)]


def _arguments(kind, config):
    """Return the names of a configuration that a class takes."""
    if hasattr(kind, "argument_names"):
        allowed = kind.argument_names()
    else:
        allowed = set(constructor_parameters(kind))
    return [name for name in config if name in {*allowed, "name", "dtype"}]


@keras.saving.register_keras_serializable(package="keras_xd")
class MixedDense(_MixedStructure, StructuredDense):
    """A `Dense` layer whose kernel is a mixture of structured matrices, by probabilities to be
    searched.

    With the candidates `c`, matrices of all `families` and sizes, and `p = softmax(logits)`

        y = activation( x · Σ_c p_c K_c + bias )

    The matrices are multiplied out and summed first, so there is one product with the inputs,
    whatever the number of candidates. The expected multiply–adds and parameters are differentiable
    in the logits: a `complexity_target` of `SearchModel.compile` spreads them over the layers.

    `finalize()` keeps the family and the size of the largest probability: a `StructuredDense` whose
    kernel is the nearest to the mixture, or a `Dense` for the candidate `"dense"`. Outputs are the
    same where that probability is 1.

    Args:
        units: number of outputs.
        families: names of the families, of those of `StructuredDense`; `"dense"` too.
        densities: most numbers of a candidate, as parts of `inputs · units`; each family but
            `"dense"` has a candidate for each of them. What the kernel has no matrix of is left
            out, and sizes that occurred already.
        activation, use_bias, learning_rates, bias_initializer, kernel_regularizer,
            bias_regularizer, activity_regularizer, bias_constraint: as in `StructuredDense`.
        seed: integer, makes the random start reproducible; each candidate's is one higher.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.MixedDense(
    ...     64, families=("low_rank", "monarch"), densities=(0.5, 0.25)
    ... )
    >>> layer(np.ones((2, 16), "float32")).shape
    TensorShape([2, 64])
    >>> layer.operation_names
    ('low_rank_0.5', 'low_rank_0.25', 'monarch_0.5', 'monarch_0.25')
    >>> type(layer.finalize()).__name__
    'StructuredDense'

    Reference:
        Potapczynski et al., "Searching for Efficient Linear Layers over a Continuous Space of
        Structured Matrices", 2024, for the question; Shen, Khodak, Talwalkar, "Efficient
        Architecture Search for Diverse Tasks", 2022, for mixtures in one product.
    """

    plain_class, dense_class = StructuredDense, keras.layers.Dense

    def __init__(
        self,
        units: int,
        families: Sequence[str] = mixture.FAMILIES,
        densities: Sequence[float] = mixture.DENSITIES,
        *,
        use_bias: bool = True,
        **kwargs: Unpack[base.MixtureArguments],
    ):
        super().__init__(units, use_bias=use_bias, **kwargs)
        self.structure = mixture.MixtureOptions.like(self.structure, families, densities)


@keras.saving.register_keras_serializable(package="keras_xd")
class MixedEinsumDense(_MixedStructure, StructuredEinsumDense):
    """An `EinsumDense` layer whose kernel is a mixture of structured matrices, as in `MixedDense`.

    `keras_xd.rewrite` puts it in the place of the projections of attention.

    Args:
        equation, output_shape, activation, bias_axes: as in `keras.layers.EinsumDense`, for
            equations that `StructuredEinsumDense` takes.
        families, densities, learning_rates, bias_initializer, kernel_regularizer, bias_regularizer,
            activity_regularizer, bias_constraint, seed: as in `MixedDense`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> heads = layers.MixedEinsumDense("abc,cde->abde", (None, 8, 16))
    >>> heads(np.ones((2, 10, 128), "float32")).shape
    TensorShape([2, 10, 8, 16])
    """

    fixed = (*_MixedStructure.fixed, *StructuredEinsumDense.fixed)
    plain_class, dense_class = StructuredEinsumDense, keras.layers.EinsumDense

    def __init__(
        self,
        equation: str,
        output_shape: int | Sequence[int | None],
        families: Sequence[str] = mixture.FAMILIES,
        densities: Sequence[float] = mixture.DENSITIES,
        *,
        bias_axes: str | None = None,
        **kwargs: Unpack[base.MixtureArguments],
    ):
        super().__init__(equation, output_shape, bias_axes=bias_axes, **kwargs)
        self.structure = mixture.MixtureOptions.like(self.structure, families, densities)

    def as_dense_kernel(self, matrix: Tensor, shape: Shape) -> Tensor:
        return self.kernel_of(matrix)


@keras.saving.register_keras_serializable(package="keras_xd")
class MixedEmbedding(_MixedStructure, StructuredEmbedding):
    """An `Embedding` layer whose table is a mixture of structured matrices, as in `MixedDense`.

    Of each candidate only the rows are computed that are looked up.

    Args:
        input_dim, output_dim, embeddings_stddev, mask_zero, learning_rates,
            embeddings_regularizer, activity_regularizer: as in `StructuredEmbedding`.
        families, densities, seed: as in `MixedDense`; the families without `"kaleidoscope"`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.MixedEmbedding(10000, 64, families=("low_rank", "dense"))
    >>> layer(np.array([[3, 7, 9999]])).shape
    TensorShape([1, 3, 64])
    >>> layer.operation_names
    ('low_rank_0.5', 'low_rank_0.25', 'dense')
    """

    plain_class, dense_class = StructuredEmbedding, keras.layers.Embedding

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        families: Sequence[str] = mixture.FAMILIES,
        densities: Sequence[float] = mixture.DENSITIES,
        **kwargs: Unpack[EmbeddingOptions],
    ):
        super().__init__(input_dim, output_dim, **kwargs)
        check_families(families)
        self.structure = mixture.MixtureOptions.like(self.structure, families, densities)

    def as_dense_kernel(self, matrix: Tensor, shape: Shape) -> Tensor:
        return matrix[: self.input_dim]


class _MixedCell:
    """What the two cells share; comes before the structured cell in the order of classes."""

    fixed = ("family", "density", "sizes")

    def __init__(self, units, families, densities, learning_rates, **kwargs):
        super().__init__(units, "dense", learning_rates=learning_rates, **kwargs)
        self.structure = mixture.MixtureOptions.like(self.structure, families, densities)


class _MixedLSTMCell(_MixedCell, StructuredLSTMCell):
    pass


class _MixedGRUCell(_MixedCell, StructuredGRUCell):
    pass


class _MixedRNN(_MixedStructure):
    """What the two layers share."""

    def __init__(
        self,
        units: int,
        families: Sequence[str] = mixture.FAMILIES,
        densities: Sequence[float] = mixture.DENSITIES,
        learning_rates: str = "spectral",
        **kwargs: Any,
    ):
        self.make_of_cell(units, families, densities, learning_rates, **kwargs)

    @property
    def logits(self) -> keras.Variable:
        """The logits of the candidates, which kernel and recurrent kernel share."""
        return self.cell.logits

    def complexity(self, input_shape: Shape) -> float | Tensor:
        """The expected multiply–adds of one sample, by the probabilities of the candidates."""
        return input_shape[1] * self.cell.vector_multiply_adds

    def call(
        self, sequences: Tensor, initial_state: Any = None, mask: Any = None, training: bool = False
    ) -> Any:
        with mixture.folded(_kernels(self)):  # once, not in each step
            return super().call(sequences, initial_state, mask, training)


@keras.saving.register_keras_serializable(package="keras_xd")
class MixedLSTM(_MixedRNN, StructuredLSTM):
    """An `LSTM` layer whose kernels are mixtures of structured matrices, as in `MixedDense`.

    Kernel and recurrent kernel have the same probabilities, and so become of one family; a
    candidate is one that both have a matrix of. The mixtures are multiplied out once in a call.

    Args:
        units: number of units.
        families, densities, learning_rates: as in `MixedDense`, of both kernels.
        **kwargs: as in `StructuredLSTM`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.MixedLSTM(32, families=("low_rank", "dense"))
    >>> layer(np.ones((2, 10, 16), "float32")).shape
    TensorShape([2, 32])
    >>> layer.operation_names
    ('low_rank_0.5', 'low_rank_0.25', 'dense')
    """

    cell_class = _MixedLSTMCell
    plain_class, dense_class = StructuredLSTM, keras.layers.LSTM


@keras.saving.register_keras_serializable(package="keras_xd")
class MixedGRU(_MixedRNN, StructuredGRU):
    """As `MixedLSTM`, in place of a `keras.layers.GRU`."""

    cell_class = _MixedGRUCell
    plain_class, dense_class = StructuredGRU, keras.layers.GRU
