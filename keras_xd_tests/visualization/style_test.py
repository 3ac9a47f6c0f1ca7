"""The style of pictures: files that repeat, labels that lie beside their curves and apart."""

import pickle

import matplotlib
import matplotlib.colors
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

from keras_xd.visualization import style


def test_the_style_holds_within_its_context_only():
    before = matplotlib.rcParams["font.size"]
    with style.context():
        assert matplotlib.rcParams["font.size"] == style.PARAMETERS["font.size"] != before
    assert matplotlib.rcParams["font.size"] == before


def test_neighbouring_curves_differ_in_grey():
    shades = [
        np.dot(matplotlib.colors.to_rgb(style.curve(i)["color"]), (0.3, 0.59, 0.11))
        for i in range(len(style.COLOURS) + 1)
    ]
    assert np.abs(np.diff(shades)).min() > 0.08
    assert len({str(style.curve(i)) for i in range(8)}) == 8


def test_later_curves_of_several_are_thinner():
    widths = [style.curve(i, 3)["linewidth"] for i in range(3)]
    plain = style.PARAMETERS["lines.linewidth"]
    assert widths[0] > widths[1] > widths[2] == plain == style.curve(2)["linewidth"]


def test_a_file_has_200_dots_per_inch_and_is_always_the_same(tmp_path):
    for name in ("a.png", "b.svg"):
        contents = []
        for _ in range(2):
            figure = Figure(figsize=(2, 1))
            figure.subplots().plot([1, 2])
            style.save(figure, tmp_path / name)
            contents.append((tmp_path / name).read_bytes())
        assert contents[0] == contents[1]
    assert b"<dc:date>" not in contents[0]
    assert imread(tmp_path / "a.png").shape[:2] == (200, 400)


def test_labels_stand_beside_the_ends_and_not_on_each_other():
    figure = Figure(figsize=(3, 2), layout="constrained")
    axes = figure.subplots()
    ends = [1.0, 1.01, 0.0, 0.5]
    for number, end in enumerate(ends):
        axes.plot([0, 1, 2], [0.3, end, np.nan], label=f"curve {number}", **style.curve(number))
    axes.plot([0, 2], [0, 0])
    texts = style.label_lines(axes)
    assert [text.get_text() for text in texts] == ["curve 2", "curve 3", "curve 0", "curve 1"]
    assert [text.get_color() for text in texts] == [style.COLOURS[i] for i in (2, 3, 0, 1)]
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in texts]  # without the lines that join
    inside = axes.get_window_extent()
    for lower, upper in zip(boxes[:-1], boxes[1:], strict=True):
        assert upper.y0 > lower.y0 and not lower.overlaps(upper)
    assert all(box.x0 > inside.x1 for box in boxes)
    assert all(box.x1 <= figure.bbox.x1 + 1 for box in boxes)


def test_labels_follow_their_lines_when_limits_change():
    figure = Figure(figsize=(3, 2), layout="constrained")
    axes = figure.subplots()
    for end in (0.8, 0.9):
        axes.plot([0, 1], [1.0, end], label=f"to {end}")
    texts = style.label_lines(axes)
    low, high = (text.get_position()[1] for text in texts)
    assert low < 0.1 and high > 0.4
    axes.set_ylim(0.0, 1.0)
    axes.set_xlim(0.0, 2.0)
    assert [text.xy for text in texts] == [pytest.approx((0.5, end)) for end in (0.8, 0.9)]
    figure.draw_without_rendering()
    for text, end in zip(texts, (0.8, 0.9), strict=True):
        assert text.get_position()[1] == pytest.approx(end, abs=0.05)
    axes.invert_yaxis()
    assert [text.get_position()[1] for text in texts] == pytest.approx([0.2, 0.1], abs=0.05)


def test_labels_keep_apart_when_the_axes_get_lower(tmp_path):
    figure = Figure(figsize=(3, 3), layout="constrained")
    upper, lower = figure.subplots(2, 1)
    for number in range(3):
        upper.plot([0, 1], [0.0, 1.0], label=f"curve {number}")
    texts = style.label_lines(upper)
    for axes in (upper, lower):
        axes.set(title="two\nlines", xlabel="two\nlines")
    style.save(figure, tmp_path / "low.svg")
    boxes = [Text.get_window_extent(text) for text in texts]
    assert not any(a.overlaps(b) for a, b in zip(boxes[:-1], boxes[1:], strict=True))
    gaps = np.diff([text.get_position()[1] for text in texts])
    height = upper.get_window_extent().height * 72 / figure.dpi
    np.testing.assert_allclose(gaps * height, 9.5, rtol=1e-4)


def test_labelled_figures_are_copied():
    figure = Figure(figsize=(3, 2), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0.0, 1.0], label="curve")
    style.label_lines(axes)
    copied = pickle.loads(pickle.dumps(figure))
    copied.draw_without_rendering()
    assert [text.get_text() for text in copied.axes[0].texts] == ["curve"]


def test_no_drawing_is_needed_to_label_lines(monkeypatch):
    """A layout for each of many axes would take longer than the picture."""
    axes = Figure(figsize=(3, 2), layout="constrained").subplots()
    axes.plot([0, 1], [0.0, 1.0], label="curve")
    monkeypatch.setattr(Figure, "draw", None)
    style.label_lines(axes)


def test_a_line_that_leaves_the_axes_has_its_label_where_it_is_seen_last():
    axes = Figure(figsize=(3, 2), layout="constrained").subplots()
    axes.set(xlim=(0, 4), ylim=(0, 1))
    axes.plot([0, 1, 2, 3, 4], [0.0, 0.5, 0.9, 1.3, 9.0], label="above")
    axes.plot([0, 4], [0.0, 1.0], label="to the corner")
    axes.plot([0, 1, 4], [0.9, 0.1, -1.0], label="below")
    texts = {text.get_text(): text for text in style.label_lines(axes)}
    assert list(texts) == ["below", "to the corner", "above"]
    assert texts["above"].xy == pytest.approx((0.5, 1.0))
    assert texts["below"].xy == pytest.approx((0.25, 0.0))


def test_texts_in_place_of_labels():
    axes = Figure(layout="constrained").subplots()
    axes.plot([1, 2], label="a")
    assert style.label_lines(axes, ["b"])[0].get_text() == "b"
    with pytest.raises(ValueError, match="Received: 2 texts for 1 lines"):
        style.label_lines(axes, ["b", "c"])


@pytest.mark.parametrize("seed", range(5))
def test_heights_lie_apart_and_near(seed):
    heights = np.sort(np.random.default_rng(seed).random(6)).tolist()
    moved = style.apart(heights, 0.1)
    assert np.diff(moved).min() > 0.1 - 1e-5 and 0 <= min(moved) and max(moved) <= 1
    assert style.apart([0.1, 0.4, 0.9], 0.1) == [0.1, 0.4, 0.9]
    assert style.apart([0.0, 0.0], 0.1, lowest=0.2) == [0.2, 0.3]
