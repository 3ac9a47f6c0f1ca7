"""Windows of electrocardiograms, series and DNA: values, splits, bad files."""

import importlib

import numpy as np
import pytest
from scipy import io
from sklearn.model_selection import train_test_split

from keras_xd_tests import example_scripts
from keras_xd_tests.examples.datasets.nas_bench_360 import tiny_files

with example_scripts.on_path():
    sequences = importlib.import_module("datasets.nas_bench_360.sequences")


@pytest.mark.parametrize("number", [11, 16, 8528])
def test_records_are_split_as_by_scikit_learn(number):
    train, others = sequences.split(number, 0.2)
    expected = train_test_split(np.arange(number), test_size=0.2, random_state=0)
    # scikit-learn takes what follows the test set in the order; so does the loader.
    np.testing.assert_array_equal(train, expected[0])
    np.testing.assert_array_equal(others, expected[1])
    halves = sequences.split(len(others), 0.5)
    expected = train_test_split(others, test_size=0.5, random_state=0)
    for places, values in zip(halves, expected, strict=True):
        np.testing.assert_array_equal(others[places], values)


def test_windows_of_records(tmp_path):
    tiny_files.ecg(tmp_path)
    parts = sequences.ecg(tmp_path)
    groups = [set(part.groups.tolist()) for part in parts]
    assert list(map(len, groups)) == [12, 2, 2] and set.union(*groups) == set(range(16))
    for part in parts:
        for group in set(part.groups.tolist()):
            record = io.loadmat(tmp_path / "training2017" / f"A{group:05}.mat")["val"][0]
            record = (record - record.mean()) / record.std()
            rhythm, stride = "NAO~".index("NAO~"[group % 4]), (500, 83, 250, 25)[group % 4]
            starts = range(0, len(record) - 1000, stride)
            windows = part.inputs[part.groups == group]
            assert len(windows) == len(starts)
            for window, start in zip(windows, starts, strict=True):
                expected = record[start : start + 1000]
                np.testing.assert_allclose(window[:, 0], expected, atol=1e-5)
            assert set(part.outputs[part.groups == group]) == {rhythm}


def test_series_of_satellites(tmp_path):
    tiny_files.satellite(tmp_path)
    train, validation, test = sequences.satellite(tmp_path)
    with np.load(tmp_path / "satellite_train.npz") as arrays:
        series = arrays["data"][5]
    expected = (series - series.mean()) / series.std()
    np.testing.assert_allclose(validation.inputs[0, :, 0], expected, atol=1e-5)
    assert train.outputs.tolist() == [0, 1, 2, 3, 4] and validation.outputs.tolist() == [5, 6, 7]
    assert test.outputs.tolist() == [0, 1, 2]
    tiny_files.satellite(tmp_path, (3, 3))
    with pytest.raises(ValueError, match="more series for training .* Received: 3 and 3"):
        sequences.satellite(tmp_path)
    np.savez(tmp_path / "satellite_test.npz", data=np.ones((1, 46)), label=np.zeros(1, "uint8"))
    with pytest.raises(ValueError, match="from 0 to 23. Received: -1.* in satellite_test.npz"):
        sequences.satellite(tmp_path)


def test_chromatin_of_sequences(tmp_path):
    arrays = tiny_files.deepsea(tmp_path)
    for name, part in zip(("train", "val", "test"), sequences.deepsea(tmp_path), strict=True):
        np.testing.assert_array_equal(part.inputs, arrays[f"x_{name}"])
        np.testing.assert_array_equal(part.outputs, arrays[f"y_{name}"])
        assert part.outputs.dtype == "float32"
    path = tmp_path / "deepsea_filtered.npz"
    np.savez(path, **{**arrays, "y_val": arrays["y_val"] + 1})
    with pytest.raises(ValueError, match="y_val .* zeros and ones .* 4 labels from 1 to 2"):
        sequences.deepsea(tmp_path)
    np.savez(path, **{**arrays, "x_test": arrays["x_test"].swapaxes(1, 2)})
    with pytest.raises(ValueError, match=r"x_test in .* \(number, 1000, 4\). Received: shape"):
        sequences.deepsea(tmp_path)
    np.savez(path, **{key: value for key, value in arrays.items() if key != "y_test"})
    with pytest.raises(ValueError, match="must hold the arrays x_test, y_test. Received: x_train"):
        sequences.deepsea(tmp_path)
