import pytest
from matplotlib.patches import Circle, FancyArrowPatch

from keras_xd import visualization
from keras_xd.layers.cells.genotypes import BlockGenotype, CellGenotype
from keras_xd.visualization import cells

CELL = CellGenotype(
    (
        BlockGenotype((("separable_3", 0), ("identity", 1)), "dynamic_5"),
        BlockGenotype((("channel_attention", 1), ("dilated_3", 2)), "identity"),
        BlockGenotype((("dynamic_3", 0), ("average_pooling_3", 3)), "spatial_attention"),
        BlockGenotype((("max_pooling_3", 2), ("xd_3", 4)), "channel_attention"),
    )
)


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_all_nodes_edges_and_symbols_are_drawn():
    (axes,) = cells.plot_cell(CELL, "normal").axes
    assert axes.get_title() == "normal"
    found = texts(axes)
    for node in ("0", "1", "2", "2′", "3", "3′", "4", "4′", "5", "5′", "concat"):
        assert found.count(node) == 1
    circles = [patch for patch in axes.patches if isinstance(patch, Circle)]
    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    # 3 edges and one to the output for each block.
    assert (len(circles), len(arrows)) == (11, 16)
    symbols = [text for text in found if len(text) == 2 and text[0] in "fadx" and text[1].isdigit()]
    assert sorted(symbols) == sorted("f0 f6 d1 a1 f2 f6 d0 f5 a0 f4 x0 a1".split())
    assert [text for text in found if text in {"⊕", "⊕⊙", "⊕⊛"}] == ["⊕", "⊕⊙", "⊕⊛", "⊕"]
    legend = next(text for text in found if ": " in text)
    assert "f0: separable_3" in legend and "x0: xd_3" in legend and "f1" not in legend


def test_bad_arguments():
    with pytest.raises(ValueError, match="`cell`"):
        cells.plot_cell(CELL.to_dict())
    with pytest.raises(ValueError, match="`genotype`"):
        visualization.plot_genotype(CELL)
