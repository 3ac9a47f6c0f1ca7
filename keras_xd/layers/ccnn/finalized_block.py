"""Finalized residual blocks of learned sizes."""

import math
from collections.abc import Sequence
from typing import Any, Self, Unpack

import keras
from keras import activations, initializers, ops

from keras_xd.core import shared_objects, validation
from keras_xd.core.configured import ConfiguredLayer, built_like
from keras_xd.core.quantization import QuantizedWeights, without_quantization
from keras_xd.core.type_aliases import Config, LayerOptions, Shape, Tensor
from keras_xd.layers.ccnn.batch_statistics import STATISTICS, BatchStatisticsNormalization
from keras_xd.layers.ccnn.finalized_ck_conv import StaticCKConv
from keras_xd.layers.fourier.upsampling import FourierUpsampling

# To copy the channels of a block takes about as long as to compute one channel more of so many.
CHANNELS_OF_A_COPY = 16
# What the complexity of blocks and encoders counts: see `CCNNBlock`.
COUNTINGS = ("counts", "per_channel", "continuous")


@keras.saving.register_keras_serializable(package="keras_xd")
class StaticCCNNBlock(ConfiguredLayer, QuantizedWeights):
    """A residual block on the first channels of its inputs; the other channels pass it by.

    A `CCNNBlock` becomes one by `finalize()`. Its weights can be trained further, or stored in
    eight bits by `quantize`, with those of its convolution.

    Args:
        widths: number of channels of the convolution, between the two linear layers, and of the
            second one's outputs.
        convolution: a `StaticCKConv` with `data_format="channels_last"`, not built. It is given
            the data types of the block.
        dropout: share of the entries that are set to zero in training.
        statistics: as in `BatchStatisticsNormalization`.
        per_channel: whether the convolution is counted for each channel, or once.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> searched = layers.CCNNBlock()
    >>> _ = searched(np.ones((2, 32, 10)))
    >>> searched.finalize().widths
    (5, 5, 5)
    """

    quantized_weights = ("kernels",)

    def __init__(
        self,
        widths: Sequence[int],
        convolution: StaticCKConv,
        dropout: float = 0.0,
        statistics: str = "batch",
        per_channel: bool = False,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**kwargs)
        self.per_channel = validation.boolean(per_channel, "per_channel")
        self.widths = validation.integer_tuple(widths, 3, "widths")
        self.convolution = shared_objects.restored(convolution, StaticCKConv, "convolution")
        if self.convolution is None or self.convolution.data_format != "channels_last":
            raise ValueError(
                "`convolution` must be a StaticCKConv with data_format='channels_last'. "
                f"Received: convolution={convolution!r}"
            )
        self.convolution.dtype_policy = self.dtype_policy
        self.convolution.after_quantization = self._follow_convolution
        plain = without_quantization(self.dtype_policy)
        self.dropout = validation.real_number(dropout, "dropout")
        self.statistics = validation.one_of(statistics, STATISTICS, "statistics")
        self.normalization = BatchStatisticsNormalization(
            statistics, name="normalization", dtype=plain
        )
        self.dropping = keras.layers.Dropout(dropout, name="dropping", dtype=plain)

    @classmethod
    def from_layer(cls, layer: keras.layers.Layer, counts: Sequence[int]) -> Self:
        """Make the static block of a built `CCNNBlock`, of so many first channels as `widths`.

        The values of the width masks there are folded into the linear layers.
        """
        convolution = layer.convolution.finalize()
        static = built_like(
            layer,
            cls,
            counts,
            StaticCKConv.from_config(convolution.get_config()),
            dropout=layer.dropout,
            statistics=layer.normalization.statistics,
            per_channel=layer.counting == "per_channel",
        )
        first, middle, last = counts
        for weight, whole in zip(static.convolution.weights, convolution.weights, strict=True):
            per_channel = weight is static.convolution.kernel or weight is static.convolution.bias
            weight.assign(whole[..., :first] if per_channel else whole)
        pairs = zip(static.normalization.weights, layer.normalization.weights, strict=True)
        for weight, whole in pairs:
            weight.assign(whole[:first])
        a, b, c = (values[:n] for values, n in zip(layer.width_values, counts, strict=True))
        (kernel, bias), (last_kernel, last_bias) = layer.linear
        static.kernels[0].assign(kernel[:first, :middle] * a[:, None] * b)
        static.biases[0].assign(bias[:middle] * b)
        static.kernels[1].assign(last_kernel[:middle, :last] * c)
        static.biases[1].assign(last_bias[:last] * c)
        if layer.depth is not None:
            static.scale.assign(layer.depth.value(layer.index))
        return static

    def build(self, input_shape: Shape) -> None:
        channels, sizes = input_shape[-1], tuple(input_shape[1:-1])
        first, _, last = self.widths
        if channels is None or channels < max(first, last):
            raise ValueError(
                f"Layer '{self.name}' needs at least {max(first, last)} channels. "
                f"Received: input_shape={tuple(input_shape)}, widths={self.widths}"
            )
        axes = {axis: n for axis, n in enumerate(input_shape) if axis}
        self.input_spec = keras.layers.InputSpec(ndim=len(input_shape), axes=axes)
        inner = (None, *sizes, first)
        self.normalization.build(inner)
        self.convolution.build(inner)
        self.upsampling = FourierUpsampling(
            sizes,
            data_format="channels_last",
            name="upsampling",
            dtype=without_quantization(self.dtype_policy),
        )
        self.upsampling.build((*self.convolution.compute_output_shape(inner)[:-1], last))
        self.kernels, self.biases = zip(*add_linear(self, self.widths, self.widths), strict=True)
        self.scale = self.add_weight(
            name="scale", shape=(), initializer=initializers.Ones(), trainable=False
        )
        self.finish_quantized_build()

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        middle, output = (self.stored(kernel) for kernel in self.kernels)
        x = self._normalized(inputs, training)
        bias, last_bias = self.biases
        if self._convolves_linearly:
            middle, bias = self._folded(middle, x.shape[-1])
            x = self.convolution.correlate(x)
        else:
            x = self.convolution(x)
        x = self.dropping(activated(x, middle, bias), training=training)
        x = activated(x, output, last_bias)
        return add_to_first(inputs, self.upsampling(x) * self.scale)

    @property
    def _convolves_linearly(self):
        """Whether what follows the convolution can be folded into the linear layer behind it."""
        return self.convolution.activation is activations.linear

    def _normalized(self, inputs, training):
        """Return the normalized inputs, with a few channels of zeros if that saves a copy."""
        first = self.widths[0]
        others = inputs.shape[-1] - first
        moving = self.normalization.uses_moving_statistics(training)
        if not (moving and self._convolves_linearly and 0 < others <= first / CHANNELS_OF_A_COPY):
            return self.normalization(inputs[..., :first], training=training)
        scale, shift = self.normalization.scale_and_shift()
        scale, shift = (ops.pad(values, [(0, others)]) for values in (scale, shift))
        return ops.cast(ops.cast(inputs, scale.dtype) * scale + shift, self.compute_dtype)

    def _folded(self, kernel, channels):
        """Return kernel and bias of the linear layer behind the convolution of so many channels."""
        bias, before = self.biases[0], self.convolution.bias
        if before is not None:
            exact = "float64" if self.compute_dtype == "float64" else "float32"
            bias, before, exactly = (ops.cast(x, exact) for x in (bias, before, kernel))
            bias = ops.cast(bias + ops.matmul(before, exactly), self.compute_dtype)
        others = channels - self.widths[0]
        return ops.pad(kernel, [(0, others), (0, 0)]) if others else kernel, bias

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

    def quantize(
        self, mode: str | None = None, type_check: bool = True, config: Any = None
    ) -> None:
        """Store the weights of the block and of its convolution in eight bits."""
        super().quantize(mode, type_check, config)
        if self.convolution.quantization_mode is None:
            self.convolution.quantize(mode)

    def _follow_convolution(self, mode):
        """Quantize the block, of which `keras.Model.quantize` asks only the convolution."""
        if self.quantization_mode is None:
            self.quantize(mode)

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample, counted as `CCNNBlock.complexity` does."""
        one = (*input_shape[:-1], 1)
        r = math.prod(self.convolution.compute_output_shape(one)[1:-1])
        of_channel = self.convolution.multiply_adds(one) if self.per_channel else None
        return block_multiply_adds(math.prod(one[1:]), r, self.widths, of_channel)

    def activations(self, input_shape: Shape) -> int:
        """Return the entries of the tensors of a sample, counted as by `CCNNBlock.activations`."""
        points = self.convolution.compute_output_shape((*input_shape[:-1], 1))[1:-1]
        return block_activations(math.prod(input_shape[1:-1]), math.prod(points), self.widths)

    def get_config(self) -> Config:
        convolution = keras.saving.serialize_keras_object(self.convolution)
        convolution.pop("build_config", None)  # the block builds it
        return {**super().get_config(), "convolution": convolution}


def block_multiply_adds(points, r, widths, of_channel=None):
    """Return the multiply–adds of a block: see `CCNNBlock.complexity`."""
    a, b, c = widths
    if of_channel is not None:
        convolution = a * of_channel
    elif validation.is_integer(r):
        convolution = r * math.log2(r)
    else:
        convolution = r * ops.log(r) / math.log(2)
    return points * a + convolution + r * (a * b + 2 * b + b * c + c)


def block_activations(points, r, widths):
    """Return the entries that the tensors of a block have: see `CCNNBlock.activations`."""
    a, b, c = widths
    largest = max(a, c) if validation.is_integer(a) else ops.maximum(a, c)
    return points * (largest + a) + r * (a + 2 * b + 2 * c)


def add_linear(layer, widths, left, seed=None):
    """Give a layer the weights of its two linear layers, pairs of a kernel and a bias."""
    pairs = []
    for step, name in enumerate(("middle", "output")):
        draw = initializers.VarianceScaling(
            2 * widths[step] / left[step],
            "fan_in",
            "uniform",
            None if seed is None else seed + 1 + step,
        )
        kernel = layer.add_weight(
            name=f"kernel_{name}", shape=widths[step : step + 2], initializer=draw
        )
        bias = layer.add_weight(name=f"bias_{name}", shape=(widths[step + 1],), initializer="zeros")
        pairs.append((kernel, bias))
    return tuple(pairs)


def activated(x, kernel, bias):
    """Return GELU of a linear layer, in a form that TensorFlow computes in one pass."""
    y = ops.add(ops.matmul(ops.reshape(x, (-1, x.shape[-1])), kernel), bias)
    return ops.reshape(ops.gelu(y, approximate=False), (-1, *x.shape[1:-1], kernel.shape[-1]))


def add_to_first(inputs, branch):
    """Return the inputs with a tensor of fewer channels added to the first of them."""
    missing = inputs.shape[-1] - branch.shape[-1]
    if missing:
        branch = ops.pad(branch, [(0, 0)] * (len(branch.shape) - 1) + [(0, missing)])
    return inputs + branch
