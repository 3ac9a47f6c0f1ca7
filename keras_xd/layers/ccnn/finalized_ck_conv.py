"""Depthwise convolutions with long kernels, and what continuous kernels become."""

from collections.abc import Sequence
from typing import Self, Unpack

import keras
from keras import ops

from keras_xd.core import shapes, transforms, validation
from keras_xd.core.configured import BiasedLayer, bias_of, built_like, checked_data_format
from keras_xd.core.quantization import QuantizedWeights
from keras_xd.core.type_aliases import BiasOptions, Shape, Tensor
from keras_xd.layers.fourier import fft_convolution

CONVOLUTIONS = ("auto", "direct", "fourier")
# Arguments of a `CKConv` that its finalized form has too.
SHARED = (
    *("circular", "learn_resolution", "convolution", "data_format", "activation", "use_bias"),
    *("bias_initializer", "bias_regularizer", "bias_constraint"),
)


class LongOptions(BiasOptions, total=False):
    """Keyword arguments of a `LongConvolution`."""

    learn_resolution: bool
    convolution: str
    data_format: str | None


class LongConvolution(BiasedLayer):
    """Base class of the layers that convolve each channel with a long kernel of its own."""

    def __init__(
        self,
        *,
        learn_resolution: bool = False,
        convolution: str = "auto",
        data_format: str | None = None,
        **kwargs: Unpack[BiasOptions],
    ):
        super().__init__(**kwargs)
        self.learn_resolution = validation.boolean(learn_resolution, "learn_resolution")
        self.convolution = validation.one_of(convolution, CONVOLUTIONS, "convolution")
        self.data_format = checked_data_format(data_format)

    def _split_shape(self, shape):
        """Return the number of channels and the spatial sizes."""
        return shapes.split_shape(shape, self.rank, self.data_format, self.name)

    def _takes_transforms(self, by_taps, by_transform):
        """Return whether to convolve by FFT, by the multiply–adds of both ways."""
        if self.convolution == "direct":
            return False
        if self.learn_resolution or self.convolution == "fourier":
            return True
        return fft_convolution.are_faster(by_transform, by_taps)

    def _multiply_adds(self, input_shape, taps, resolutions, reach):
        """Return the multiply–adds of one sample, by FFT or directly."""
        channels, sizes = self._split_shape(input_shape)
        by_taps, by_transform = fft_convolution.expected_multiply_adds(
            sizes, taps, self.circular, resolutions if self.learn_resolution else None, reach
        )
        transforms_are_taken = self._takes_transforms(by_taps, by_transform)
        if isinstance(transforms_are_taken, bool):
            return channels * (by_transform if transforms_are_taken else by_taps)
        return channels * ops.where(transforms_are_taken, by_transform, by_taps)

    def _convolve(self, inputs, kernel, before, masks, bins):
        """Return activation(convolution + bias); see `fft_convolution.fourier`."""
        first = self.data_format == "channels_first"
        x = ops.moveaxis(inputs, 1, -1) if first else inputs
        y = self._correlate(x, kernel, before, masks, bins)
        if self.bias is not None:
            y = y + ops.convert_to_tensor(self.bias)[: y.shape[-1]]
        y = self.activation(y)
        return ops.moveaxis(y, -1, 1) if first else y

    def _correlate(self, x, kernel, before, masks, bins):
        """Return the convolution alone, of channels last."""
        taps = tuple(kernel.shape[:-1])
        counts = fft_convolution.expected_multiply_adds(
            x.shape[1:-1], taps, self.circular, reach=fft_convolution.reaches(taps, before)
        )
        by_fourier = self._takes_transforms(*counts)
        if transforms.are_matrix_products() and not self.learn_resolution:
            # The taps themselves are cheaper than the matrices of transforms.
            by_fourier = any(not 0 <= b < k for b, k in zip(before, taps, strict=True))
        exact = "float64" if self.compute_dtype == "float64" else "float32"
        masks = None if masks is None else [ops.cast(mask, exact) for mask in masks]
        if by_fourier:
            x, kernel = ops.cast(x, exact), ops.cast(kernel, exact)
            y = fft_convolution.fourier(x, kernel, before, self.circular, masks, bins)
            y = ops.cast(y, self.compute_dtype)
        else:
            kernel = ops.cast(kernel, x.dtype)
            y = fft_convolution.direct(x, kernel, before, self.circular, masks, bins)
        return y


