"""Convolutions and dense layers of Keras with learned numbers of channels and taps."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd.core.convolutions import convolution
from keras_xd.core.type_aliases import Config, Tensor
from keras_xd.layers.masked.base import MaskedLayer


class _MaskedConvolution(MaskedLayer):
    """What plain and depthwise convolutions have in common."""

    def call(self, inputs: Tensor) -> Tensor:
        padding = self.padding
        if padding == "causal":
            before = self.dilation_rate[0] * (self.kernel_size[0] - 1)
            widths = [[0, 0], [before, 0], [0, 0]]
            if self.data_format == "channels_first":
                widths = [[0, 0], [0, 0], [before, 0]]
            inputs, padding = ops.pad(inputs, widths), "valid"
        outputs = self.convolve(
            inputs,
            self.masked_kernel,
            strides=self.strides,
            padding=padding,
            data_format=self.data_format,
            dilation_rate=self.dilation_rate,
        )
        if self.bias is not None:
            shape = [1] * (self.rank + 2)
            shape[self.channel_axis] = -1
            outputs = outputs + ops.reshape(self.bias, shape)
        return outputs if self.activation is None else self.activation(outputs)

    def convolve(self, inputs: Tensor, kernel: Tensor, **options: Any) -> Tensor:
        """Return the convolution of inputs and a kernel."""
        return convolution(inputs, kernel, **options)


class _MaskedDepthwise(_MaskedConvolution):
    """A depthwise convolution, whose input channels are its output channels."""

    def convolve(self, inputs: Tensor, kernel: Tensor, **options: Any) -> Tensor:
        """Return the depthwise convolution of inputs and a kernel."""
        return ops.depthwise_conv(inputs, kernel, **options)

    def count(self, channels: float | Tensor, filters: float | Tensor) -> float | Tensor:
        """Return the multiply–adds of one tap at one place."""
        return filters

    def cut_channels(
        self,
        kernel: np.ndarray,
        inputs: Sequence[int] | np.ndarray | None,
        outputs: Sequence[int] | np.ndarray | None,
    ) -> np.ndarray:
        """Return a kernel for some of the channels."""
        return kernel if outputs is None else kernel[..., outputs, :]

    def sizes_of(self, kernel: np.ndarray) -> Config:
        """Return nothing: the number of channels is that of the inputs."""
        return {}


@keras.saving.register_keras_serializable(package="keras_xd")
class MaskedConv1D(_MaskedConvolution, keras.layers.Conv1D):
    """A `keras.layers.Conv1D` whose kernel size and numbers of channels are learned.

    It begins as the convolution of the same arguments and weights. A kernel with padding "causal"
    is masked from its oldest tap on, others from both ends.

    Args:
        *args: as in `keras.layers.Conv1D`.
        **kwargs: as in `keras.layers.Conv1D` and `MaskedLayer`: `mask_kernel`, `input_width`,
            `output_width`, `depth_mask`, `block`, `initial_value`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.MaskedConv1D(2, 5, padding="same", mask_kernel=True)
    >>> _ = layer(np.ones((1, 8, 3)))
    >>> _ = layer.kernel_mask.length.assign([0.25])
    >>> layer.finalize().kernel_size, round(float(layer.complexity((1, 8, 3))), 1)
    ((3,), 144.0)
    """

    keras_class = keras.layers.Conv1D


@keras.saving.register_keras_serializable(package="keras_xd")
class MaskedConv2D(_MaskedConvolution, keras.layers.Conv2D):
    """As `MaskedConv1D`, over two spatial axes."""

    keras_class = keras.layers.Conv2D


@keras.saving.register_keras_serializable(package="keras_xd")
class MaskedDepthwiseConv1D(_MaskedDepthwise, keras.layers.DepthwiseConv1D):
    """As `MaskedConv1D`, of `DepthwiseConv1D`; its channels' mask is `output_width`."""

    keras_class = keras.layers.DepthwiseConv1D


@keras.saving.register_keras_serializable(package="keras_xd")
class MaskedDepthwiseConv2D(_MaskedDepthwise, keras.layers.DepthwiseConv2D):
    """As `MaskedDepthwiseConv1D`, over two spatial axes."""

    keras_class = keras.layers.DepthwiseConv2D


@keras.saving.register_keras_serializable(package="keras_xd")
class MaskedDense(MaskedLayer, keras.layers.Dense):
    """A `keras.layers.Dense` whose numbers of inputs and units are learned.

    Args:
        *args: as in `keras.layers.Dense`.
        **kwargs: as in `keras.layers.Dense` and `MaskedLayer`: `input_width`, `output_width`,
            `depth_mask`, `block`.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> model = keras.Sequential(
    ...     [keras.Input((5,)), keras.layers.Dense(8), keras.layers.Dense(2)]
    ... )
    >>> space = keras_xd.rewrite(model, to="masked")
    >>> [type(layer).__name__ for layer in space.layers]
    ['MaskedDense', 'MaskedDense']
    """

    keras_class = keras.layers.Dense

    def call(self, inputs: Tensor) -> Tensor:
        outputs = ops.matmul(inputs, self.masked_kernel)
        if self.bias is not None:
            outputs = outputs + self.bias
        return outputs if self.activation is None else self.activation(outputs)

    def sizes_of(self, kernel: np.ndarray) -> Config:
        """Return the number of units."""
        return {"units": kernel.shape[-1]}
