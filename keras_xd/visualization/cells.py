"""Drawings of discrete cells."""

import matplotlib.patches
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from keras_xd.core.argument_types import check_types
from keras_xd.layers.cells.genotypes import (
    ATTENTION_OPERATIONS,
    BLOCKS,
    DYNAMIC_OPERATIONS,
    FEATURE_OPERATIONS,
    INPUTS,
    XD_OPERATIONS,
    CellGenotype,
    Genotype,
)

# The names of the operations in the paper's figure, by kind, and the colour of each kind.
KINDS = (
    ("f", FEATURE_OPERATIONS, "tab:blue"),
    ("a", ATTENTION_OPERATIONS, "tab:orange"),
    ("d", DYNAMIC_OPERATIONS, "tab:green"),
    ("x", XD_OPERATIONS, "tab:purple"),
)
SYMBOLS = {
    name: (f"{letter}{number}", colour)
    for letter, names, colour in KINDS
    for number, name in enumerate(names)
}
OPERATORS = {"f": "⊕", "x": "⊕", "a": "⊙", "d": "⊛"}
_STEP = 2.6
# Neighbours lie at different heights, so that edges do not run through nodes.
_HEIGHTS = (0.9, -0.9, 1.7, -1.7)
# Bends of an edge, from the one taken where it can be, and how far an edge is to pass by a node.
_BENDS = (-0.08, 0.08, -0.2, 0.2, -0.35, 0.35, -0.5, 0.5)
_CLEARANCE = 0.4


@check_types
def plot_cell(cell: CellGenotype, title: str = "", axes: Axes | None = None) -> Figure:
    """Return a drawing of one cell of a genotype, in given axes or in a figure of its own."""
    if axes is None:
        return _drawing({title: cell})
    _draw_cell(axes, cell)
    axes.set_title(title)
    return axes.get_figure(root=True)


@check_types
def plot_genotype(genotype: Genotype) -> Figure:
    """Return a drawing of both cells of a genotype, one above the other, nodes from left to right.

    Nodes are numbered as in the cell, the surrogate node of node 2 is 2′. The labels on the
    edges are those of the paper, explained below: `f` operations on features, `a` attention, `d`
    dynamic convolutions, `x` XD-operations. Above a surrogate node stands how it combines what
    comes in: sums ⊕, products ⊙, convolutions ⊛.

    Nothing is shown or written: use the figure's `savefig`, with `"cell.svg"` or `"cell.png"`.

    Args:
        genotype: a `keras_xd.genotypes.Genotype`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import genotypes, visualization
    >>> genotype = genotypes.random_genotype(np.random.default_rng(0))
    >>> len(visualization.plot_genotype(genotype).axes)
    2

    Reference:
        "Neural Operator Search", 2020, figure 4.
    """
    return _drawing({"normal cell": genotype.normal, "reduction cell": genotype.reduction})


def _drawing(cells):
    figure = Figure(figsize=(11, 4.2 * len(cells)), layout="constrained")
    all_axes = figure.subplots(len(cells), squeeze=False)[:, 0]
    for axes, (title, cell) in zip(all_axes, cells.items(), strict=True):
        _draw_cell(axes, cell)
        axes.set_title(title)
    return figure


def _draw_cell(axes: Axes, cell: CellGenotype) -> None:
    axes.set_axis_off()
    axes.set_aspect("equal")
    end = _STEP * (BLOCKS + 1)
    axes.set(xlim=(-0.9, end + 0.9), ylim=(-3.1, 2.5))
    places = {0: (0.0, 1.2), 1: (0.0, -1.2), "output": (end, 0.0)}
    for block, height in enumerate(_HEIGHTS):
        right = _STEP * (block + 1)
        places[f"{block + INPUTS}′"] = (right - 0.55, height)
        places[block + INPUTS] = (right + 0.75, height)
    for block, genotype in enumerate(cell.blocks):
        node = block + INPUTS
        for operation, source in genotype.first:
            start, stop = places[source], places[f"{node}′"]
            _edge(axes, start, stop, operation, _free_bend(start, stop, places.values()))
        _edge(axes, places[f"{node}′"], places[node], genotype.second, 0.0)
        _arrow(axes, places[node], places["output"], "lightgrey", 0.0, "dotted")
        _node(axes, places[f"{node}′"], f"{node}′", "whitesmoke")
        letters = [SYMBOLS[operation][0][0] for operation, _ in genotype.first]
        operators = dict.fromkeys(OPERATORS[letter] for letter in sorted(letters, reverse=True))
        x, y = places[f"{node}′"]
        axes.text(x, y + 0.42, "".join(operators), ha="center", va="center", fontsize=9)
        _node(axes, places[node], str(node), "lightyellow")
    for source in range(INPUTS):
        _node(axes, places[source], str(source), "lightcyan")
    _node(axes, places["output"], "concat", "mistyrose", radius=0.42)
    used = [name for name in SYMBOLS if name in cell.operations]
    legend = ", ".join(f"{SYMBOLS[name][0]}: {name}" for name in used)
    axes.text(end / 2, -2.85, legend, ha="center", va="center", fontsize=8)


def _free_bend(start, stop, places):
    """Return the first bend with which an edge keeps clear of all other nodes, else the best."""
    others = np.array([place for place in places if place not in (start, stop)])
    start, stop = np.array(start), np.array(stop)
    across = (stop - start)[::-1] * (1, -1)
    at = np.linspace(0, 1, 50)[:, None]

    def clearance(bend):
        corner = (start + stop) / 2 + bend * across
        curve = (1 - at) ** 2 * start + 2 * at * (1 - at) * corner + at**2 * stop
        return min(_CLEARANCE, np.linalg.norm(curve[:, None] - others, axis=-1).min())

    return max(_BENDS, key=clearance)


def _edge(axes, start, stop, operation, bend):
    symbol, colour = SYMBOLS[operation]
    _arrow(axes, start, stop, colour, bend)
    # The middle of the bow that matplotlib draws, with its height as a part of the distance.
    x = (start[0] + stop[0]) / 2 + bend * (stop[1] - start[1]) / 2
    y = (start[1] + stop[1]) / 2 - bend * (stop[0] - start[0]) / 2
    box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}
    axes.text(x, y, symbol, color=colour, ha="center", va="center", fontsize=10, bbox=box, zorder=3)


def _arrow(axes, start, stop, colour, bend, line="solid"):
    arrow = matplotlib.patches.FancyArrowPatch(
        start,
        stop,
        connectionstyle=f"arc3,rad={bend}",
        arrowstyle="-|>",
        mutation_scale=10,
        shrinkA=11,
        shrinkB=12,
        color=colour,
        linestyle=line,
        zorder=1,
    )
    axes.add_patch(arrow)


def _node(axes, place, text, colour, radius=0.27):
    circle = matplotlib.patches.Circle(
        place, radius, facecolor=colour, edgecolor="black", linewidth=0.8, zorder=2
    )
    axes.add_patch(circle)
    axes.text(*place, text, ha="center", va="center", fontsize=8, zorder=4)
