"""Loaders of the Long Range Arena: files of the published formats, and bad ones."""

import numpy as np

from keras_xd_tests import example_scripts

long_range = example_scripts.load("datasets.long_range")


def write_reviews(folder, repeat=20):
    for part in ("train", "test"):
        for kind, word in (("neg", "bad"), ("pos", "good")):
            path = folder / "aclImdb" / part / kind
            path.mkdir(parents=True)
            for number in range(2):
                (path / f"{number}_1.txt").write_text(word * repeat + "é" * number)


def test_reviews(tmp_path):
    write_reviews(tmp_path)
    (x, y), (_, labels), vocabulary = long_range.text(tmp_path, length=70)
    assert x.shape == (4, 70) and x.dtype == "int32"
    np.testing.assert_array_equal(y, [0, 0, 1, 1])
    np.testing.assert_array_equal(labels, y)
    assert vocabulary == 3 + len("abdgo")
    # The rare é is unknown, an end follows, then zeros; longer texts are cut.
    np.testing.assert_array_equal(x[0, 57:63], [4, 3, 5, 1, 0, 0])
    np.testing.assert_array_equal(x[1, 59:63], [5, 2, 1, 0])
    assert x[2, -1] == 1 and np.all(x[2, :-1] > 2)
    assert len(long_range.text(tmp_path, subset=1)[0][0]) == 2


def test_pairs(tmp_path):
    lines = ["1.0\t1\t2\t" + "ab" * 20 + "\t" + "ba" * 9, "0.0\t1\t3\tb\t" + "a" * 20]
    for part in ("train", "eval", "test"):
        (tmp_path / f"new_aan_pairs.{part}.tsv").write_text("\n".join(lines) + "\n")
    train, validation, test, vocabulary = long_range.retrieval(tmp_path, length=50)
    assert train[0].shape == (2, 2, 50) and vocabulary == 5
    np.testing.assert_array_equal(train[1], [1, 0])
    np.testing.assert_array_equal(train[0][1, 0, :3], [4, 1, 0])
    np.testing.assert_array_equal(train[0][0, 1, :3], [4, 3, 4])
    for part in (validation, test):
        np.testing.assert_array_equal(part[0], train[0])
    assert len(long_range.retrieval(tmp_path, subset=1)[0][0]) == 1


def test_grey_images(monkeypatch):
    pixels = np.zeros((2, 32, 32, 3), "float32")
    pixels[1, 0, 1] = 1.0
    parts = tuple((pixels, np.array([0, 1])) for _ in range(3))
    monkeypatch.setattr(long_range.images, "load", lambda *_: parts)
    (x, y), _, _ = long_range.image()
    assert x.shape == (2, 1024, 1) and list(y) == [0, 1]
    np.testing.assert_allclose(x[0], -122.6 / 61, rtol=1e-5)
    np.testing.assert_allclose(x[1, 1, 0], (255 - 122.6) / 61, rtol=1e-5)
