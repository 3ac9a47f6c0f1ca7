"""Fourier transforms of the last axis: by FFT, or by matrix products for files without an FFT."""

import contextlib

import numpy as np
from keras import ops

from keras_xd.core.scoped import Scoped

_PRODUCTS = Scoped(False)


def as_matrix_products(enabled: bool = True) -> contextlib.AbstractContextManager[None]:
    """Compute the transforms below by products with their matrices, as the formats need that have
    neither complex numbers nor an FFT.
    """
    return _PRODUCTS.set_to(enabled or _PRODUCTS.value)


def are_matrix_products() -> bool:
    """Return whether transforms are computed by matrix products here."""
    return _PRODUCTS.value


def rfft(x, fft_length=None, kept=None):
    """Return the frequencies `0, 1, …` of real vectors, as a (real, imaginary) pair."""
    x = ops.convert_to_tensor(x)
    if _is_empty(x) and not _PRODUCTS.value:
        length = x.shape[-1] if fft_length is None else fft_length
        return tuple(_of_length(x, length // 2 + 1)[..., :kept] for _ in range(2))
    if not _PRODUCTS.value:
        return tuple(part[..., :kept] for part in ops.rfft(x, fft_length=fft_length))
    *others, size = ops.shape(x)
    length = size if fft_length is None else fft_length
    if fft_length is not None:
        x = x[..., :fft_length]
        size = ops.shape(x)[-1]
    count = length // 2 + 1 if kept is None else kept
    cosines, sines = _waves(size, count, length, x.dtype)
    rows = _rows(x, size)
    products = (ops.matmul(rows, matrix) for matrix in (cosines, -sines))
    return tuple(_vectors(product, others, count) for product in products)


def fft(parts, kept=None):
    """Return the Fourier transform of complex vectors, as a (real, imaginary) pair."""
    parts = tuple(map(ops.convert_to_tensor, parts))
    if not _PRODUCTS.value:
        parts = parts if _is_empty(parts[0]) else ops.fft(parts)
        return parts if kept is None else tuple(ops.take(part, kept, axis=-1) for part in parts)
    *others, size = ops.shape(parts[0])
    cosines, sines = _waves(size, size if kept is None else kept, size, parts[0].dtype)
    real, imaginary = (_rows(part, size) for part in parts)
    products = (
        ops.matmul(real, cosines) + ops.matmul(imaginary, sines),
        ops.matmul(imaginary, cosines) - ops.matmul(real, sines),
    )
    count = size if kept is None else len(kept)
    return tuple(_vectors(product, others, count) for product in products)


def lowest(parts, mode):
    """Return the frequencies `0 … mode - 1, -mode … -1` of complex vectors."""
    return tuple(
        ops.concatenate([part[..., :mode], part[..., -mode:]], axis=-1) for part in fft(parts)
    )


def inverse_of_lowest(parts, mode, size):
    """Return the complex vectors of the frequencies that `lowest` returns; the others are zero."""
    # Exchanging the parts before and after turns the FFT into the (unscaled) inverse FFT.
    imaginary, real = fft(tuple(_insert_zeros(part, mode, size) for part in parts[::-1]))
    return tuple(part / ops.cast(size, part.dtype) for part in (real, imaginary))


def lowest_matrices(sizes, modes, dtype):
    """Return the matrices from the points of each axis to its lowest frequencies, and those back.

    Of the last axis, whose points are real, `(2 mode, size)` to the frequencies `0 … mode - 1`; of
    the others `(4 mode, 2 size)` to `0 … mode - 1, -mode … -1`. Rows are (part, frequency), columns
    (point, part), where the parts are the real and the imaginary one.
    """
    there, back, last = [], [], len(sizes) - 1
    for axis, (size, mode) in enumerate(zip(sizes, modes, strict=True)):
        frequencies = np.arange(mode if axis == last else 2 * mode)
        frequencies[mode:] -= 2 * mode
        cosines, sines = _waves(frequencies, size, size, dtype)
        matrix = ops.concatenate([cosines, -sines])
        factor = 1.0 / ops.cast(size, dtype)
        if axis == last:
            factor = ops.tile(multiplicities(mode, size, dtype), 2) * factor
        else:
            other = ops.concatenate([sines, cosines])
            matrix = ops.reshape(ops.stack([matrix, other], axis=-1), (4 * mode, 2 * size))
        there.append(matrix)
        back.append(ops.transpose(matrix) * factor)
    return there, back


def multiplicities(count, size, dtype):
    """Return 2 for each frequency that stands for its negative too, 1 for its own negative."""
    if isinstance(size, int):
        frequencies = np.arange(count)
        values = np.where((frequencies == 0) | (2 * frequencies == size), 1, 2)
        return ops.convert_to_tensor(values, dtype)
    frequencies = ops.arange(count)
    own = ops.logical_or(frequencies == 0, ops.equal(2 * frequencies, size))
    return ops.cast(ops.where(own, 1, 2), dtype)


def _insert_zeros(kept, mode, size):
    """Put `size - 2 · mode` zeros between the positive and the negative frequencies."""
    shape = ops.shape(kept)
    zeros = ops.zeros((*shape[:-1], size - 2 * mode), dtype=kept.dtype)
    return ops.concatenate([kept[..., :mode], zeros, kept[..., mode:]], axis=-1)


def irfft(parts, fft_length):
    """Return the real vectors of the frequencies `0, 1, …`; those that are missing are zero."""
    parts = tuple(map(ops.convert_to_tensor, parts))
    if _is_empty(parts[0]) and isinstance(fft_length, int) and not _PRODUCTS.value:
        return _of_length(parts[0], fft_length)
    if not _PRODUCTS.value:
        return ops.irfft(parts, fft_length=fft_length)
    *others, count = ops.shape(parts[0])
    real, imaginary = (_rows(part, count) for part in parts)
    cosines, sines = _waves(count, fft_length, fft_length, real.dtype)
    factor = multiplicities(count, fft_length, real.dtype) / ops.cast(fft_length, real.dtype)
    product = ops.matmul(real * factor, cosines) - ops.matmul(imaginary * factor, sines)
    return _vectors(product, others, fft_length)


def _rows(x, length):
    """Return vectors of a length as the rows of a matrix."""
    return ops.reshape(x, (-1, length))


def _vectors(rows, sizes, length):
    """Return the rows of a matrix as a tensor of the other sizes that the vectors had."""
    unknown = [size for size in (*sizes, length) if not isinstance(size, int)]
    if len(unknown) == 1 and isinstance(length, int):
        sizes = [size if isinstance(size, int) else -1 for size in sizes]
    return ops.reshape(rows, (*sizes, length))


def _is_empty(x):
    """Return whether there are no vectors, which not all backends transform."""
    return 0 in x.shape[:-1] and x.shape[-1] is not None


def _of_length(x, length):
    """Return the tensor of an empty batch with vectors of another length."""
    missing = max(length - x.shape[-1], 0)
    return ops.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)])[..., :length]


def _waves(rows, columns, length, dtype):
    """Return the matrices of `cos` and `sin` of `2π row · column / length`."""
    if all(isinstance(size, (int, np.ndarray)) for size in (rows, columns, length)):
        rows, columns = (np.arange(n) if isinstance(n, int) else n for n in (rows, columns))
        angles = 2 * np.pi * (np.outer(rows, columns) % length) / length
        return tuple(ops.convert_to_tensor(wave(angles), dtype) for wave in (np.cos, np.sin))
    numbers = (
        ops.convert_to_tensor(size, "int32")
        if isinstance(size, np.ndarray)
        else ops.arange(size, dtype="int32")
        for size in (rows, columns)
    )
    rows, columns = numbers
    # Whole turns are taken off as integers, so that the angles are exact.
    turns = ops.expand_dims(rows, 1) * columns % length
    angles = ops.cast(turns, dtype) * (2 * np.pi / ops.cast(length, dtype))
    return ops.cos(angles), ops.sin(angles)
