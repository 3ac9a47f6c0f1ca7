"""Files of plain arrays are read, all others refused with their names."""

import numpy as np
import pytest

from keras_xd_tests import example_scripts
from keras_xd_tests.examples.datasets.object_files import object_array

files = example_scripts.load("datasets.plain_files")


def test_plain_arrays_are_read(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    path = files.find(tmp_path, "a.npy", "the task")
    np.testing.assert_array_equal(files.read_array(path), [0, 1, 2])
    np.testing.assert_array_equal(files.read_array(path, memory_map=True), [0, 1, 2])
    np.savez(tmp_path / "b.npz", x=np.ones(2), y=np.zeros(1))
    y, x = files.read_arrays(tmp_path / "b.npz", ("y", "x"))
    assert (y.tolist(), x.tolist()) == ([0], [1, 1])


@pytest.mark.parametrize("content", [object_array(), b"no array at all", b""])
def test_other_files_are_refused(tmp_path, content):
    for name in ("a.npy", "a.npz"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="pickled objects are not loaded.* Received: a.npy"):
        files.read_array(tmp_path / "a.npy")
    with pytest.raises(ValueError, match="pickled objects are not loaded.* Received: a.npz"):
        files.read_arrays(tmp_path / "a.npz", ("x",))


def test_what_is_missing_is_said(tmp_path):
    for folder, received in ((None, "data_dir=None"), (tmp_path, repr(str(tmp_path)))):
        with pytest.raises(ValueError, match="The folder of the task must hold a.npy") as caught:
            files.find(folder, "a.npy", "the task")
        assert received in str(caught.value)
    np.savez(tmp_path / "b.npz", x=np.ones(2))
    with pytest.raises(ValueError, match="b.npz must hold the arrays x, y. Received: x"):
        files.read_arrays(tmp_path / "b.npz", ("x", "y"))


def test_labels_are_checked():
    found = files.check_labels(np.array([0.0, 2.0]), 2, 3, "y.npy")
    assert found.dtype == "int64" and found.tolist() == [0, 2]
    with pytest.raises(ValueError, match=r"0 samples and classes of shape \(0,\)"):
        files.check_labels(np.zeros(0), 0, 3, "y.npy")
    with pytest.raises(ValueError, match=r"2 samples and classes of shape \(2, 1\) in y.npy"):
        files.check_labels(np.zeros((2, 1)), 2, 3, "y.npy")
    for labels in ([0, 3], [-1, 0], [0.5, 1], [np.nan, 1]):
        with pytest.raises(ValueError, match="from 0 to 2. Received: .* in y.npy"):
            files.check_labels(np.array(labels), 2, 3, "y.npy")
