"""The style of pictures: files that repeat, labels that lie beside their curves and apart."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

from keras_xd.visualization import style


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
