import matplotlib
import numpy as np
import pytest

from keras_xd.visualization.images import heatmap, spectra


def colour(name, share):
    return np.array(matplotlib.colormaps[name](share, bytes=True)[:3])


def squares(image, rows, columns):
    """Return the colour of each square, which has to be of one colour."""
    height, width = image.shape[0] // rows, image.shape[1] // columns
    blocks = image.reshape(rows, height, columns, width, 3)
    np.testing.assert_array_equal(blocks, blocks[:, :1, :, :1] + np.zeros_like(blocks))
    return blocks[:, 0, :, 0]


def test_numbers_of_both_signs_are_symmetric_around_white():
    found = squares(heatmap(np.array([[-1.0, 0.0], [2.0, -2.0]])), 2, 2)
    for place, share in np.ndenumerate([[0.25, 0.5], [1.0, 0.0]]):
        np.testing.assert_array_equal(found[place], colour("RdBu_r", share))
    assert found[1, 0, 0] > found[1, 0, 2] and found[1, 1, 0] < found[1, 1, 2]


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((), (256, 256)),
        ((5,), (51, 255)),
        ((3, 7), (108, 252)),
        ((2, 3, 4), (252, 168)),
        ((300, 2), (300, 2)),
        ((1025, 512), (342, 512)),
    ],
)
@pytest.mark.parametrize("dtype", ["bool", "int32", "float16", "complex64"])
def test_every_shape_has_an_image(shape, size, dtype):
    image = heatmap(np.ones(shape, dtype))
    assert image.shape == (*size, 3) and image.dtype == np.uint8


@pytest.mark.parametrize("values", [np.zeros((0, 3)), np.array(["a"]), np.array([None])])
def test_what_cannot_be_drawn_is_refused(values):
    for draw in (heatmap, lambda values: spectra({"values": values})):
        with pytest.raises(ValueError, match="nonempty array of numbers"):
            draw(values)


def test_curves_are_the_singular_values(rng, monkeypatch):
    """Drawn by matplotlib, whose axes get what NumPy says."""
    drawn = {}
    plot = matplotlib.axes.Axes.plot

    def record(self, x, y, *, label, **options):
        drawn[label] = np.asarray(x), np.asarray(y)
        return plot(self, x, y, label=label, **options)

    monkeypatch.setattr(matplotlib.axes.Axes, "plot", record)
    rotation, _ = np.linalg.qr(rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4)))
    arrays = {"matrix": rotation[:, :3] * [3.0, 1.0, 2.0], "list": np.array([1j, -2.0])}
    image = spectra({**arrays, "tensor": np.zeros((2, 2, 2)), "broken": [[np.nan]]}, "title")
    assert set(drawn) == set(arrays) and image.shape == (320, 480, 3)
    np.testing.assert_array_equal(drawn["matrix"][0], [1, 2, 3])
    np.testing.assert_allclose(drawn["matrix"][1], [3.0, 2.0, 1.0], rtol=1e-12)
    np.testing.assert_array_equal(drawn["list"][1], [2.0, 1.0])
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 10
