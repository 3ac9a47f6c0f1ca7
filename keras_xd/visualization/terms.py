"""Terms of grammars as pictures: the tree of a term, and the network that it stands for."""

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from keras_xd.core.argument_types import check_types
from keras_xd.grammar import expand
from keras_xd.grammar.graphs import network_graph
from keras_xd.grammar.terms import Term
from keras_xd.grammar.topologies import IDENTITY

LARGEST_TREE = 2000
MOST_LABELS = 60
_STRETCH = 0.35


@check_types
def plot_tree(term: Term, level: int | None = None, axes: Axes | None = None) -> Figure:
    """Draw the tree of a term: topologies above what they are applied to, primitives in colour.

    Each expanded node shows its nonterminal and its operator. Nothing is shown or written: use
    the figure's `savefig`.

    Args:
        term: a `Term`, also one with shared motifs, which stand beside the whole.
        level: draw the term folded at this depth only; `None` for all of it.
        axes: where to draw; `None` makes a figure large enough.

    Example:

    >>> from keras_xd import visualization
    >>> from keras_xd.grammar import parse
    >>> term = parse("(S Residual2 (C Linear2 conv relu) id (OP pool))")
    >>> figure = visualization.plot_tree(term)
    >>> sorted(text.get_text() for text in figure.axes[0].texts)
    ['C\\nLinear2', 'OP\\npool', 'S\\nResidual2', 'conv', 'id', 'relu']
    """
    term = term if level is None else term.fold(level)
    if term.size > LARGEST_TREE:
        raise ValueError(
            f"The term must have at most {LARGEST_TREE} nodes; fold it by `level`. "
            f"Received: a term of {term.size} nodes"
        )
    places, leaves, lines = _tree(term)
    deepest = max(depth for _, depth, _ in places)
    size = 7 if leaves <= 40 else 4
    if axes is None:
        figure = Figure(figsize=(max(3.0, 0.1 * size * leaves), 0.62 * (deepest + 1)))
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
    for (x0, y0), (x1, y1) in lines:
        axes.plot([x0, x1], [-y0, -y1], color="0.7", linewidth=0.8, zorder=1)
    colours = _colours([node.operator for _, _, node in places if not node.arguments])
    for x, depth, node in places:
        text = node.operator if node.nonterminal is None else f"{node.nonterminal}\n{node.operator}"
        face = "white" if node.arguments else colours[node.operator]
        box = {
            "boxstyle": "round,pad=0.25",
            "facecolor": face,
            "edgecolor": "0.5",
            "linewidth": 0.5,
        }
        axes.text(x, -depth, text, ha="center", va="center", fontsize=size, bbox=box, zorder=2)
    axes.set(xlim=(-0.7, leaves - 0.3), ylim=(-deepest - 0.5, 0.5))
    axes.axis("off")
    return axes.get_figure(root=True)


