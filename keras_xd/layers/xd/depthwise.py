"""XD-operations in place of depthwise convolutions."""

from typing import Any, Unpack

import keras

from keras_xd.core.convolutions import ConvolutionOfAnyRank, RankArgument
from keras_xd.core.type_aliases import (
    Activation,
    Constraint,
    Initializer,
    LayerOptions,
    Regularizer,
    Shape,
    Sizes,
)
from keras_xd.layers.xd.conv import SlidingXDLayer, SlidingXDOptions


class XDDepthwiseOptions(LayerOptions, SlidingXDOptions, total=False):
    """Keyword arguments of an `XDDepthwiseConv` after the size of its kernel."""

    strides: Sizes
    padding: str
    depth_multiplier: int
    data_format: str | None
    dilation_rate: Sizes
    activation: Activation
    use_bias: bool
    depthwise_initializer: Initializer
    bias_initializer: Initializer
    depthwise_regularizer: Regularizer
    bias_regularizer: Regularizer
    depthwise_constraint: Constraint
    bias_constraint: Constraint


class DepthwiseXDLayer(SlidingXDLayer):
    """Base class of `XDDepthwiseConv` of every rank."""

    like = keras.layers.DepthwiseConv1D
    kernel_is_grouped = False

    def __init__(self, kernel_size: Sizes, *args: Any, **kwargs: Unpack[XDDepthwiseOptions]):
        super().__init__(kernel_size, *args, **kwargs)

    def build(self, input_shape: Shape) -> None:
        self.groups, _ = self._split_shape(input_shape)
        self.filters = self._output_channels(self.groups)
        super().build(input_shape)

    def _output_channels(self, channels):
        return channels * self.depth_multiplier

    def _channel_groups(self, channels):
        return channels

    def _kernel_shape(self, channels):
        return (*self.kernel_size, channels, self.depth_multiplier)

    def _grouped_kernel(self):
        kernel = keras.ops.convert_to_tensor(self.kernel)
        return keras.ops.reshape(kernel, (*self.kernel_size, 1, self.filters))


@keras.saving.register_keras_serializable(package="keras_xd")
class XDDepthwiseConv(RankArgument, DepthwiseXDLayer, ConvolutionOfAnyRank):
    """As `XDDepthwiseConv2D`, of any `rank`."""


@keras.saving.register_keras_serializable(package="keras_xd")
class XDDepthwiseConv1D(DepthwiseXDLayer, keras.layers.DepthwiseConv1D):
    """As `XDDepthwiseConv2D`, over one spatial axis."""

    rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class XDDepthwiseConv2D(DepthwiseXDLayer, keras.layers.DepthwiseConv2D):
    """XD-operation on every channel by itself, in place of a depthwise convolution.

    With `m` kernels for each channel (`depth_multiplier`) output channel `m j + q` is

        y[m j + q] = C[j, q] · Re( K · diag(L w[j, q] + b) · M · x_j )

    With `warm_start="convolution"` it is a drop-in for the depthwise Keras convolution of the same
    arguments.

    Args:
        padding, dilation_rate: as in `XDConv2D`, without "causal".
        kernel_size, *args: these and all others of a depthwise Keras convolution.
        window_size, depth, radix, warm_start, frequency_bias, channel_gates,
            architecture_regularizer, seed, method: as in `XDConv2D`.

    Output shape:
        `(batch, new_height, new_width, channels · depth_multiplier)`, or with the channels first.

    Example:

    >>> import keras, numpy as np
    >>> from keras_xd import layers
    >>> images = np.random.default_rng(0).normal(size=(2, 9, 9, 3)).astype("float32")
    >>> convolution = keras.layers.DepthwiseConv2D(
    ...     3, padding="same", depth_multiplier=2
    ... )
    >>> expected = convolution(images)
    >>> operation = layers.XDDepthwiseConv2D(3, padding="same", depth_multiplier=2)
    >>> operation(images).shape
    TensorShape([2, 9, 9, 6])
    >>> _ = operation.kernel.assign(convolution.kernel)
    >>> bool(np.allclose(operation(images), expected, atol=1e-5))
    True

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, appendix A.
    """

    rank = 2
