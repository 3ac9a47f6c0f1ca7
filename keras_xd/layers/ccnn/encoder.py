"""The first convolution of a continuous convolutional network, of a learned width."""

import math
from typing import Self, Unpack

import keras
from keras import ops

from keras_xd.core import shapes, validation
from keras_xd.core.configured import ConfiguredLayer, built_like
from keras_xd.core.searchable import SearchableLayer
from keras_xd.core.type_aliases import Description, LayerOptions, Shape, Tensor
from keras_xd.layers.ccnn.batch_statistics import STATISTICS, BatchStatisticsNormalization
from keras_xd.layers.ccnn.finalized_block import COUNTINGS, activated
from keras_xd.layers.masked import masks
from keras_xd.layers.masked.differentiable_mask import DifferentiableMask


@keras.saving.register_keras_serializable(package="keras_xd")
class CCNNEncoder(ConfiguredLayer, SearchableLayer):
    """Linear layer, batch normalization, width mask and GELU, to all channels of the blocks.

        y = gelu(m · normalize(linear(x)))

    The sigmoid mask `m` leaves the first channels; the others are zero, and blocks may write to
    them. So the residual stream of a pruned network has as many channels as the encoder makes, or
    as a block reads or writes, where these are more: see `finalize`.

    Args:
        units: number of channels.
        initial_width: number of channels that the mask begins with; `None`: half of them.
        temperature: steepness of the mask. It takes at least 2.57 / temperature of the channels.
        statistics: what inference normalizes by, `"moving"` or `"batch"`: see `use_statistics`.
        seed: an integer makes the first weights reproducible.
        counting: as in `CCNNBlock`.

    Input shape:
        `(batch, *spatial, channels)`; all sizes but the batch's must be known.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> encoder = layers.CCNNEncoder(10)
    >>> encoder(np.ones((2, 32, 3))).shape, encoder.describe()["channels"]
    (TensorShape([2, 32, 10]), 5.0)

    Reference:
        Romero and Zeghidour, "DNArch", 2023, section 2.4, where the encoder has all channels.
    """

    def __init__(
        self,
        units: int,
        initial_width: float | None = None,
        temperature: float = 25.0,
        statistics: str = "moving",
        seed: int | None = None,
        counting: str = "counts",
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**kwargs)
        self.units = validation.positive_integer(units, "units")
        self.initial_width = initial_width
        masks.sigmoid_range(temperature)
        self.temperature = temperature
        self.statistics = validation.one_of(statistics, STATISTICS, "statistics")
        self.seed = validation.seed(seed)
        self.counting = validation.one_of(counting, COUNTINGS, "counting")
        self.linear = keras.layers.Dense(
            units,
            kernel_initializer=keras.initializers.GlorotUniform(seed),
            name="linear",
            dtype=self.dtype_policy,
        )
        self.normalization = BatchStatisticsNormalization(
            statistics, name="normalization", dtype=self.dtype_policy
        )
        self.mask = DifferentiableMask(
            temperature=temperature, initial_size=initial_width, name="mask"
        )

    def build(self, input_shape: Shape) -> None:
        shapes.split_shape(input_shape, len(input_shape) - 2, "channels_last", self.name)
        outputs = self.compute_output_shape(input_shape)
        self.linear.build(input_shape)
        self.normalization.build(outputs)
        self.mask.build(outputs)

    @property
    def architecture_variables(self) -> list[keras.Variable]:
        """The variable of the mask."""
        return self.mask.architecture_variables

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        x = self.normalization(self.linear(inputs), training=training)
        x = x * ops.cast(self.mask.values[0], x.dtype)
        return ops.gelu(x, approximate=False)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.units)

    def complexity(self, input_shape: Shape) -> float | Tensor:
        """Multiply–adds of the linear layer of one sample, for the channels under the mask."""
        continuous = self.counting == "continuous"
        (size,) = self.mask.sizes if continuous else self.mask.counts
        return math.prod(input_shape[1:]) * size

    def parameters(self) -> float | Tensor:
        """Return how many weights are left: for each channel its inputs, its bias and four more."""
        return (self.linear.kernel.shape[0] + 5) * self.mask.counts[0]

    def activations(self, input_shape: Shape) -> float | Tensor:
        """Return how many entries the linear layer gives out for a sample, under the mask."""
        return math.prod(input_shape[1:-1]) * self.mask.counts[0]

    def finalize(self) -> keras.layers.Layer:
        """Return a built `StaticCCNNEncoder` of the channels under the mask, same outputs."""
        return StaticCCNNEncoder.from_layer(self)

    def describe(self) -> Description:
        """Return `width`, the size of the mask, and `channels`, those under it."""
        (size,), (values,) = self.mask.sizes, self.mask.values
        return {
            "width": float(ops.convert_to_numpy(size)),
            "channels": float(masks.support(values)[1]),
        }


