"""Convolutions with kernels that a layer makes of each sample."""

import itertools
import math
from typing import Unpack

import keras
from keras import ops

from keras_xd.core import shapes, validation, window_padding
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.type_aliases import LayerOptions, Shape, Tensor

WAYS = ("fold", "slices")
# Of the normalisations that the searches of cells use.
MOMENTUM, EPSILON = 0.9, 1e-5
# Kernels at least so large get their gradients by a convolution: see `_convolved_alone`.
LARGE_KERNEL = 5


def dynamic_depthwise_conv(x, kernels, strides: int = 1, way: str | None = None):
    """Return the convolution of every channel of every sample with a kernel of its own."""
    if way is None:
        way = "slices" if keras.backend.backend() == "jax" else "fold"
    compute = {"fold": _fold, "slices": _slices}[validation.one_of(way, WAYS, "way")]
    return compute(x, kernels, strides)


def _fold(x, kernels, strides):
    size, (height, width, channels) = kernels.shape[1], x.shape[1:]
    image = ops.reshape(ops.transpose(x, (1, 2, 0, 3)), (1, height, width, -1))
    kernel = ops.reshape(ops.transpose(kernels, (1, 2, 0, 3)), (size, size, -1, 1))
    if size >= LARGE_KERNEL and strides == 1:
        image = _convolved_alone(image, kernel)
    else:
        image = ops.depthwise_conv(image, kernel, strides, "same", "channels_last")
    image = ops.reshape(image, (*image.shape[1:3], -1, channels))
    return ops.transpose(image, (2, 0, 1, 3))


@ops.custom_gradient
def _convolved_alone(image, kernel):
    """Return the depthwise convolution of one image, whose derivatives are convolutions too."""
    size, sizes = kernel.shape[0], image.shape[1:3]

    def gradient(*arguments, upstream=None):
        upstream = arguments[0] if upstream is None else upstream
        turned = ops.flip(kernel, axis=(0, 1))
        of_image = ops.depthwise_conv(upstream, turned, 1, "same", "channels_last")
        extended = window_padding.extended(image, same_border(sizes, size, 1))
        upstream = ops.reshape(upstream, (*sizes, -1, 1))
        of_kernel = ops.depthwise_conv(extended, upstream, 1, "valid", "channels_last")
        return of_image, ops.reshape(of_kernel, (size, size, -1, 1))

    return ops.depthwise_conv(image, kernel, 1, "same", "channels_last"), gradient


