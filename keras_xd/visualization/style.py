"""The style of all pictures."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Each is darker or lighter than its neighbours, so that they differ without colour, too.
COLOURS = ("#08306b", "#e6700a", "#2b8c5f", "#b0156d", "#5aa5d8", "#6b6b6b", "#c9a400", "#7a4fb5")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
SIGNED, POSITIVE, PHASE = "RdBu_r", "viridis", "twilight"
DOTS_PER_INCH = 200
PARAMETERS = {
    "axes.axisbelow": True,
    "axes.grid": False,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 8,
    "figure.titlesize": 9,
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "image.interpolation": "nearest",
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "savefig.dpi": DOTS_PER_INCH,
    "svg.fonttype": "path",
    "svg.hashsalt": "keras_xd",
    "xtick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.labelsize": 7,
    "ytick.major.width": 0.6,
}
_WIDER = 1.6  # points that the first of several curves is wider than the last
_LABEL_SIZE = 7
_LABEL_HEIGHT = 9.5  # points from one label to the next


def context() -> AbstractContextManager[None]:
    """Return a context in which matplotlib draws in the style of this package."""
    return matplotlib.rc_context(PARAMETERS)


def curve(number: int, count: int = 1) -> dict:
    """Return the colour, dashes and width of the curve of a number, as keywords of `Axes.plot`."""
    index = number % len(COLOURS)
    added = _WIDER * (1 - number / (count - 1)) if count > 1 else 0.0
    width = PARAMETERS["lines.linewidth"] + added
    return {"color": COLOURS[index], "linestyle": LINES[index], "linewidth": width}


def save(figure: Figure, path: str | os.PathLike) -> None:
    """Write a figure with 200 dots per inch, or as SVG; the same figure gives the same file."""
    vector = os.fspath(path).lower().endswith(".svg")
    with context():
        figure.savefig(path, metadata={"Date": None} if vector else None)


def label_lines(axes: Axes, labels: Sequence[str] | None = None, avoid: float = 0.0) -> list:
    """Write the label of each line beside its last visible point, in place of a legend."""
    lines = [line for line in axes.lines if not line.get_label().startswith("_")]
    labels = [line.get_label() for line in lines] if labels is None else list(labels)
    if len(labels) != len(lines):
        raise ValueError(
            "`labels` must have a text for each labelled line. "
            f"Received: {len(labels)} texts for {len(lines)} lines"
        )
    axes.get_xlim(), axes.get_ylim()  # limits that follow from the data are set when they are read
    labelled = _LineLabels(axes, lines, avoid)
    labelled.texts = [
        axes.annotate(
            label,
            (1.0, 0.0),
            (1.04, 0.0),
            xycoords="axes fraction",
            textcoords=labelled,
            color=line.get_color(),
            fontsize=_LABEL_SIZE,
            va="center",
            ha="left",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": line.get_color(),
                "linewidth": 0.5,
                "relpos": (0, 0.5),
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
        for line, label in zip(lines, labels, strict=True)
    ]
    for change in ("xlim_changed", "ylim_changed"):
        axes.callbacks.connect(change, labelled.place)
    ordered = labelled.place()
    for text in labelled.texts:
        if text not in ordered:
            text.remove()
    return ordered


class _LineLabels:
    """The labels beside the lines of axes, which are their own coordinates as axes fractions."""

    def __init__(self, axes, lines, avoid):
        self.axes, self.lines, self.avoid = axes, lines, avoid
        self.texts = []

    def __call__(self, renderer):
        self.place()
        return self.axes.transAxes

    def place(self, changed=None):
        """Put each text beside the end of its line; return those of lines with an end, in order."""
        axes = self.axes
        to_axes = axes.transData + axes.transAxes.inverted()
        found = []
        for line, text in zip(self.lines, self.texts, strict=True):
            points = np.column_stack([np.asarray(data, float) for data in line.get_data()])
            places = to_axes.transform(points[np.isfinite(points).all(axis=1)])
            places = places[np.isfinite(places).all(axis=1)]
            if len(places):
                # A line that leaves the axes ends where it is seen last, above or below the others.
                seen = ((places > -1e-6) & (places < 1 + 1e-6)).all(axis=1)
                last = np.flatnonzero(seen)[-1] if seen.any() else len(places) - 1
                beyond = places[min(last + 1, len(places) - 1), 1]
                found.append((places[last, 0], beyond, text))
        found.sort(key=lambda end: end[1])
        gap = _LABEL_HEIGHT / (axes.get_window_extent().height * 72)
        gap *= axes.get_figure(root=True).dpi
        heights = apart([min(max(y, 0.0), 1.0) for _, y, _ in found], gap, self.avoid)
        for (x, y, text), middle in zip(found, heights, strict=True):
            text.xy = min(x, 1.0), min(max(y, 0.0), 1.0)
            text.set_position((1.04, middle))
        return [text for *_, text in found]


def apart(heights: Sequence[float], gap: float, lowest: float = 0.0) -> list[float]:
    """Return ascending heights moved as little as need be to lie a gap apart."""
    # Without their gaps the heights only have to ascend: means of neighbours that do not.
    groups = []
    for index, height in enumerate(heights):
        groups.append([height - index * gap, 1])
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            (first, m), (second, n) = groups[-2:]
            groups[-2:] = [[(first * m + second * n) / (m + n), m + n]]
    flat = [value for value, count in groups for _ in range(count)]
    highest = max(lowest, 1.0 - gap * (len(flat) - 1))
    return [
        round(min(max(value, lowest), highest) + index * gap, 6) for index, value in enumerate(flat)
    ]
