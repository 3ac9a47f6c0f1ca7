"""Arrays as colour images, small enough to be written at every epoch of a search."""

from collections.abc import Mapping

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from keras_xd.core.argument_types import check_types

LEAST_SIDE = 256
LARGEST_SIDE = 512
LARGEST_SPECTRUM = 1024


@check_types
def heatmap(values: ArrayLike) -> np.ndarray:
    """Return an array of numbers as an image, each number a square of one colour."""
    values = _numbers(values)
    values = np.abs(values) if values.dtype.kind == "c" else values
    values = values.reshape(-1, values.shape[-1] if values.ndim else 1)
    for axis in (0, 1):
        values = _at_most(values, LARGEST_SIDE, axis)
    finite = np.isfinite(values)
    signed = bool(np.any(values[finite] < 0))
    largest = float(np.max(np.abs(values), where=finite, initial=0.0)) or 1.0
    scaled = np.where(finite, values / largest, 0.0)
    colours = matplotlib.colormaps["RdBu_r" if signed else "viridis"]
    image = colours((scaled + 1) / 2 if signed else scaled, bytes=True)[..., :3].copy()
    image[~finite] = 128
    scale = max(1, LEAST_SIDE // max(image.shape[:2]))
    return image.repeat(scale, axis=0).repeat(scale, axis=1)


@check_types
def spectra(arrays: Mapping[str, ArrayLike], title: str = "") -> np.ndarray | None:
    """Return the singular values of matrices as an image of one logarithmic curve each."""
    found = {name: _spectrum(values) for name, values in arrays.items()}
    found = {name: values for name, values in found.items() if values is not None}
    if not found:
        return None
    figure = Figure(figsize=(4.8, 3.2), dpi=100)
    axes = figure.add_axes((0.15, 0.14, 0.82, 0.76))
    for name, values in found.items():
        axes.plot(np.arange(1, len(values) + 1), values, marker=".", label=name)
    if any(np.any(values > 0) for values in found.values()):
        axes.set_yscale("log", nonpositive="clip")
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("index")
    axes.set_ylabel("singular value")
    axes.legend(fontsize=8)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _numbers(values):
    """Return an array of real or complex numbers in double precision."""
    values = np.asarray(values)
    if values.dtype.kind not in "biufc" or not values.size:
        raise ValueError(
            "Only a nonempty array of numbers can be drawn. "
            f"Received: shape {values.shape}, type {values.dtype}"
        )
    return values.astype("complex128" if values.dtype.kind == "c" else "float64")


def _spectrum(values):
    """Return the curve that `spectra` draws for one array, or `None` if it draws none."""
    values = _numbers(values)
    drawable = values.ndim in (1, 2) and max(values.shape) <= LARGEST_SPECTRUM
    if not drawable or not np.all(np.isfinite(values)):
        return None
    if values.ndim == 1:
        return np.sort(np.abs(values))[::-1]
    return np.linalg.svd(values, compute_uv=False)


def _at_most(values, most, axis):
    """Return means of so many neighbours along an axis that it has at most `most` entries."""
    size = values.shape[axis]
    if size <= most:
        return values
    starts = np.arange(0, size, -(-size // most))
    counts = np.diff([*starts, size])
    sums = np.add.reduceat(values, starts, axis=axis)
    return sums / (counts[:, None] if axis == 0 else counts)
