"""XD-operations in place of depthwise convolutions."""

from typing import Unpack

import keras

from keras_xd.core import validation
from keras_xd.core.type_aliases import (
    Activation,
    BaseOptions,
    Config,
    Constraint,
    Depth,
    Initializer,
    Radix,
    Regularizer,
    Shape,
    Sizes,
)
from keras_xd.layers.xd import warm_starts
from keras_xd.layers.xd.sliding import SlidingXDLayer, SlidingXDOptions


@keras.saving.register_keras_serializable(package="keras_xd")
class XDDepthwiseConv(SlidingXDLayer):
    """N-D XD-operation on every channel by itself, in place of a depthwise convolution.

    With `m` kernels for each channel (`depth_multiplier`) output channel `m j + q` is

        y[m j + q] = C[j, q] · Re( K · diag(L w[j, q] + b) · M · x_j )

    With `warm_start="convolution"` it is a drop-in for the depthwise Keras convolution of the same
    arguments. Use `XDDepthwiseConv1D` or `XDDepthwiseConv2D` for a fixed rank.

    Args:
        rank: number of spatial axes, 1, 2 or 3.
        kernel_size: integer or tuple of `rank` integers, size of the kernel.
        strides: integer or tuple; every `strides`-th output is kept.
        padding: `"valid"`, `"same"` or `"circular"`, as in `XDConv`.
        depth_multiplier: number of kernels for each channel.
        data_format: `"channels_last"`, `"channels_first"` or `None` for Keras' default.
        dilation_rate: integer or tuple; cannot be combined with `strides > 1`.
        activation: activation function, or `None`.
        use_bias: whether a bias is added to the outputs.
        depthwise_initializer, bias_initializer: initializers of the model weights.
        depthwise_regularizer, bias_regularizer, activity_regularizer: optional regularizers.
        depthwise_constraint, bias_constraint: optional constraints.
        window_size, depth, radix, warm_start, frequency_bias, channel_gates,
            architecture_regularizer, seed: as in `XDConv`.

    Call arguments:
        inputs: tensor of `rank + 2` axes. The spatial sizes must be known when the layer is built;
            the batch size may be dynamic.

    Input shape:
        `(batch, *spatial, channels)`, or `(batch, channels, *spatial)` for "channels_first".

    Output shape:
        `(batch, *new_spatial, channels · depth_multiplier)`, or with the channels first.

    Raises:
        ValueError: as `XDConv`.

    Example:

    >>> import keras, numpy as np
    >>> from keras_xd import layers
    >>> images = np.random.default_rng(0).normal(size=(2, 9, 9, 3)).astype("float32")
    >>> convolution = keras.layers.DepthwiseConv2D(3, padding="same", depth_multiplier=2)
    >>> expected = convolution(images)
    >>> operation = layers.XDDepthwiseConv(2, 3, padding="same", depth_multiplier=2)
    >>> operation(images).shape
    TensorShape([2, 9, 9, 6])
    >>> _ = operation.kernel.assign(convolution.kernel)
    >>> bool(np.allclose(operation(images), expected, atol=1e-5))
    True

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, appendix A.
    """

    kernel_is_grouped = False

    def __init__(
        self,
        rank: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: str = "valid",
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        activation: Activation = None,
        use_bias: bool = True,
        depthwise_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        depthwise_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        activity_regularizer: Regularizer = None,
        depthwise_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        *,
        window_size: Sizes | None = None,
        depth: Depth = 1,
        radix: Radix = None,
        warm_start: str | warm_starts.Convolution = "convolution",
        frequency_bias: bool | None = None,
        channel_gates: bool | None = None,
        architecture_regularizer: Regularizer = None,
        seed: int | None = None,
        **kwargs: Unpack[BaseOptions],
    ):
        super().__init__(
            rank,
            kernel_size=kernel_size,
            strides=strides,
            padding=padding,
            paddings=("valid", "same", "circular"),
            data_format=data_format,
            dilation_rate=dilation_rate,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=depthwise_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=depthwise_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=depthwise_constraint,
            bias_constraint=bias_constraint,
            window_size=window_size,
            depth=depth,
            radix=radix,
            warm_start=warm_start,
            frequency_bias=frequency_bias,
            channel_gates=channel_gates,
            architecture_regularizer=architecture_regularizer,
            seed=seed,
            **kwargs,
        )
        self.depth_multiplier = validation.positive_integer(depth_multiplier, "depth_multiplier")

    def build(self, input_shape: Shape) -> None:
        self.groups, _ = self._split_shape(input_shape)
        self.filters = self._output_channels(self.groups)
        super().build(input_shape)

    def get_config(self) -> Config:
        config = super().get_config()
        for kind in ("initializer", "regularizer", "constraint"):
            config[f"depthwise_{kind}"] = config.pop(f"kernel_{kind}")
        return {**config, "depth_multiplier": self.depth_multiplier}

    def _output_channels(self, channels):
        return channels * self.depth_multiplier

    def _channel_groups(self, channels):
        return channels

    def _kernel_shape(self, channels):
        return (*self.kernel_size, channels, self.depth_multiplier)

    def _grouped_kernel(self):
        kernel = keras.ops.convert_to_tensor(self.kernel)
        return keras.ops.reshape(kernel, (*self.kernel_size, 1, self.filters))


class _RankedXDDepthwiseConv(XDDepthwiseConv):
    """An `XDDepthwiseConv` whose rank is that of the class."""

    def __init__(
        self,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: str = "valid",
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        activation: Activation = None,
        use_bias: bool = True,
        depthwise_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        depthwise_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        activity_regularizer: Regularizer = None,
        depthwise_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        **kwargs: Unpack[SlidingXDOptions],
    ):
        super().__init__(
            self.fixed_rank,
            kernel_size,
            strides,
            padding,
            depth_multiplier,
            data_format,
            dilation_rate,
            activation,
            use_bias,
            depthwise_initializer,
            bias_initializer,
            depthwise_regularizer,
            bias_regularizer,
            activity_regularizer,
            depthwise_constraint,
            bias_constraint,
            **kwargs,
        )

    def get_config(self) -> Config:
        config = super().get_config()
        del config["rank"]
        return config


@keras.saving.register_keras_serializable(package="keras_xd")
class XDDepthwiseConv1D(_RankedXDDepthwiseConv):
    """XD-operation on the channels of sequences, a drop-in for `keras.layers.DepthwiseConv1D`.

    Takes every argument of it with the same meaning, and the keyword arguments of
    `XDDepthwiseConv`, which has the definitions.

    Input shape:
        `(batch, steps, channels)`, or `(batch, channels, steps)` for "channels_first".

    Output shape:
        `(batch, new_steps, channels · depth_multiplier)`, or with the channels first.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.XDDepthwiseConv1D(5, depth_multiplier=2)(np.ones((2, 100, 3))).shape
    TensorShape([2, 96, 6])

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, appendix A.
    """

    fixed_rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class XDDepthwiseConv2D(_RankedXDDepthwiseConv):
    """XD-operation on the channels of images, a drop-in for `keras.layers.DepthwiseConv2D`.

    Takes every argument of it with the same meaning, and the keyword arguments of
    `XDDepthwiseConv`, which has the definitions.

    Input shape:
        `(batch, height, width, channels)`, or `(batch, channels, height, width)` for
        "channels_first".

    Output shape:
        `(batch, new_height, new_width, channels · depth_multiplier)`, or with the channels first.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.XDDepthwiseConv2D(3, strides=2, padding="same")(np.ones((2, 8, 8, 3))).shape
    TensorShape([2, 4, 4, 3])

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, appendix A.
    """

    fixed_rank = 2
