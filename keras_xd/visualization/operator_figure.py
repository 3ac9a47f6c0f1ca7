"""The picture of an operator before and after a search: matrices, impulse responses, spectra."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from keras import ops
from matplotlib.figure import Figure

from keras_xd import kmatrix
from keras_xd.core.searchable import SearchableLayer
from keras_xd.layers.xd.base import XDLayer
from keras_xd.layers.xd.causal import XDCausalConv1D
from keras_xd.visualization import style

PLACES = 3  # whose impulse responses are drawn
LARGEST_DENSE = 1024  # points of an axis whose matrices are multiplied out
_CONSTANT = 1e-3  # relative deviation of absolute values that count as equal
_FAINT = 0.05  # part of the largest absolute value below which a phase is not drawn
_PANEL = 1.08  # inches


@dataclasses.dataclass(frozen=True)
class Window:
    """The linear map between two channels, on a window of positions."""

    responses: np.ndarray
    places: Sequence[np.ndarray]
    kept: Sequence[np.ndarray]
    sizes: Sequence[int]

    @property
    def matrix(self) -> np.ndarray:
        """The map as a matrix `(outputs, inputs)` of the window, both in row-major order."""
        return self.responses.reshape(len(self.responses), -1).T


def middle(sizes: Sequence[int], most: int) -> list[np.ndarray]:
    """Return, by axis, the positions of a window in the middle of at most `most` positions."""
    window = list(sizes)
    while math.prod(window) > most:
        axis = int(np.argmax(window))
        others = math.prod(window) // window[axis]
        # The longest axis is cut first, down to the one after it.
        second = max((n for i, n in enumerate(window) if i != axis), default=1)
        window[axis] = max(most // others, min(second, window[axis] - 1), 1)
    return [np.arange((n - w) // 2, (n - w) // 2 + w) for n, w in zip(sizes, window, strict=True)]


def matrices(layer: SearchableLayer, most: int = 256) -> dict[str, np.ndarray]:
    """Return the matrices `M` and `K` of each axis of a layer, on a window in the middle."""
    sizes = [plan.n for plan in layer.plans] if isinstance(layer, XDLayer) else []
    if max(sizes, default=0) > LARGEST_DENSE:
        found = {} if isinstance(layer, XDCausalConv1D) else dict(_applied(layer, sizes, most))
    else:
        found = {
            name.removeprefix("matrix/"): np.asarray(matrix)
            for name, matrix in layer.describe().items()
            if name.startswith("matrix/")
        }
    cut = {}
    for letter in "MK":
        for name in sorted(name for name in found if name[0] == letter):
            window = np.ix_(*(middle((n,), most)[0] for n in found[name].shape))
            cut[f"{letter}, axis {name[1:]}"] = found[name][window]
    return cut


def _applied(layer, sizes, most):
    """Yield names and the windows of `M` and `K`, from their products with unit vectors."""
    variables, rank = layer.architecture_variables, len(sizes)
    for letter, first in (("K", 0), ("M", 2 * rank)):
        for axis, n in enumerate(sizes):
            (kept,) = middle((n,), most)
            units = np.zeros((n, len(kept)), "float32")
            units[kept, np.arange(len(kept))] = 1.0
            matrix = kmatrix.KMatrix(variables[first + axis], layer.plans[axis])
            real, imaginary = (ops.convert_to_numpy(x) for x in matrix.apply(units, axis=0))
            window = (real + 1j * imaginary)[kept]
            yield f"{letter}{axis}", window.T if letter == "K" else window


def draw(
    before: Window,
    after: Window,
    matrices_before: dict[str, np.ndarray],
    matrices_after: dict[str, np.ndarray],
    channels: str,
) -> Figure:
    """Return the figure of `keras_xd.visualization.plot_operators`."""
    rows = max(1 + PLACES, len(matrices_before))
    columns = 6 if matrices_before else 3
    size = (_PANEL * columns + 1.6, _PANEL * rows + 1.9)
    with style.context():
        figure = Figure(figsize=size, layout="constrained")
        upper, lower = figure.subfigures(2, 1, height_ratios=(_PANEL * rows, 1.7))
        parts = upper.subfigures(1, columns // 3, squeeze=False)[0]
        _draw_operators(parts[0], before, after, rows)
        if matrices_before:
            _draw_matrices(parts[1], matrices_before, matrices_after, rows)
        _draw_spectra(lower, before, after)
        parts[0].suptitle(f"operator, {channels}{_cut(before)}")
    return figure


def _cut(window):
    """Return how the title tells that a window is drawn."""
    if all(len(p) == n for p, n in zip(window.places, window.sizes, strict=True)):
        return ""
    ranges = " × ".join(f"{p[0]}–{p[-1]}" for p in window.places)
    return f", positions {ranges} of {' × '.join(map(str, window.sizes))}"


def _draw_operators(figure, before, after, rows):
    grid = figure.subplots(rows, 3, squeeze=False)
    for axes, title in zip(grid[0], ("before", "after", "after − before"), strict=True):
        axes.set_title(title)
    for axes in grid[1 + PLACES :].flat:
        axes.axis("off")
    same = before.matrix.shape == after.matrix.shape
    difference = after.responses - before.responses if same else None
    panels = [before.responses, after.responses, difference]
    largest = max(float(np.abs(found).max()) for found in panels if found is not None) or 1.0
    scale = {"cmap": style.SIGNED, "vmin": -largest, "vmax": largest}
    count = [len(place) for place in before.places]
    for axes, found in zip(grid[0], panels, strict=True):
        if found is not None:
            drawn = axes.imshow(found.reshape(len(found), -1).T, aspect="auto", **scale)
    grid[0, 0].set_ylabel("matrix:\noutput ↓, input →")
    for number in range(PLACES):
        place = [int((number + 1) * n / (PLACES + 1)) for n in count]
        row = int(np.ravel_multi_index(place, count))
        name = ", ".join(str(p[i]) for p, i in zip(before.places, place, strict=True))
        for axes, found in zip(grid[1 + number], panels, strict=True):
            if found is not None:
                _draw_response(axes, found[row], place, count, largest, scale)
        grid[1 + number, 0].set_ylabel(f"impulse at\n{name}")
    _frame(grid)
    if before.responses.ndim == 2:
        for axes in grid[1 : 1 + PLACES, 0]:
            axes.set_yticks([-largest, 0.0, largest], [f"{-largest:.2g}", "0", f"{largest:.2g}"])
            axes.tick_params(labelsize=6)
    bar = figure.colorbar(drawn, ax=grid[:1] if before.responses.ndim == 2 else grid[: 1 + PLACES])
    bar.outline.set_visible(False)


def _frame(grid):
    """Give images a border and no ticks."""
    for axes in grid.flat:
        axes.spines[:].set_visible(True)
        axes.set(xticks=[], yticks=[])


def _draw_response(axes, response, place, count, largest, scale):
    """Draw one response as a curve, an image or the middle slice, with a mark at the impulse."""
    at = [(i + 0.5) * n / m - 0.5 for i, n, m in zip(place, response.shape, count, strict=True)]
    if response.ndim == 1:
        axes.axhline(0.0, color="0.8", linewidth=0.5)
        axes.plot(response, color=style.COLOURS[0], linewidth=0.9)
        axes.plot(at[0], -1.1 * largest, marker="^", color=style.COLOURS[1], clip_on=False)
        axes.set_ylim(-1.1 * largest, 1.1 * largest)
        return
    if response.ndim == 3:
        response = response[min(max(round(at[0]), 0), len(response) - 1)]
    axes.imshow(response, aspect="equal", **scale)
    axes.plot(at[-1], at[-2], marker="+", color="0.3", markersize=5, markeredgewidth=0.6)


def _draw_matrices(figure, before, after, rows):
    grid = figure.subplots(rows, 3, squeeze=False)
    for axes in grid[len(before) :].flat:
        axes.axis("off")
    for axes, title in zip(grid[0], ("before", "after", "|after − before|"), strict=True):
        axes.set_title(title)
    figure.suptitle("matrices")
    changes = {name: np.abs(after[name] - before[name]) for name in before}
    # Float32 rounding is no change.
    largest = max(max(float(c.max()) for c in changes.values()), 1e-5)
    changed = None
    for axes, name in zip(grid, before, strict=False):
        pair = (before[name], after[name])
        if is_constant(before[name]):
            label, values = f"phase of\n{name}", [phase(matrix) for matrix in pair]
            scale = {"cmap": style.PHASE, "vmin": -np.pi, "vmax": np.pi}
        else:
            label, values = f"modulus of\n{name}", [np.abs(matrix) for matrix in pair]
            top = max(float(v.max()) for v in values) or 1.0
            scale = {"cmap": style.POSITIVE, "vmin": 0.0, "vmax": top}
        for place, value in zip(axes, values, strict=False):
            drawn = place.imshow(value, **scale)
        axes[0].set_ylabel(label)
        bar = figure.colorbar(drawn, ax=list(axes[:2]), shrink=0.8)
        bar.outline.set_visible(False)
        if scale["cmap"] == style.PHASE:
            bar.set_ticks([-np.pi, 0, np.pi], labels=["−π", "0", "π"])
        changed = axes[2].imshow(changes[name], cmap=style.POSITIVE, vmin=0.0, vmax=largest)
    bar = figure.colorbar(changed, ax=list(grid[: len(before), 2]), shrink=0.8, aspect=30)
    bar.outline.set_visible(False)
    _frame(grid)


def is_constant(matrix: np.ndarray) -> bool:
    """Return whether all entries have the same absolute value, so that only phases tell more."""
    modulus = np.abs(matrix)
    return bool(np.std(modulus) <= _CONSTANT * np.mean(modulus)) and bool(modulus.max() > 0)


def phase(matrix: np.ndarray) -> np.ndarray:
    """Return the phases, NaN (not drawn) where the absolute value is next to nothing."""
    modulus = np.abs(matrix)
    return np.where(modulus > _FAINT * modulus.max(), np.angle(matrix), np.nan)


def _draw_spectra(figure, before, after):
    axes = figure.subplots()
    for number, (name, window) in enumerate((("before", before), ("after", after))):
        values = np.linalg.svd(window.matrix, compute_uv=False)
        axes.plot(np.arange(1, 1 + len(values)), values, label=name, **style.curve(number))
    axes.set(xlabel="index", ylabel="singular value", title="spectrum of the operator")
    axes.set_ylim(bottom=0.0)
    axes.margins(x=0.0)
    style.label_lines(axes)
