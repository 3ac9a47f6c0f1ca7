"""AddNIST, MultNIST and CIFARTile: made of labelled images, and read from files."""

import collections

import numpy as np
import pytest

from keras_xd_tests import example_scripts

data = example_scripts.load("datasets.unseen")
images = example_scripts.load("datasets.images")


def marked_images(labels, channels, side):
    """Return images that are constant: the label and the number of the image can be read off."""
    values = labels / 10 + np.arange(len(labels)) / 10_000
    return np.broadcast_to(values[:, None, None, None], (len(labels), side, side, channels))


LABELS = np.arange(50) % 10
DIGITS = marked_images(LABELS, 1, 4)
PICTURES = marked_images(LABELS, 3, 8)


def test_each_class_has_the_triples_of_its_rule():
    add, multiply = data.triples("addnist"), data.triples("multnist")
    assert add[0] == [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
    assert (9, 9, 2) in add[19] and len(add) == 20
    # All triples but (0, 0, 0) and those whose sum is above 20.
    sums = [i + j + k for i in range(10) for j in range(10) for k in range(10)]
    assert sum(map(len, add)) == sum(1 <= total <= 20 for total in sums)
    assert sum(map(len, multiply)) == 1000 and (3, 7, 4) in multiply[4]


@pytest.mark.parametrize("name", ["addnist", "multnist"])
def test_channels_are_digits_whose_class_is_told(name, rng):
    images, classes = data.combine_digits(name, DIGITS, LABELS, 400, rng)
    assert images.shape == (400, 4, 4, 3) and images.dtype == "float32"
    assert (images == images[:, :1, :1]).all()
    digits = np.floor((images[:, 0, 0] * 0.3081 + 0.1307) * 10 + 1e-4).astype(int)
    expected = digits.sum(1) - 1 if name == "addnist" else digits.prod(1) % 10
    np.testing.assert_array_equal(classes, expected)
    assert set(np.bincount(classes)) == {400 // data.CLASSES[name]}
    assert len(np.unique(images[:, 0, 0], axis=0)) > 300  # of many images of each digit


def test_squares_hold_the_number_of_classes(rng):
    squares, counts = data.tile(PICTURES, LABELS, 400, rng, augment=False)
    assert squares.shape == (400, 16, 16, 3) and squares.dtype == "float32"
    pixels = squares * data.CIFAR_DEVIATION + data.CIFAR_MEAN
    corners = pixels[:, ::8, ::8, 0].reshape(400, 4)
    np.testing.assert_allclose(pixels[:, 7::8, 7::8, 0].reshape(400, 4), corners)
    kinds = [sorted(collections.Counter(row).values()) for row in np.floor(corners * 10 + 1e-4)]
    repeats = ([4], [2, 2], [1, 1, 2], [1, 1, 1, 1])
    assert kinds == [repeats[count] for count in counts]
    assert all(len(set(np.round(row, 5))) == 4 for row in corners)  # no image twice in a square
    assert set(np.bincount(counts)) == {100}
    # The same classes stand at other places of other squares.
    firsts = {tuple(row == row[0]) for row in np.floor(corners[counts == 1] * 10 + 1e-4)}
    assert len(firsts) == 3


def write(folder, name, number=3, **changed):
    """Write files as the published ones, with fewer images."""
    rng, side = np.random.default_rng(0), data.SIDES[name]
    arrays = {}
    for part in data.PARTS:
        arrays[f"{part}_x"] = rng.normal(size=(number, 3, side, side)).astype("float32")
        arrays[f"{part}_y"] = np.arange(number) % data.CLASSES[name]
    for file, array in {**arrays, **changed}.items():
        np.save(folder / f"{file}.npy", array)
    return arrays


@pytest.mark.parametrize("name", data.CLASSES)
def test_published_files_are_read(name, tmp_path):
    arrays = write(tmp_path, name)
    parts = data.load(name, tmp_path)
    for part, (images, classes) in zip(data.PARTS, parts, strict=True):
        np.testing.assert_array_equal(images[1, 2, :, 1], arrays[f"{part}_x"][1, 1, 2])
        np.testing.assert_array_equal(classes, arrays[f"{part}_y"])
        assert images.dtype == "float32" and images.shape[1:] == (data.SIDES[name],) * 2 + (3,)
    assert [len(images) for images, _ in data.load(name, tmp_path, subset=2)] == [2, 2, 2]
