"""Pictures of terms: what is drawn, and where."""

import numpy as np
import pytest
from matplotlib.patches import FancyArrowPatch

from keras_xd.grammar import parse
from keras_xd.grammar.graphs import network_graph
from keras_xd.visualization import plot_network, plot_tree

TERM = parse("(S Residual2 (C Linear2 conv relu) id (OP pool))")


def texts(figure):
    return {text.get_text(): text.get_position() for text in figure.axes[0].texts}


def arrows(figure):
    found = [text.arrow_patch for text in figure.axes[0].texts if not text.get_text()]
    assert all(isinstance(arrow, FancyArrowPatch) for arrow in found)
    return found


def test_a_tree_has_its_nodes_above_their_arguments():
    figure = plot_tree(TERM)
    places = texts(figure)
    assert places["conv"] == (0, -2) and places["relu"] == (1, -2)
    assert places["C\nLinear2"] == (0.5, -1)
    assert places["id"] == (2, -1) and places["OP\npool"] == (3, -1)
    assert places["S\nResidual2"] == (1.75, 0)
    lines = {tuple(map(tuple, line.get_xydata())) for line in figure.axes[0].lines}
    assert ((0.5, -1.0), (1.0, -2.0)) in lines and len(lines) == TERM.size - 1


def test_a_network_has_its_operations_between_its_nodes():
    figure = plot_network(TERM)
    places = texts(figure)
    assert set(places) == {"", "conv", "relu", "id", "pool", "in", "out"}
    # From left to right: in, conv, relu, pool, out; id beside them.
    assert places["in"][0] == 0 and places["out"][0] == 3
    assert [places[name][0] for name in ("conv", "relu", "pool")] == pytest.approx([0.5, 1.5, 2.5])
    assert places["id"][0] == pytest.approx(1.5)
    assert places["id"][1] > places["relu"][1]
    drawn = arrows(figure)
    assert len(drawn) == len(network_graph(TERM).edges) == 4
    assert [arrow.get_linestyle() for arrow in drawn].count("--") == 1
    assert figure.axes[0].get_legend() is None  # the names stand on the edges
    (curve,) = (arrow for arrow in drawn if arrow.get_linestyle() == "--")
    figure.draw_without_rendering()
    bent = figure.axes[0].transData.inverted().transform(curve.get_path().vertices[:3])
    np.testing.assert_allclose(places["id"], np.dot([0.25, 0.5, 0.25], bent), atol=0.05)
    # No two edges lie on each other.
    assert len({tuple(np.round(place, 3)) for name, place in places.items() if name}) == 6


def test_too_large_a_tree_is_refused(monkeypatch):
    monkeypatch.setattr("keras_xd.visualization.terms.LARGEST_TREE", 5)
    with pytest.raises(ValueError, match="at most 5 nodes.*Received: a term of 6 nodes"):
        plot_tree(TERM)
    plot_tree(TERM, level=1)