def _slices(x, kernels, strides):
    size = kernels.shape[1]
    outputs = [-(-length // strides) for length in x.shape[1:-1]]
    x = window_padding.extended(x, same_border(x.shape[1:-1], size, strides))
    total = 0
    for start in itertools.product(range(size), repeat=2):
        places = (
            slice(first, first + strides * (length - 1) + 1, strides)
            for first, length in zip(start, outputs, strict=True)
        )
        row, column = start
        tap = kernels[:, row : row + 1, column : column + 1]
        total = total + x[(slice(None), *places)] * tap
    return total


def same_border(sizes, span: int, strides: int):
    """Return how far `padding="same"` extends each axis for windows of a span."""
    return window_padding.borders(
        tuple(sizes), (span,) * len(sizes), (span,) * len(sizes), (strides,) * len(sizes), "same"
    )


def widened(kernels, size: int):
    """Return kernels, `(batch, k, k, channels)`, with zeros up to a size."""
    margin = (size - kernels.shape[1]) // 2
    if not margin:
        return kernels
    return ops.pad(kernels, [(0, 0), (margin, margin), (margin, margin), (0, 0)])


def spread(kernels, rate: int):
    """Return kernels, `(batch, k, k, channels)`, with zeros between their taps."""
    if rate == 1:
        return kernels
    size, channels = kernels.shape[1], kernels.shape[-1]
    kernels = ops.reshape(kernels, (-1, size, 1, size, 1, channels))
    margin = (0, rate - 1)
    kernels = ops.pad(kernels, [(0, 0), (0, 0), margin, (0, 0), margin, (0, 0)])
    span = (size - 1) * rate + 1
    return ops.reshape(kernels, (-1, size * rate, size * rate, channels))[:, :span, :span]


@keras.saving.register_keras_serializable(package="keras_xd")
class DynamicKernel(ConfiguredLayer):
    """Makes a depthwise kernel of each sample of a batch of images.

    context[c, t] = Σ_p (B x)[p, c] · softmax_p((T x)[p, t])
    kernel[t, c] = softmax_t((E context)[t, c])

    A dilated kernel has zeros between its taps.
    """

    def __init__(
        self,
        kernel_size: int = 3,
        reduction: int = 8,
        affine: bool = True,
        dilation_rate: int = 1,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**kwargs)
        self.kernel_size = odd_size(kernel_size)
        self.dilation_rate = validation.positive_integer(dilation_rate, "dilation_rate")
        self.reduction = validation.positive_integer(reduction, "reduction")
        self.affine = validation.boolean(affine, "affine")

    def build(self, input_shape: Shape) -> None:
        channels = image_channels(input_shape, self.name)
        inner = max(channels // self.reduction, 1)
        shape = tuple(input_shape)
        self.bottleneck = convolution(inner, "bottleneck", self.dtype_policy)
        self.normalization = batch_normalization(self.affine, "normalization", self.dtype_policy)
        self.transform = convolution(self.kernel_size**2, "transform", self.dtype_policy)
        self.decode = convolution(channels, "decode", self.dtype_policy)
        self.bottleneck.build(shape)
        self.normalization.build((*shape[:-1], inner))
        self.transform.build(shape)
        self.decode.build((None, self.kernel_size, self.kernel_size, inner))

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        places, taps = math.prod(inputs.shape[1:-1]), self.kernel_size**2
        x = ops.relu(self.normalization(self.bottleneck(inputs), training=training))
        x = ops.reshape(x, (-1, places, x.shape[-1]))
        mask = ops.softmax(ops.reshape(self.transform(inputs), (-1, places, taps)), axis=1)
        context = ops.matmul(ops.transpose(mask, (0, 2, 1)), x)
        sides = (-1, self.kernel_size, self.kernel_size)
        kernel = self.decode(ops.reshape(context, (*sides, x.shape[-1])))
        kernel = ops.softmax(ops.reshape(kernel, (-1, taps, inputs.shape[-1])), axis=1)
        return spread(ops.reshape(kernel, (*sides, inputs.shape[-1])), self.dilation_rate)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        channels = image_channels(input_shape, self.name)
        span = (self.kernel_size - 1) * self.dilation_rate + 1
        return (input_shape[0], span, span, channels)

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample, without those of the convolution."""
        channels = image_channels(input_shape, self.name)
        inner, taps = max(channels // self.reduction, 1), self.kernel_size**2
        places = math.prod(input_shape[1:-1])
        return places * (channels * (inner + taps) + inner * taps) + taps * inner * channels


@keras.saving.register_keras_serializable(package="keras_xd")
class DynamicConv2D(ConfiguredLayer):
    """Depthwise convolution of each image with a `DynamicKernel`, made of the image itself.

    Of inputs `(batch, height, width, channels)`, outputs with both sizes divided by `strides` and
    rounded up ("Neural Operator Search", section 3.1 and table 1).
    """

    def __init__(
        self,
        kernel_size: int = 3,
        strides: int = 1,
        reduction: int = 8,
        affine: bool = True,
        dilation_rate: int = 1,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**kwargs)
        self.strides = validation.positive_integer(strides, "strides")
        self.dynamic_kernel = DynamicKernel(
            kernel_size,
            reduction,
            affine,
            dilation_rate,
            name="dynamic_kernel",
            dtype=self.dtype_policy,
        )
        self.dilation_rate = self.dynamic_kernel.dilation_rate
        self.kernel_size = self.dynamic_kernel.kernel_size
        self.reduction = self.dynamic_kernel.reduction
        self.affine = validation.boolean(affine, "affine")

    def build(self, input_shape: Shape) -> None:
        self.dynamic_kernel.build(input_shape)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        kernels = self.dynamic_kernel(inputs, training=training)
        return dynamic_depthwise_conv(inputs, kernels, self.strides)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        channels = image_channels(input_shape, self.name)
        return (input_shape[0], *(-(-n // self.strides) for n in input_shape[1:3]), channels)

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample."""
        outputs = math.prod(self.compute_output_shape(input_shape)[1:])
        return self.dynamic_kernel.multiply_adds(input_shape) + outputs * self.kernel_size**2


def convolution(
    filters: int, name: str, dtype, strides: int = 1, kernel_size: int = 1
) -> keras.layers.Conv2D:
    """Return a convolution without bias, channels last, of 1 × 1 taps by default."""
    common = {"use_bias": False, "data_format": "channels_last", "name": name, "dtype": dtype}
    return keras.layers.Conv2D(filters, kernel_size, strides, "same", **common)


def batch_normalization(affine: bool, name: str, dtype) -> keras.layers.BatchNormalization:
    """Return a normalisation with the constants of the searches of cells."""
    return keras.layers.BatchNormalization(
        momentum=MOMENTUM,
        epsilon=EPSILON,
        center=affine,
        scale=affine,
        name=name,
        dtype=dtype,
    )


def odd_size(value, name: str = "kernel_size") -> int:
    """Return an odd integer of at least 1, or raise `ValueError`."""
    if validation.positive_integer(value, name) % 2 == 0:
        raise ValueError(f"`{name}` must be odd. Received: {name}={value!r}")
    return int(value)


def image_channels(input_shape, name: str) -> int:
    """Return the number of channels of a batch of images, or raise `ValueError`."""
    return shapes.split_shape(input_shape, 2, "channels_last", name)[0]
