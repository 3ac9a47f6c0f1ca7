"""Derivatives of functions on a grid: of periodic ones by FFT, of others by differences."""

import math

import numpy as np
from keras import ops

from keras_xd.core import transforms


def derivative(x, axis, length, method="spectral", order=1):
    """Return a derivative along one axis of a grid.

    "spectral" is exact for periodic functions whose frequencies the grid holds; its points are
    `length / size` apart. "differences" is of second order, one-sided at both ends; the points are
    `length / (size - 1)` apart, so that the ends are points.
    """
    size = x.shape[axis]
    if size is None or size < 3:
        raise ValueError(
            "A derivative needs at least 3 points, of known number, along its axis. "
            f"Received: shape={tuple(x.shape)}, axis={axis}"
        )
    x = ops.moveaxis(x, axis, -1)
    if method == "spectral":
        x = _spectral(x, length, order)
    else:
        for _ in range(order):
            x = _differences(x, length / (size - 1))
    return ops.moveaxis(x, -1, axis)


def _spectral(x, length, order):
    size = x.shape[-1]
    waves = 2 * math.pi / length * np.arange(size // 2 + 1)
    if size % 2 == 0 and order % 2 == 1:
        waves[-1] = 0.0  # the sine of half the size vanishes on the grid
    real, imaginary = transforms.rfft(x)
    for _ in range(order):
        factor = ops.convert_to_tensor(waves, real.dtype)
        real, imaginary = -factor * imaginary, factor * real
    return transforms.irfft((real, imaginary), size)


def _differences(x, spacing):
    inner = (x[..., 2:] - x[..., :-2]) / 2
    first = -1.5 * x[..., :1] + 2 * x[..., 1:2] - 0.5 * x[..., 2:3]
    last = 1.5 * x[..., -1:] - 2 * x[..., -2:-1] + 0.5 * x[..., -3:-2]
    return ops.concatenate([first, inner, last], axis=-1) / spacing


def velocity(vorticity, lengths):
    """Return the two parts of the flow on a torus that a vorticity `(…, n, m)` belongs to."""
    frequencies = [
        2 * math.pi / length * np.fft.fftfreq(size, 1 / size)
        for size, length in zip(vorticity.shape[-2:], lengths, strict=True)
    ]
    waves = np.meshgrid(*frequencies, indexing="ij")
    squares = waves[0] ** 2 + waves[1] ** 2
    squares[0, 0] = 1.0  # the mean of the flow is zero
    for axis, size in enumerate(squares.shape):
        if size % 2 == 0:
            np.moveaxis(waves[axis], axis, 0)[size // 2] = 0.0
    real, imaginary = ops.fft2((vorticity, ops.zeros_like(vorticity)))
    result = []
    for factor in (waves[1] / squares, -waves[0] / squares):  # ψ = ω / |k|², u = ∂ψ/∂y, v = −∂ψ/∂x
        factor = ops.convert_to_tensor(factor, real.dtype)
        result.append(ops.ifft2((-factor * imaginary, factor * real))[0])
    return result
