"""The style of all pictures."""

import os
import pathlib
from collections.abc import Sequence
from contextlib import AbstractContextManager

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Each is darker or lighter than its neighbours, so that they differ without colour, too.
COLOURS = ("#08306b", "#e6700a", "#2b8c5f", "#b0156d", "#5aa5d8", "#6b6b6b", "#c9a400", "#7a4fb5")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
SIGNED, POSITIVE, PHASE = "RdBu_r", "viridis", "twilight"
STYLE = pathlib.Path(__file__).with_name("keras_xd.mplstyle")
_WIDTH = 1.4  # of lines, in points
_WIDER = 1.6  # points that the first of several curves is wider than the last
_LABEL_SIZE = 7
_LABEL_HEIGHT = 9.5  # points from one label to the next


def context() -> AbstractContextManager[None]:
    """Return a context in which matplotlib draws in the style of this package."""
    return matplotlib.style.context(STYLE)


def curve(number: int, count: int = 1) -> dict:
    """Return the colour, dashes and width of the curve of a number, as keywords of `Axes.plot`."""
    index = number % len(COLOURS)
    added = _WIDER * (1 - number / (count - 1)) if count > 1 else 0.0
    width = _WIDTH + added
    return {"color": COLOURS[index], "linestyle": LINES[index], "linewidth": width}


def save(figure: Figure, path: str | os.PathLike) -> None:
    """Write a figure with 200 dots per inch, or as SVG; the same figure gives the same file."""
    vector = os.fspath(path).lower().endswith(".svg")
    with context():
        figure.savefig(path, metadata={"Date": None} if vector else None)


def label_lines(axes: Axes) -> list:
    """Write the label of each line beside its last visible point, in place of a legend."""
    axes.get_figure(root=True).draw_without_rendering()  # which sets limits and sizes
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = []
    for line in axes.lines:
        points = np.column_stack([np.asarray(data, float) for data in line.get_data()])
        places = to_axes.transform(points[np.isfinite(points).all(axis=1)])
        places = places[np.isfinite(places).all(axis=1)]
        if len(places) and not line.get_label().startswith("_"):
            # A line that leaves the axes ends where it is seen last, above or below the others.
            seen = ((places > -1e-6) & (places < 1 + 1e-6)).all(axis=1)
            last = np.flatnonzero(seen)[-1] if seen.any() else len(places) - 1
            beyond = places[min(last + 1, len(places) - 1), 1]
            ends.append((min(places[last, 0], 1.0), min(max(beyond, 0.0), 1.0), line, beyond))
    ends.sort(key=lambda end: end[-1])
    gap = _LABEL_HEIGHT / 72 * axes.get_figure(root=True).dpi / axes.get_window_extent().height
    return [
        axes.annotate(
            line.get_label(),
            (x, y),
            (1.04, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=line.get_color(),
            fontsize=_LABEL_SIZE,
            va="center",
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
        for (x, y, line, _), height in zip(ends, apart([y for _, y, *_ in ends], gap), strict=True)
    ]


def apart(heights: Sequence[float], gap: float) -> list[float]:
    """Return ascending heights moved as little as need be to lie a gap apart."""
    # Without their gaps the heights only have to ascend: means of neighbours that do not.
    groups = []
    for index, height in enumerate(heights):
        groups.append([height - index * gap, 1])
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            (first, m), (second, n) = groups[-2:]
            groups[-2:] = [[(first * m + second * n) / (m + n), m + n]]
    flat = [value for value, count in groups for _ in range(count)]
    highest = max(0.0, 1.0 - gap * (len(flat) - 1))
    return [
        round(min(max(value, 0.0), highest) + index * gap, 6) for index, value in enumerate(flat)
    ]