@check_types
def plot_network(term: Term) -> Figure:
    """Draw the network of a term: nodes that add up from left to right, operations on the edges.

    Edges that cut, and what lies on no path from input to output, are left out, as in the model
    that `keras_xd.grammar.build` makes; identities are dashed. Operations have colours, and their
    names on the edges; of more than 60 edges the colours are in a legend beside. Nothing is shown
    or written.

    Args:
        term: a `Term`, also a folded one or one with shared motifs.

    Example:

    >>> from keras_xd import visualization
    >>> from keras_xd.grammar import parse
    >>> term = parse("(S Residual2 (C Linear2 conv relu) id (OP pool))")
    >>> figure = visualization.plot_network(term)
    >>> sorted(text.get_text() for text in figure.axes[0].texts if text.get_text())
    ['conv', 'id', 'in', 'out', 'pool', 'relu']
    """
    graph = network_graph(expand(term))
    if not graph.edges:
        raise ValueError(
            f"A path must lead from an input to the output. Received: {str(term)[:200]!r}"
        )
    places = _layered(graph)
    columns = 1 + max(x for x, _ in places.values())
    rows = 1 + max(abs(y) for _, y in places.values())
    figure = Figure(figsize=(min(40.0, 1.5 + 1.1 * columns), 1.2 + 0.9 * rows))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    colours = _colours([e.operation for e in graph.edges if e.operation != IDENTITY])
    labelled = len(graph.edges) <= MOST_LABELS
    handles = [
        matplotlib.lines.Line2D([], [], color=colour, label=operation)
        for operation, colour in colours.items()
    ]
    if handles and not labelled:
        axes.legend(handles=handles, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    # Arrows do not count for the limits, and curves leave the rows of the nodes.
    axes.set(xlim=(-0.5, columns - 0.5), ylim=(-rows - 0.2, rows + 0.2))
    axes.axis("off")
    figure.draw_without_rendering()
    seen = {}
    for edge in graph.edges:
        pair = (edge.source, edge.target)
        bend = _bend(places[edge.source], places[edge.target], seen.get(pair, 0))
        seen[pair] = seen.get(pair, 0) + 1
        passes = edge.operation == IDENTITY
        arrow = {
            "arrowstyle": "-|>",
            "color": "0.6" if passes else colours[edge.operation],
            "linestyle": "--" if passes else "-",
            "linewidth": 1.0 if passes else 1.6,
            "connectionstyle": f"arc3,rad={bend}",
            "shrinkA": 6,
            "shrinkB": 6,
        }
        start, end = places[edge.source], places[edge.target]
        axes.annotate("", end, start, arrowprops=arrow)
        if labelled:
            # The middle of the quadratic curve that `arc3` draws, which bends in pixels.
            (x0, y0), (x1, y1) = axes.transData.transform((start, end))
            middle = (x0 + x1 + bend * (y1 - y0)) / 2, (y0 + y1 - bend * (x1 - x0)) / 2
            x, y = axes.transData.inverted().transform(middle)
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8}
            axes.text(x, y, edge.operation, ha="center", va="center", fontsize=7, bbox=box)
    for node, (x, y) in places.items():
        name = "in" if node in graph.inputs else "out" if node == graph.output else ""
        axes.plot(x, y, "o", color="0.2" if name else "0.5", markersize=7)
        if name:
            axes.text(x, y + 0.18, name, ha="center", va="bottom", fontsize=8)
    return figure


def _tree(term):
    """Places `(x, depth, node)`, the number of leaves, and the lines between nodes."""
    places, lines, leaves = [], [], 0
    stack, finished = [(term, 0, False)], []
    while stack:
        node, depth, complete = stack.pop()
        if node.arguments and not complete:
            stack.append((node, depth, True))
            stack.extend((argument, depth + 1, False) for argument in reversed(node.arguments))
            continue
        if node.arguments:
            below = finished[len(finished) - len(node.arguments) :]
            del finished[len(finished) - len(node.arguments) :]
            x = (below[0][0] + below[-1][0]) / 2
            lines += [((x, depth), place) for place in below]
        else:
            x, leaves = leaves, leaves + 1
        places.append((x, depth, node))
        finished.append((x, depth))
    return places, leaves, lines


def _layered(graph):
    """Places of the nodes: columns by the longest way from an input, rows around the middle."""
    order = graph.order()
    column = dict.fromkeys(order, 0)
    arriving = {}
    for edge in graph.edges:
        arriving.setdefault(edge.target, []).append(edge.source)
    for node in order:
        column[node] = max((column[source] + 1 for source in arriving.get(node, ())), default=0)
    places, members = {}, {}
    for node in order:
        members.setdefault(column[node], []).append(node)
    for x in sorted(members):
        # Near what a node gets its input from, so that few edges cross.
        height = {
            node: sum(places[s][1] for s in arriving.get(node, ())) / len(arriving.get(node, "1"))
            for node in members[x]
        }
        ordered = sorted(members[x], key=lambda node: (-height[node], node))
        middle = (len(ordered) - 1) / 2
        places |= {node: (x, middle - index) for index, node in enumerate(ordered)}
    return places


def _bend(start, end, before):
    """How much an edge bends: those over columns between, and further ones of the same nodes."""
    over = end[0] - start[0] > 1 and start[1] == end[1]
    return (-_STRETCH if over else 0.0) + _STRETCH * before * (-1 if over else 1)


def _colours(names):
    """A colour for each distinct name, in the order of the alphabet."""
    palette = matplotlib.colormaps["tab20"]
    return {name: palette(index % 20) for index, name in enumerate(sorted(set(names)))}
