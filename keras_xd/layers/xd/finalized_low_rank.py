"""A finalized XD-operation of few matrices by axis: small, and fast."""

import math
from collections.abc import Sequence
from typing import Self, Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core import shapes, validation
from keras_xd.core.configured import bias_of, built_like
from keras_xd.core.type_aliases import Shape, Tensor
from keras_xd.layers.xd import functional
from keras_xd.layers.xd.finalized import StaticOperation, StaticOptions
from keras_xd.layers.xd.low_rank import Tucker

# So many multiply–adds of it take as long as one of a spectrum, whose products at every frequency
# are small.
RATE = 1.6


@keras.saving.register_keras_serializable(package="keras_xd")
class StaticLowRankXD(StaticOperation):
    """A finalized XD-operation as a Tucker decomposition of its linear map.

    In place of a spectrum it has a few real matrices `P_n[r]` for each axis, and computes

        y_i = Σ_r Σ_j ( P_1[r_1] ⊗ … ⊗ P_N[r_N] ) · G[r]_ji · x_j + bias_i

    For a convolution with `k` taps these are its `k` shifts, and an operation that has moved away
    from one by a small `ε` needs more for parts of the size `ε²` only. So it has about the weights
    of the convolution and of `2 k` matrices by axis. `XDConv.finalize(form="low_rank")` and
    `keras_xd.finalize(model, form="low_rank")` make such layers.

    Args:
        sizes: spatial sizes of inputs.
        output_sizes: spatial sizes of outputs.
        ranks: number of matrices of each axis.
        channels, filters, groups, data_format, use_bias, activation, storage, bias_regularizer,
            bias_constraint: as in `StaticXD`.
        periodic: whether inputs and outputs are on the same circle along every axis.

    Example:

    >>> from keras_xd import layers
    >>> operation = layers.XDConv2D(16, 3, padding="same")
    >>> operation.build((None, 32, 32, 16))
    >>> static = operation.finalize("low_rank")
    >>> static.ranks, static.count_params(), operation.finalize().count_params()
    ((3, 3), 8464, 677392)

    Reference:
        De Lathauwer et al., "A multilinear singular value decomposition", 2000; Roberts et al.,
        "Rethinking Neural Operations for Diverse Tasks", 2021, equation 5.
    """

    quantized_weights = ("_matrices", "core")

    def __init__(
        self,
        sizes: Sequence[int],
        output_sizes: Sequence[int],
        ranks: Sequence[int],
        channels: int,
        filters: int,
        *,
        periodic: bool = False,
        **kwargs: Unpack[StaticOptions],
    ):
        super().__init__(channels, filters, **kwargs)
        if not isinstance(sizes, (list, tuple)) or not 1 <= len(sizes) <= 3:
            raise ValueError(f"`sizes` must be those of 1 to 3 axes. Received: {sizes=}")
        rank = len(sizes)
        self.sizes = validation.integer_tuple(sizes, rank, "sizes")
        self.output_sizes = validation.integer_tuple(output_sizes, rank, "output_sizes")
        self.ranks = validation.integer_tuple(ranks, rank, "ranks")
        self.periodic = validation.boolean(periodic, "periodic")
        validation.channel_groups(self.groups, channels=channels, filters=filters)

    @classmethod
    def from_decomposition(
        cls,
        layer: keras.layers.Layer,
        decomposition: Tucker,
        *,
        periodic: bool,
        storage: str | None = None,
    ) -> Self:
        """Make the static layer of an `XDConv` from the decomposition of its linear map."""
        static = built_like(
            layer,
            cls,
            [g.size for g in layer.geometry],
            [g.output_size for g in layer.geometry],
            decomposition.ranks,
            periodic=periodic,
            **cls.arguments_like(layer, storage),
        )
        values = _matrices(decomposition.factors)
        core = decomposition.core.reshape(static.core.shape)
        static.take_values(layer, (*values, core))
        static.error, static.kept = decomposition.error, decomposition.ranks
        return static

    def build(self, input_shape: Shape) -> None:
        self.input_spec = shapes.input_spec(self.sizes, self.channels, self.data_format)
        axes = zip(self.output_sizes, self.sizes, self.ranks, strict=True)
        *expanding, (outputs, inputs, rank) = axes
        matrices = [(o * r, i) for o, i, r in expanding] + [(outputs, inputs * rank)]
        # A tuple, because TensorFlow's checkpoints reach nothing in lists and dictionaries.
        self._matrices = tuple(
            self.add_stored(f"matrices{axis}", shape, trained=False)
            for axis, shape in enumerate(matrices)
        )
        connections = (self.channels // self.groups, self.filters)
        self.core = self.add_stored("core", (*self.ranks, *connections), trained=True)
        self.bias = bias_of(self, (self.filters,))
        self.finish_quantized_build()

    def call(self, inputs: Tensor) -> Tensor:
        *expanding, last = [self.computed(weight) for weight in self._matrices]
        x = ops.cast(inputs, functional.exact_dtype(self.compute_dtype))
        if self.data_format == "channels_first":
            x = ops.moveaxis(x, 1, -1)
        batch, width = ops.shape(x)[0], self.channels
        for axis, matrix in enumerate(expanding):
            after = math.prod(self.sizes[axis + 1 :])
            x = ops.matmul(matrix, ops.reshape(x, (-1, self.sizes[axis], after * width)))
            # The ranks go beside the channels, those of a later axis first.
            shape = (-1, self.output_sizes[axis], self.ranks[axis], after, width)
            x = ops.transpose(ops.reshape(x, shape), (0, 1, 3, 2, 4))
            width *= self.ranks[axis]
        x = self._mixed(x)
        x = ops.matmul(last, ops.reshape(x, (-1, self.sizes[-1] * self.ranks[-1], self.filters)))
        outputs = ops.reshape(x, (batch, *self.output_sizes, self.filters))
        outputs = functional.with_bias(outputs, self.bias)
        if self.data_format == "channels_first":
            outputs = ops.moveaxis(outputs, -1, 1)
        return self.finished(outputs)

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample, counted as `XDConv2D.complexity` does."""
        widths = (self.channels, self.filters, self.groups)
        return int(multiply_adds(self.sizes, self.output_sizes, self.ranks, *widths))

    def _mixed(self, x):
        """Return `Σ_r Σ_j G[r]_ji x_j[r]`, the sum over the ranks of all axes but the last."""
        *ranks, last = self.ranks
        joined, width, axes = math.prod(ranks), self.channels // self.groups, len(ranks)
        core = ops.cast(self.computed(self.core), self.compute_dtype)
        core = ops.transpose(core, (*reversed(range(axes)), axes, axes + 1, axes + 2))
        x = ops.cast(x, self.compute_dtype)
        if self.groups == 1:
            core = ops.reshape(core, (joined, last, width, self.filters))
            core = ops.reshape(ops.transpose(core, (0, 2, 1, 3)), (joined * width, -1))
            return functional.exact(ops.matmul(ops.reshape(x, (-1, joined * width)), core))
        core = ops.reshape(core, (joined, last, width, self.groups, self.filters // self.groups))
        x = ops.reshape(x, (-1, joined, self.groups, width))
        return functional.exact(ops.einsum("xagc,akcgf->xkgf", x, core))


def multiply_adds(sizes, output_sizes, ranks, channels, filters, groups):
    """Return the multiply–adds of one sample, for ranks that may be arrays."""
    total, before = 0, 1
    for axis, (outputs, rank) in enumerate(zip(output_sizes[:-1], ranks[:-1], strict=True)):
        before = before * outputs * rank
        total = total + before * math.prod(sizes[axis:]) * channels
    mixed = before * sizes[-1] * ranks[-1] * filters * (channels // groups)
    last = math.prod(output_sizes) * sizes[-1] * ranks[-1] * filters
    return total + mixed + last


def count_parameters(sizes, output_sizes, ranks, channels, filters, groups):
    """Return how many numbers the matrices and the core have, for ranks that may be arrays."""
    core = channels // groups * filters
    for rank in ranks:
        core = core * rank
    matrices = zip(sizes, output_sizes, ranks, strict=True)
    return core + sum(size * outputs * rank for size, outputs, rank in matrices)


def best_ranks(allowed, sizes, output_sizes, widths, most_parameters, most_multiply_adds):
    """Return the ranks with the fewest multiply–adds, then the fewest weights, or `None`."""
    ranks = [np.float64(r) + 1 for r in np.indices(allowed.shape)]
    counts = multiply_adds(sizes, output_sizes, ranks, *widths)
    numbers = count_parameters(sizes, output_sizes, ranks, *widths)
    allowed = allowed & (numbers < most_parameters) & (counts <= most_multiply_adds)
    if not np.any(allowed):
        return None
    order = np.lexsort((numbers.ravel(), counts.ravel()))
    best = next(index for index in order if allowed.flat[index])
    return tuple(int(index) + 1 for index in np.unravel_index(best, allowed.shape))


def _matrices(factors):
    """Return the factors as they are applied: outputs and ranks in rows, of the last in columns."""
    *expanding, last = factors
    rows = [np.transpose(f, (1, 0, 2)).reshape(-1, f.shape[2]) for f in expanding]
    return [*rows, np.transpose(last, (1, 2, 0)).reshape(last.shape[1], -1)]
