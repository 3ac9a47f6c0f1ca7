"""The style of pictures: files that repeat, labels that lie beside their curves and apart."""

from matplotlib.figure import Figure
from matplotlib.image import imread

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
