"""Images and signals that are classified: values, order of the axes, splits, bad files."""

import importlib

import numpy as np
import pytest

from keras_xd_tests import example_scripts
from keras_xd_tests.examples.datasets.nas_bench_360 import tiny_files

with example_scripts.on_path():
    images = importlib.import_module("datasets.nas_bench_360.images")


def test_records_of_cifar100(tmp_path):
    tiny_files.cifar100(tmp_path)
    train, validation, test = images.cifar100(tmp_path)
    assert train.outputs.tolist() == list(range(8)) and validation.outputs.tolist() == [8, 9]
    record = np.fromfile(tmp_path / "cifar-100-binary" / "test.bin", "uint8")[3074:6148]
    # Planes of red, green and blue, row by row, behind both classes.
    green = record[2 + 1024 + 5 * 32 + 7]
    expected = (green / 255 - 0.4867) / 0.2565
    assert test.inputs[1, 5, 7, 1] == pytest.approx(expected, abs=1e-5)
    # The folder of the two files does as well.
    (again, *_) = images.cifar100(tmp_path / "cifar-100-binary")
    np.testing.assert_array_equal(again.inputs, train.inputs)


def test_spheres(tmp_path):
    arrays = tiny_files.spherical(tmp_path)
    train, validation, test = images.spherical(tmp_path)
    expected = arrays["train_images"][9].transpose(1, 2, 0)
    np.testing.assert_array_equal(validation.inputs[1], expected)
    np.testing.assert_array_equal(test.outputs, arrays["test_labels"])
    assert train.outputs.tolist() == list(range(8))
    tiny_files.spherical(tmp_path, test_images=np.zeros((4, 60, 60, 3)))
    with pytest.raises(ValueError, match=r"\(number, 3, 60, 60\). Received: shape \(4, 60, 60, 3"):
        images.spherical(tmp_path)
    tiny_files.spherical(tmp_path, train_labels=np.arange(10) + 95)
    with pytest.raises(ValueError, match="from 0 to 99. Received: .* in s2_cifar100.npz"):
        images.spherical(tmp_path)


def test_signals_of_muscles(tmp_path):
    tiny_files.ninapro(tmp_path)
    parts = images.ninapro(tmp_path)
    for name, part in zip(("train", "val", "test"), parts, strict=True):
        signals = np.load(tmp_path / f"ninapro_{name}.npy")
        # The electrode is the first axis, the step the second.
        np.testing.assert_allclose(part.inputs[2, 3, 50, 0], signals[2, 50, 3], rtol=1e-6)
        np.testing.assert_array_equal(part.outputs, np.load(tmp_path / f"label_{name}.npy"))
    np.save(tmp_path / "label_val.npy", np.array([0, 1, 2, 18]))
    with pytest.raises(ValueError, match="from 0 to 17. Received: 0 to 18 .* in label_val.npy"):
        images.ninapro(tmp_path)
    np.save(tmp_path / "ninapro_val.npy", np.zeros((4, 16, 52)))
    with pytest.raises(ValueError, match=r"ninapro_val.npy .* \(number, 52, 16\). Received: shape"):
        images.ninapro(tmp_path)
