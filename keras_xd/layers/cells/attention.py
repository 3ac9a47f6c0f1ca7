"""Attention maps of images, over channels or over places, to multiply features with."""

import math
from typing import Unpack

import keras
from keras import ops

from keras_xd.core import validation
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.type_aliases import LayerOptions, Shape, Tensor
from keras_xd.layers.cells.dynamic_conv import batch_normalization, convolution, image_channels


@keras.saving.register_keras_serializable(package="keras_xd")
class ChannelAttention(ConfiguredLayer):
    """A factor in (0, 1) for each channel of each image: `sigmoid(V relu(W mean(x)))`.

    Of inputs `(batch, height, width, channels)`, outputs `(batch, 1, 1, channels)`; `W` maps to
    `channels // reduction` ("Neural Operator Search", appendix A.1.1; squeeze and excitation).
    """

    def __init__(self, reduction: int = 16, **kwargs: Unpack[LayerOptions]):
        super().__init__(**kwargs)
        self.reduction = validation.positive_integer(reduction, "reduction")

    def build(self, input_shape: Shape) -> None:
        channels = image_channels(input_shape, self.name)
        inner = max(channels // self.reduction, 1)
        self.squeeze = convolution(inner, "squeeze", self.dtype_policy)
        self.excite = convolution(channels, "excite", self.dtype_policy)
        self.squeeze.build((None, 1, 1, channels))
        self.excite.build((None, 1, 1, inner))

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        means = ops.mean(inputs, axis=(1, 2), keepdims=True)
        return ops.sigmoid(self.excite(ops.relu(self.squeeze(means))))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (input_shape[0], 1, 1, image_channels(input_shape, self.name))

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample; the multiplication by features is not counted."""
        channels = image_channels(input_shape, self.name)
        return 2 * channels * max(channels // self.reduction, 1)


@keras.saving.register_keras_serializable(package="keras_xd")
class SpatialAttention(ConfiguredLayer):
    """A factor in (0, 1) for each place of each image: two convolutions, a sigmoid.

    Of inputs `(batch, height, width, channels)`, outputs `(batch, height / strides, …, 1)`, rounded
    up ("Neural Operator Search", appendix A.1.1).
    """

    def __init__(
        self,
        strides: int = 1,
        reduction: int = 16,
        affine: bool = True,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**kwargs)
        self.strides = validation.positive_integer(strides, "strides")
        self.reduction = validation.positive_integer(reduction, "reduction")
        self.affine = validation.boolean(affine, "affine")

    def build(self, input_shape: Shape) -> None:
        channels = image_channels(input_shape, self.name)
        inner = max(channels // self.reduction, 1)
        places = self.compute_output_shape(input_shape)[:-1]
        self.squeeze = convolution(inner, "squeeze", self.dtype_policy, self.strides)
        self.normalization = batch_normalization(self.affine, "normalization", self.dtype_policy)
        self.score = convolution(1, "score", self.dtype_policy, kernel_size=3)
        self.squeeze.build(input_shape)
        self.normalization.build((*places, inner))
        self.score.build((*places, inner))

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        x = ops.relu(self.normalization(self.squeeze(inputs), training=training))
        return ops.sigmoid(self.score(x))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        image_channels(input_shape, self.name)
        return (input_shape[0], *(-(-n // self.strides) for n in input_shape[1:3]), 1)

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample; the multiplication by features is not counted."""
        channels = image_channels(input_shape, self.name)
        places = math.prod(self.compute_output_shape(input_shape)[1:])
        return places * max(channels // self.reduction, 1) * (channels + 9)
