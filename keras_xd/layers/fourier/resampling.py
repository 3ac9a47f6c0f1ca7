"""Band-limited resampling: the same function on a grid of another size."""

from typing import Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core import shapes, transforms, validation
from keras_xd.core.configured import ConfiguredLayer, checked_data_format
from keras_xd.core.type_aliases import LayerOptions, Shape, Sizes, Tensor


class GridLayer(ConfiguredLayer):
    """Base class of layers whose outputs have fixed spatial sizes."""

    def __init__(
        self, sizes: Sizes, data_format: str | None = None, **kwargs: Unpack[LayerOptions]
    ):
        super().__init__(**kwargs)
        self.sizes = grid_sizes(sizes)
        self.data_format = checked_data_format(data_format)

    def sizes_of(self, shape: Shape) -> tuple[int, ...]:
        """Return the spatial sizes of inputs, or raise `ValueError`."""
        return shapes.split_shape(shape, len(self.sizes), self.data_format, self.name)[1]

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        channels = input_shape[-1 if self.data_format == "channels_last" else 1]
        return shapes.joined_shape(input_shape[0], self.sizes, channels, self.data_format)


@keras.saving.register_keras_serializable(package="keras_xd")
class FourierResampling(GridLayer):
    """Samples the trigonometric interpolant of periodic data on a grid of other sizes.

    Along every axis the frequencies that both grids can hold keep their amplitudes: to a finer grid
    the missing ones are zero, to a coarser one those that do not fit are dropped. So a function
    whose frequencies are below half of both sizes is sampled exactly, and to a finer grid and back
    is the identity. At half of an even size a grid holds the cosine only, which is kept.

    Each axis is one product with a fixed real matrix: no FFT, no weights.

    Args:
        sizes: integer or tuple, the spatial sizes of the output; an integer is for one axis.
        data_format: `"channels_last"`, `"channels_first"` or `None` for Keras' default.

    Input shape:
        `(batch, *spatial, channels)`, or `(batch, channels, *spatial)` for "channels_first", of
        known spatial sizes.

    Output shape:
        The same with `sizes` in place of the spatial sizes.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> def wave(n):
    ...     return np.cos(2 * np.pi * 3 * np.arange(n) / n).reshape(1, n, 1)
    >>> fine = layers.FourierResampling(85)(wave(43))
    >>> bool(np.allclose(fine, wave(85), atol=1e-5))
    True
    """

    def build(self, input_shape: Shape) -> None:
        before = self.sizes_of(input_shape)
        first = 1 if self.data_format == "channels_last" else 2
        axes = {first + axis: size for axis, size in enumerate(before)}
        self.input_spec = keras.layers.InputSpec(ndim=len(self.sizes) + 2, axes=axes)
        self._matrices = resampling_matrices(before, self.sizes)

    def call(self, inputs: Tensor) -> Tensor:
        return resample(inputs, self._matrices, self.data_format)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        self.sizes_of(input_shape)
        return super().compute_output_shape(input_shape)

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample."""
        before = self.sizes_of(input_shape)
        channels = input_shape[-1 if self.data_format == "channels_last" else 1]
        return multiply_adds(before, self.sizes, channels)


def grid_sizes(sizes):
    """Return the sizes of a grid of one to three axes as a tuple, or raise `ValueError`."""
    sizes = (sizes,) if validation.is_integer(sizes) else sizes
    rank = len(sizes) if isinstance(sizes, (tuple, list)) else 0
    validation.one_of(rank, (1, 2, 3), "number of sizes")
    return validation.integer_tuple(sizes, rank, "sizes")


def resampling_matrix(before, after):
    """Return the `(after, before)` matrix that resamples one axis."""
    smaller = min(before, after)
    old, new = (np.arange(size) / size for size in (before, after))
    difference = 2 * np.pi * (new[:, None] - old)
    matrix = np.ones((after, before))
    for frequency in range(1, (smaller + 1) // 2):
        matrix += 2 * np.cos(frequency * difference)
    if smaller % 2 == 0:
        cosines = np.outer(np.cos(np.pi * smaller * new), np.cos(np.pi * smaller * old))
        matrix += cosines if before == smaller else 2 * cosines
    return matrix / before


def resampling_matrices(before, after):
    """Return the matrix of each axis, or `None` where the size stays."""
    return tuple(
        None if old == new else resampling_matrix(old, new)
        for old, new in zip(before, after, strict=True)
    )


def resample(x, matrices, data_format):
    """Multiply the spatial axes of a batch by a matrix each; `None` leaves an axis as it is."""
    first = 1 if data_format == "channels_last" else 2
    for axis, matrix in enumerate(matrices):
        if matrix is not None:
            x = multiply_axis(x, first + axis, matrix.T)
    return x


def multiply_axis(x, axis, matrix):
    """Multiply the vectors along an axis by a matrix `(before, after)`."""
    x = ops.moveaxis(x, axis, -1)
    exact = keras.backend.standardize_dtype(x.dtype)
    exact = "float64" if exact == "float64" else "float32"
    matrix = ops.convert_to_tensor(matrix, dtype=exact)
    matrix, others = ops.cast(matrix, x.dtype), x.shape[1:-1]
    if transforms.are_matrix_products():  # ONNX takes a product with rows only
        x = ops.matmul(ops.reshape(x, (-1, x.shape[-1])), matrix)
        x = ops.reshape(x, (-1, *others, matrix.shape[-1]))
    else:
        x = ops.matmul(x, matrix)
    return ops.moveaxis(x, -1, axis)


def multiply_adds(before, after, channels):
    """Multiply–adds of `resample` for one sample."""
    total, sizes = 0, list(before)
    for axis, (old, new) in enumerate(zip(before, after, strict=True)):
        if old != new:
            total += new * int(np.prod(sizes)) * channels
            sizes[axis] = new
    return total