@keras.saving.register_keras_serializable(package="keras_xd")
class StaticCKConv(QuantizedWeights, LongConvolution):
    """Depthwise convolution with a long kernel that is stored, tap by tap.

    A `CKConv` becomes one by `finalize()`. The outputs are those of the `CKConv`.

    Args:
        kernel_size: number of taps of each axis, a tuple.
        before: number of taps before the output's point, of each axis, a tuple.
        circular: whether the inputs are continued periodically; else by zeros.
        learn_resolution: whether the frequencies are multiplied by numbers, which are stored too.
        bins: of each axis how many of the frequencies 0, 1, … are kept, or `None` for all; with
            fewer the outputs are samples at a smaller size.
        convolution: `"direct"`, `"fourier"` or `"auto"`, as in `CKConv2D`.
        data_format, activation, use_bias, bias_initializer, bias_regularizer, bias_constraint: as
            in a Keras convolution.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> searched = layers.CKConv1D(kernel_size=33)
    >>> _ = searched(np.ones((1, 64, 3)))
    >>> searched.finalize().kernel_size  # the taps under the mask
    (3,)
    """

    quantized_weights = ("kernel",)

    def __init__(
        self,
        kernel_size: tuple[int, ...],
        before: tuple[int, ...],
        circular: bool = False,
        *,
        bins: tuple[int, ...] | None = None,
        **kwargs: Unpack[LongOptions],
    ):
        super().__init__(**kwargs)
        for name, value in (("kernel_size", kernel_size), ("before", before)):
            if not isinstance(value, (tuple, list)) or not all(map(validation.is_integer, value)):
                raise ValueError(
                    f"`{name}` must be a tuple of integers. Received: {name}={value!r}"
                )
        self.kernel_size, self.before = tuple(kernel_size), tuple(before)
        self.rank = len(self.kernel_size)
        self.circular = validation.boolean(circular, "circular")
        self.bins = None if bins is None else tuple(bins)

    @classmethod
    def from_layer(
        cls,
        layer: keras.layers.Layer,
        kernel: Tensor,
        before: tuple[int, ...],
        masks: Sequence[Tensor] | None,
        bins: tuple[int, ...] | None,
    ) -> Self:
        """Make the static layer of a built `CKConv` from what its `call` computes from weights."""
        shared = {name: getattr(layer, name) for name in SHARED}
        sizes = (tuple(kernel.shape[:-1]), before)
        static = built_like(layer, cls, *sizes, bins=bins, **shared)
        static.kernel.assign(kernel)
        for weight, values in zip(static.masks, masks or (), strict=True):
            weight.assign(values)
        if layer.use_bias:
            static.bias.assign(ops.copy(layer.bias))
        return static

    def build(self, input_shape: Shape) -> None:
        channels, sizes = self._split_shape(input_shape)
        self.input_spec = shapes.input_spec(sizes, channels, self.data_format)
        self.kernel = self.add_weight(
            name="kernel", shape=(*self.kernel_size, channels), autocast=False
        )
        self.bias = bias_of(self, (channels,))
        self.masks = ()
        if self.learn_resolution:
            lengths = fft_convolution.transform_lengths(
                sizes, self.kernel_size, self.circular, scaled=True
            )
            self.masks = tuple(
                self.add_weight(
                    name=f"mask{axis}",
                    shape=(length // 2 + 1,),
                    initializer="ones",
                    trainable=False,
                    autocast=False,
                )
                for axis, length in enumerate(lengths)
            )
        self.finish_quantized_build()

    def call(self, inputs: Tensor) -> Tensor:
        return self._convolve(
            inputs, self._read_kernel(), self.before, self.masks or None, self.bins
        )

    def correlate(self, inputs: Tensor) -> Tensor:
        """Return the convolution of `(batch, *spatial, channels)` without bias and activation.

        Channels beyond those of the layer become zeros.
        """
        kernel = self._read_kernel()
        others = inputs.shape[-1] - kernel.shape[-1]
        if others:
            kernel = ops.pad(kernel, [(0, 0)] * self.rank + [(0, others)])
        return self._correlate(inputs, kernel, self.before, self.masks or None, self.bins)

    def _read_kernel(self):
        return self.stored(self.kernel, "float64" if self.compute_dtype == "float64" else "float32")

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        channels, sizes = self._split_shape(input_shape)
        if self.bins is not None:
            sizes = fft_convolution.output_sizes(sizes, self.bins, self.circular)
        return shapes.joined_shape(input_shape[0], sizes, channels, self.data_format)

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample, counted as `CKConv2D.complexity` does."""
        _, sizes = self._split_shape(self.compute_output_shape(input_shape))
        reach = fft_convolution.reaches(self.kernel_size, self.before)
        return self._multiply_adds(input_shape, self.kernel_size, sizes, reach)
