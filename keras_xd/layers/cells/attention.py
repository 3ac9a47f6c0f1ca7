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
    """A factor between 0 and 1 for each channel of each image, from the means of all channels.

    `sigmoid(V relu(W mean(x)))` with matrices `W` to a part of the channels and `V` back, without
    biases. Multiply features with the outputs; adding the features, `x + x · attention(x)`, is the
    paper's way, which `SelfCalibration` has with a gate and without.

    Args:
        reduction: the inner layer has the number of channels divided by this, one at least.

    Output shape:
        `(batch, 1, 1, channels)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> features = np.ones((2, 8, 8, 32))
    >>> layer = layers.ChannelAttention()
    >>> (features + features * layer(features)).shape, layer.count_params()
    (TensorShape([2, 8, 8, 32]), 128)

    Reference:
        "Neural Operator Search", 2020, appendix A.1.1; Hu et al., "Squeeze-and-Excitation
        Networks", 2018.
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
    """A factor between 0 and 1 for each place of each image, from the channels around it.

    A 1 × 1 convolution to a part of the channels, which takes the strides, normalisation,
    rectification, a 3 × 3 convolution to one channel and a sigmoid; without biases.

    Args:
        strides: integer; attention for every so many-th place.
        reduction: the inner layer has the number of channels divided by this, one at least.
        affine: whether the normalisation has a scale and an offset that are learned.

    Output shape:
        `(batch, height / strides, width / strides, 1)`, rounded up.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.SpatialAttention(strides=2)(np.ones((2, 8, 8, 32))).shape
    TensorShape([2, 4, 4, 1])

    Reference:
        "Neural Operator Search", 2020, appendix A.1.1.
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
