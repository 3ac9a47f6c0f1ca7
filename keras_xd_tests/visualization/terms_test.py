"""Pictures of terms: what is drawn, and where."""

import pytest

from keras_xd.grammar import parse
from keras_xd.visualization import plot_tree

TERM = parse("(S Residual2 (C Linear2 conv relu) id (OP pool))")


def texts(figure):
    return {text.get_text(): text.get_position() for text in figure.axes[0].texts}


def test_a_tree_has_its_nodes_above_their_arguments():
    figure = plot_tree(TERM)
    places = texts(figure)
    assert places["conv"] == (0, -2) and places["relu"] == (1, -2)
    assert places["C\nLinear2"] == (0.5, -1)
    assert places["id"] == (2, -1) and places["OP\npool"] == (3, -1)
    assert places["S\nResidual2"] == (1.75, 0)
    lines = {tuple(map(tuple, line.get_xydata())) for line in figure.axes[0].lines}
    assert ((0.5, -1.0), (1.0, -2.0)) in lines and len(lines) == TERM.size - 1


def test_too_large_a_tree_is_refused(monkeypatch):
    monkeypatch.setattr("keras_xd.visualization.terms.LARGEST_TREE", 5)
    with pytest.raises(ValueError, match="at most 5 nodes.*Received: a term of 6 nodes"):
        plot_tree(TERM)
    plot_tree(TERM, level=1)
