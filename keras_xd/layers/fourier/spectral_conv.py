"""Spectral convolutions: the layer of the Fourier neural operator."""

import math
from typing import Unpack

import keras
from keras import ops

from keras_xd.core import devices, transforms, validation
from keras_xd.core.configured import BiasedLayer, bias_of, checked_data_format
from keras_xd.core.quantization import QuantizedWeights
from keras_xd.core.type_aliases import (
    Constraint,
    Initializer,
    KernelOptions,
    LinearOptions,
    Regularizer,
    Shape,
    Sizes,
    Tensor,
)

# So many modes are transformed in less time by matrix products than by an FFT on a CPU.
_FEW_MODES = 32


@keras.saving.register_keras_serializable(package="keras_xd")
class SpectralUniform(keras.initializers.Initializer):
    """Uniform numbers between 0 and 1 / (input channels · filters), as in the published FNO."""

    def __init__(self, seed=None):
        self.seed = validation.seed(seed)
        self.uniform = keras.initializers.RandomUniform(0.0, 1.0, seed=seed)

    def __call__(self, shape, dtype=None):
        return self.uniform(shape, dtype=dtype) / (shape[-2] * shape[-1])

    def get_config(self):
        return {"seed": self.seed}


@keras.saving.register_keras_serializable(package="keras_xd")
class SpectralConv(BiasedLayer, QuantizedWeights):
    """N-dimensional spectral convolution (the Fourier neural operator's layer).

    Transforms the input by a real FFT over the spatial axes, keeps the lowest frequencies, mixes
    the channels of each by a complex matrix of its own, sets all other frequencies to zero and
    transforms back. It is a circular convolution with a kernel as large as the input whose
    spectrum is limited to `modes`. The weights do not depend on the spatial size: one layer works
    at every resolution that holds its modes, and the size may be unknown (`None`).

    Nothing in it is searched: it is the baseline and building block that XD-operations, which
    express it exactly, are compared with.

    `kernel` has the shape `(2, *frequencies, channels, filters)`: real and imaginary parts, then
    the kept frequencies of each axis. Every axis but the last keeps `2 * mode` of them, in the
    order `0 … mode - 1, -mode … -1`; the last axis, whose spectrum is halved, keeps `0 … mode - 1`.

    The transforms and the products are computed in float32 where the compute type is shorter,
    because no FFT exists for it. On CPUs up to 32 modes of known sizes are transformed by products
    with the matrices of these frequencies, which takes less time than an FFT. So are all modes in
    ONNX, OpenVINO and LiteRT files, which have no FFT.

    With `tucker_rank` the kernel is a Tucker decomposition: a smaller complex `core`, which
    `kernel_initializer`, `kernel_regularizer` and `kernel_constraint` are for, times a complex
    matrix on each of its axes, `factors`, which begin orthogonal. It is multiplied out in each
    call. The ranks are the same share of each axis.

    Args:
        rank: number of spatial axes (1 to 3).
        filters: number of output channels.
        modes: how many frequencies to keep, one number or one for each spatial axis.
        tucker_rank: how many weights the factorised kernel has, as a share in (0, 1] of those of
            the whole one; `None` does not factorise.
        kernel_initializer, kernel_regularizer, kernel_constraint: of the complex weights' parts;
            `SpectralUniform` by default.
        data_format, activation, use_bias, bias_initializer, bias_regularizer, bias_constraint: as
            in a Keras convolution.

    Input shape:
        `(batch, *spatial, channels)`, or `(batch, channels, *spatial)` with `"channels_first"`.

    Example:

    ```python
    import numpy as np
    from keras_xd import layers

    layer = layers.SpectralConv(rank=2, filters=4, modes=(3, 5))
    coarse = layer(np.zeros((1, 16, 16, 2)))
    fine = layer(np.zeros((1, 61, 64, 2)))  # same weights
    ```

    Reference:
        Li et al., "Fourier neural operator for parametric partial differential equations",
        ICLR 2021.
    """

    quantized_weights = ("kernel",)

    def __init__(
        self,
        rank: int,
        filters: int,
        modes: Sizes,
        *,
        data_format: str | None = None,
        use_bias: bool = False,
        kernel_initializer: Initializer = "keras_xd>SpectralUniform",
        kernel_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        tucker_rank: float | None = None,
        **kwargs: Unpack[LinearOptions],
    ):
        super().__init__(use_bias=use_bias, **kwargs)
        self.rank = validation.one_of(rank, (1, 2, 3), "rank")
        self.filters = validation.positive_integer(filters, "filters")
        self.modes = validation.integer_tuple(modes, rank, "modes")
        self.data_format = checked_data_format(data_format)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.tucker_rank = tucker_rank
        if tucker_rank is not None:
            self.tucker_rank = validation.number_within(tucker_rank, "(]", 0, 1, "tucker_rank")
            self.quantized_weights = ("core", "factors")
        self.input_spec = keras.layers.InputSpec(ndim=self.rank + 2)

    def build(self, input_shape: Shape) -> None:
        channels = input_shape[self._channel_axis]
        if channels is None:
            raise ValueError(
                "The number of input channels must be known. "
                f"Received: input_shape={tuple(input_shape)}"
            )
        self._check_sizes(input_shape)
        frequencies = (*(2 * mode for mode in self.modes[:-1]), self.modes[-1])
        sizes = (*frequencies, channels, self.filters)
        factorized = self.tucker_rank is not None
        ranks = tucker_ranks(sizes, self.tucker_rank) if factorized else sizes
        weight = self.add_weight(
            name="core" if factorized else "kernel",
            shape=(2, *ranks),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            autocast=False,
        )
        if factorized:
            self.core, self.factors = weight, self._add_factors(sizes, ranks)
        else:
            self.kernel = weight
        self.bias = bias_of(self, (self.filters,))
        self.input_spec = keras.layers.InputSpec(
            ndim=self.rank + 2, axes={self._channel_axis: channels}
        )
        self.finish_quantized_build()

    def _add_factors(self, sizes, ranks):
        """Return the weights of a Tucker decomposition behind its core."""
        return tuple(
            self.add_weight(
                name=f"factor{axis}", shape=(2, *shape), initializer="orthogonal", autocast=False
            )
            for axis, shape in enumerate(zip(sizes, ranks, strict=True), start=1)
        )

    def _whole_kernel(self, dtype):
        """Return the kernel as a tensor, multiplied out if it is factorised."""
        if self.tucker_rank is None:
            return self.stored(self.kernel, dtype)
        factors = [self.stored(factor, dtype) for factor in self.factors]
        return tucker_product(self.stored(self.core, dtype), factors)

    @property
    def _channel_axis(self):
        return self.rank + 1 if self.data_format == "channels_last" else 1

    @property
    def _spatial_axes(self):
        first = 1 if self.data_format == "channels_last" else 2
        return tuple(range(first, first + self.rank))

    def _check_sizes(self, shape):
        """Raise `ValueError` where a known spatial size has too few frequencies."""
        sizes = [shape[axis] for axis in self._spatial_axes]
        # An unknown size is `None`, or a symbol of JAX.
        sizes = [size if isinstance(size, int) else None for size in sizes]
        largest = [*(size and size // 2 for size in sizes[:-1]), sizes[-1] and sizes[-1] // 2 + 1]
        if any(n is not None and mode > n for mode, n in zip(self.modes, largest, strict=True)):
            raise ValueError(
                "`modes` must not exceed the spectrum: size // 2 on each spatial axis but the "
                "last, size // 2 + 1 on the last. "
                f"Received: modes={self.modes}, input_shape={tuple(shape)}"
            )

    def call(self, inputs: Tensor) -> Tensor:
        self._check_sizes(inputs.shape)
        shape = ops.shape(inputs)
        sizes = [shape[axis] for axis in self._spatial_axes]
        exact = "float64" if self.compute_dtype == "float64" else "float32"
        if are_products_faster(sizes, self.modes):
            convolve = convolve_by_products
            order = (0, *self._spatial_axes, self._channel_axis)
        else:
            # The order (other spatial axes, batch, channels, last spatial axis) needs one large
            # transpose on each side; everything between works on the few kept frequencies.
            convolve = convolve_by_transforms
            order = (*self._spatial_axes[:-1], 0, self._channel_axis, self._spatial_axes[-1])
        outputs = ops.transpose(ops.cast(inputs, exact), order)
        outputs = convolve(outputs, self._whole_kernel(exact), sizes, self.modes)
        outputs = ops.cast(outputs, self.compute_dtype)
        outputs = ops.transpose(outputs, [order.index(axis) for axis in range(self.rank + 2)])
        if self.bias is not None:
            bias_shape = [1] * (self.rank + 2)
            bias_shape[self._channel_axis] = self.filters
            outputs = outputs + ops.reshape(self.bias, bias_shape)
        return self.activation(outputs)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        output_shape = list(input_shape)
        output_shape[self._channel_axis] = self.filters
        return tuple(output_shape)

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample.

        Those by FFT, however it is computed, so that the count is that of every device: a real
        transform of length `P` counts `P log2 P` and a complex one twice that, over the frequencies
        that are kept; the product of the channels counts four for each weight's pair. Multiplying
        out a factorised kernel, which no sample needs of its own, does not count.
        """
        sizes = [input_shape[axis] for axis in self._spatial_axes]
        kept = [2 * mode for mode in self.modes[:-1]] + [self.modes[-1]]
        transforms = 0
        for axis, size in enumerate(sizes):
            vectors = math.prod(sizes[:axis]) * math.prod(kept[axis + 1 :])
            real = axis == self.rank - 1
            transforms += (1 if real else 2) * vectors * size * math.log2(size)
        channels = input_shape[self._channel_axis]
        products = 4 * math.prod(kept) * channels * self.filters
        return round(transforms * (channels + self.filters)) + products


class _RankedSpectralConv(SpectralConv):
    """A `SpectralConv` whose rank is that of the class."""

    fixed = ("rank",)

    def __init__(self, filters: int, modes: Sizes, **kwargs: Unpack[KernelOptions]):
        super().__init__(self.fixed_rank, filters, modes, **kwargs)


@keras.saving.register_keras_serializable(package="keras_xd")
class SpectralConv1D(_RankedSpectralConv):
    """As `SpectralConv`, over one spatial axis."""

    fixed_rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class SpectralConv2D(_RankedSpectralConv):
    """As `SpectralConv`, over two spatial axes."""

    fixed_rank = 2


@keras.saving.register_keras_serializable(package="keras_xd")
class SpectralConv3D(_RankedSpectralConv):
    """As `SpectralConv`, over three spatial axes."""

    fixed_rank = 3


def tucker_ranks(sizes, share):
    """Return the ranks, in proportion to the sizes, with so large a share of a tensor's numbers."""

    def excess(scale):
        core = math.prod(scale * size for size in sizes)
        return core + sum(scale * size**2 for size in sizes) - share * math.prod(sizes)

    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return tuple(max(round(low * size), 1) for size in sizes)


def tucker_product(core, factors):
    """Return the tensor of a Tucker decomposition; all have a first axis of two complex parts."""
    tensor = ops.moveaxis(core, 0, -1)
    for factor in factors:
        real, imaginary = factor[0], factor[1]
        parts = [ops.stack([real, -imaginary]), ops.stack([imaginary, real])]
        matrix = ops.stack(parts, axis=-1)  # (part, size, rank, part of the product)
        # The first axis goes, and comes back behind the others.
        tensor = ops.tensordot(tensor, matrix, axes=[[len(factors), 0], [0, 2]])
    return ops.moveaxis(tensor, -1, 0)


def are_products_faster(sizes, modes):
    """Return whether products with matrices take less time than FFTs, or a format has no FFT.

    On CPUs 12 of 64 × 64 points take 1.3 to 3.4 times as long by FFT, forward and backward (JAX,
    TensorFlow, torch), 16 of 256 about 1.3, 32 of 64 × 64 from 0.8 to 1.5; for 128 of 8192 points
    products take twice as long.
    """
    if transforms.are_matrix_products():
        return True
    known = all(isinstance(size, int) for size in sizes)
    return known and max(modes) <= _FEW_MODES and not devices.has_accelerator()


def convolve_by_products(inputs, kernel, sizes, modes):
    """Return the spectral convolution of `(batch, *sizes, channels)` by real matrix products.

    Matrices are multiplied from the left, so that nothing large is transposed. The two parts of
    complex numbers are an axis behind those of the batch and of the points not transformed yet.
    """
    *_, channels, filters = kernel.shape
    counts = (*(2 * mode for mode in modes[:-1]), modes[-1])
    lengths = (*(2 * size for size in sizes[:-1]), sizes[-1])
    there, back = transforms.lowest_matrices(sizes, modes, kernel.dtype)
    outputs, columns = inputs, channels
    for matrix, length, count in zip(there[::-1], lengths[::-1], counts[::-1], strict=True):
        outputs = ops.matmul(matrix, ops.reshape(outputs, (-1, length, columns)))
        columns *= count
    frequencies = math.prod(counts)
    outputs = ops.transpose(ops.reshape(outputs, (-1, 2, frequencies, channels)), (2, 0, 1, 3))
    outputs = ops.transpose(mix_channels(outputs, kernel), (1, 2, 0, 3))
    columns = frequencies * filters
    for matrix, count in zip(back, counts, strict=True):
        columns //= count
        outputs = ops.matmul(matrix, ops.reshape(outputs, (-1, 2 * count, columns)))
    return ops.reshape(outputs, (-1, *sizes, filters))


def convolve_by_transforms(inputs, kernel, sizes, modes):
    """Return the spectral convolution of `(*sizes[:-1], batch, channels, sizes[-1])` by FFTs."""
    counts = kernel.shape[1:-2]
    spectrum = mix_channels(ops.stack(truncated_spectrum(inputs, modes), axis=-2), kernel)
    parts = (ops.reshape(spectrum[:, :, part], (*counts, -1, kernel.shape[-1])) for part in (0, 1))
    return inverse_truncated_spectrum(parts, modes, sizes)


def truncated_spectrum(inputs, modes):
    """Return the lowest frequencies of a real array, as a (real, imaginary) pair."""
    real, imaginary = transforms.rfft(inputs, kept=modes[-1])
    # Each axis is cut as soon as it is transformed, so that the next transform has less to do.
    for axis in reversed(range(len(modes) - 1)):
        parts = tuple(ops.swapaxes(part, axis, -1) for part in (real, imaginary))
        real, imaginary = transforms.lowest(parts, modes[axis])
    return ops.moveaxis(real, -1, 0), ops.moveaxis(imaginary, -1, 0)


def mix_channels(spectrum, kernel):
    """Multiply the channels at each frequency, `(frequencies, batch, 2, channels)`, by its matrix.

    Both parts are rows of one real product with `[R, I]`, in which each weight stands once.
    """
    *counts, channels, filters = kernel.shape[1:]
    frequencies = math.prod(counts)
    matrices = ops.reshape(kernel, (2, frequencies, channels, filters))
    matrices = ops.transpose(matrices, (1, 2, 0, 3))
    matrices = ops.reshape(matrices, (frequencies, channels, 2 * filters))
    products = ops.matmul(ops.reshape(spectrum, (frequencies, -1, channels)), matrices)
    products = ops.reshape(products, (frequencies, -1, 2, 2, filters))
    real = products[:, :, 0, 0] - products[:, :, 1, 1]
    imaginary = products[:, :, 0, 1] + products[:, :, 1, 0]
    return ops.stack([real, imaginary], axis=2)


def inverse_truncated_spectrum(spectrum, modes, sizes):
    """Return the real array whose lowest frequencies are given and whose others are zero."""
    real, imaginary = (ops.moveaxis(part, 0, -1) for part in spectrum)
    for axis, (mode, size) in enumerate(zip(modes[:-1], sizes[:-1], strict=True)):
        parts = transforms.inverse_of_lowest((real, imaginary), mode, size)
        real, imaginary = (ops.swapaxes(part, axis, -1) for part in parts)
    return transforms.irfft((real, imaginary), fft_length=sizes[-1])
