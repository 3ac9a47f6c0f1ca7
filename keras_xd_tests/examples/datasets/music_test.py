"""Pieces of music from files of the published format, and what is wrong with files."""

import numpy as np
from scipy import io

from keras_xd_tests import example_scripts

music = example_scripts.load("datasets.music")


def cells(*lengths, keys=88):
    row = np.empty((1, len(lengths)), object)
    for index, length in enumerate(lengths):
        row[0, index] = np.eye(length, keys)
    return row


def test_tunes_are_read_as_they_are_published(tmp_path):
    parts = {"traindata": cells(5, 3), "validdata": cells(4), "testdata": cells(2)}
    io.savemat(tmp_path / "Nottingham.mat", parts)
    train, validation, test = music.load(tmp_path, "nottingham")
    assert [piece.shape for piece in train] == [(5, 88), (3, 88)]
    assert (len(validation), len(test), train[0].dtype) == (1, 1, np.uint8)
    np.testing.assert_array_equal(train[1], np.eye(3, 88))