@keras.saving.register_keras_serializable(package="keras_xd")
class StaticCCNNEncoder(ConfiguredLayer):
    """Linear layer, batch normalization and GELU; channels of zeros behind them.

    A `CCNNEncoder` becomes one by `finalize()`. Its weights can be trained further.

    Args:
        units: number of channels of the outputs.
        width: how many of them, the first ones, are computed.
        statistics: as in `BatchStatisticsNormalization`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> searched = layers.CCNNEncoder(10)
    >>> _ = searched(np.ones((2, 32, 3)))
    >>> searched.finalize().width
    5
    """

    def __init__(
        self, units: int, width: int, statistics: str = "moving", **kwargs: Unpack[LayerOptions]
    ):
        super().__init__(**kwargs)
        self.units = validation.positive_integer(units, "units")
        self.width = validation.positive_integer(width, "width")
        if width > units:
            raise ValueError(
                f"`width` must be at most `units`. Received: width={width}, units={units}"
            )
        self.statistics = validation.one_of(statistics, STATISTICS, "statistics")
        self.linear = keras.layers.Dense(width, name="linear", dtype=self.dtype_policy)
        self.normalization = BatchStatisticsNormalization(
            statistics, name="normalization", dtype=self.dtype_policy
        )

    @classmethod
    def from_layer(cls, layer: CCNNEncoder) -> Self:
        """Make the static encoder of a built `CCNNEncoder`."""
        (values,) = layer.mask.values
        width = masks.support(values)[1]
        static = built_like(layer, cls, layer.units, width, layer.normalization.statistics)
        inside = zip(
            [*static.linear.weights, *static.normalization.weights],
            [*layer.linear.weights, *layer.normalization.weights],
            strict=True,
        )
        for weight, whole in inside:
            weight.assign(whole[..., :width])
        for weight in (static.normalization.gamma, static.normalization.beta):
            weight.assign(weight * ops.cast(values[:width], weight.dtype))
        return static

    def build(self, input_shape: Shape) -> None:
        shapes.split_shape(input_shape, len(input_shape) - 2, "channels_last", self.name)
        self.linear.build(input_shape)
        self.normalization.build((*input_shape[:-1], self.width))

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        folds = self.normalization.uses_moving_statistics(training)
        if folds and self.linear.quantization_mode is None:
            x = activated(inputs, *self._normalized_weights())
        else:
            x = self.normalization(self.linear(inputs), training=training)
            x = ops.gelu(x, approximate=False)
        others = self.units - self.width
        return ops.pad(x, [*[(0, 0)] * (len(x.shape) - 1), (0, others)]) if others else x

    def _normalized_weights(self):
        """Return kernel and bias of the linear layer with the normalization folded into them."""
        scale, shift = self.normalization.scale_and_shift()
        pair = self.linear.kernel, self.linear.bias
        kernel, bias = (ops.cast(weight, scale.dtype) for weight in pair)
        folded = kernel * scale, bias * scale + shift
        return [ops.cast(weight, self.compute_dtype) for weight in folded]

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.units)

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of the linear layer of one sample."""
        return math.prod(input_shape[1:]) * self.width

    def activations(self, input_shape: Shape) -> int:
        """Return how many entries the linear layer gives out for a sample."""
        return math.prod(input_shape[1:-1]) * self.width
