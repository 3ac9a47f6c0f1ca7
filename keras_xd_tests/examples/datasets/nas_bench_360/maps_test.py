"""Darcy flow and cosmic rays: values, splits, bad files."""

import importlib

import numpy as np
import pytest
from scipy import io

from keras_xd_tests import example_scripts
from keras_xd_tests.examples.datasets.nas_bench_360 import tiny_files

with example_scripts.on_path():
    maps = importlib.import_module("datasets.nas_bench_360.maps")


@pytest.mark.parametrize("version", [5, 7.3])
def test_darcy_flow(version, tmp_path):
    (fields, tests) = tiny_files.darcy(tmp_path, version=version)
    train, validation, test = maps.darcy(tmp_path)
    coefficient = fields["coeff"][:9, ::5, ::5]
    mean, deviation = coefficient.mean(axis=0), coefficient.std(axis=0, ddof=1)
    for part, raw, places in (
        (train, fields, slice(9)),
        (validation, fields, slice(9, 10)),
        (test, tests, slice(4)),
    ):
        expected = (raw["coeff"][places, ::5, ::5] - mean) / (deviation + 1e-5)
        # One channel of the coefficient of ±, so rounding of the deviation counts.
        np.testing.assert_allclose(part.inputs[..., 0], expected, rtol=1e-4, atol=1e-4)
        solution = raw["sol"][places, ::5, ::5]
        np.testing.assert_allclose(part.outputs[..., 0], solution, rtol=1e-6)
    np.testing.assert_allclose(train.inputs[3, 0, :, 1], [0, 0.5, 1])  # along the columns
    np.testing.assert_allclose(train.inputs[3, :, 0, 2], [0, 0.5, 1])  # along the rows
    finer, *_ = maps.darcy(tmp_path, step=2)
    assert finer.inputs.shape == (9, 6, 6, 3)


def test_bad_files_of_darcy(tmp_path):
    tiny_files.darcy(tmp_path)
    with pytest.raises(ValueError, match=r"multiple of 3. Received: shape \(10, 11, 11\)"):
        maps.darcy(tmp_path, step=3)
    name = maps.DARCY_FILES[1]
    io.savemat(tmp_path / name, {"coeff": np.ones((4, 11, 11)), "sol": np.ones((3, 11, 11))})
    with pytest.raises(ValueError, match="a solution for each coefficient. Received: 4 and 3"):
        maps.darcy(tmp_path)
    io.savemat(tmp_path / name, {"coeff": np.ones((4, 11, 11))})
    with pytest.raises(ValueError, match="a MATLAB file with the array `sol`"):
        maps.darcy(tmp_path)
    (tmp_path / name).write_bytes(b"no MATLAB file")
    with pytest.raises(ValueError, match="smooth2.mat must be a MATLAB file"):
        maps.darcy(tmp_path)


def test_cosmic_rays(tmp_path):
    tiny_files.cosmic(tmp_path)
    train, validation, test = maps.cosmic(tmp_path, sky=(2.0, 2.0))
    # Three images each of two visits in the order of their paths; the visit without galaxies is
    # left out, the last image is for validation.
    for part, index, path, background in (
        (train, 0, "npy_train/f435w/10760/2/1_crop.npy", 10),
        (train, 4, "npy_train/f435w/12058/16/2_crop.npy", 11),
        (validation, 0, "npy_train/f435w/12058/16/3_crop.npy", 12),
        (test, 1, "npy_test/f435w/12058/16/1_crop.npy", 10),
    ):
        layers = np.load(tmp_path / path)[:, 64:192, 64:192]
        np.testing.assert_allclose(
            part.inputs[index, ..., 0], layers[0] + 2 * background, rtol=1e-6
        )
        np.testing.assert_array_equal(part.outputs[index, ..., 0], layers[1])
        np.testing.assert_array_equal(part.weights[index], 1 - layers[2])
    spread = maps.cosmic(tmp_path)[0].inputs.mean(axis=(1, 2, 3)) / [10, 11, 12, 10, 11]
    assert spread.min() > -1 and spread.max() < 3.1 and spread.std() > 0.1


def test_what_images_of_cosmic_may_lack(tmp_path):
    tiny_files.cosmic(tmp_path)
    visit = tmp_path / "npy_test" / "f435w" / "10760" / "2"
    (visit / "sky.npy").unlink()
    layers = np.load(visit / "1_crop.npy")[:2]
    np.save(visit / "1_crop.npy", layers)
    test = maps.cosmic(tmp_path)[2]
    np.testing.assert_array_equal(test.inputs[0, ..., 0], layers[0, 64:192, 64:192])
    assert (test.weights[0] == 1).all() and not (test.weights[1] == 1).all()


def test_bad_images_of_cosmic(tmp_path):
    tiny_files.cosmic(tmp_path)
    visit = tmp_path / "npy_test" / "f435w" / "10760" / "2"
    np.save(visit / "1_crop.npy", np.zeros((3, 256, 191)))
    with pytest.raises(ValueError, match=r"192 pixels .* 1_crop.npy of shape \(3, 256, 191\)"):
        maps.cosmic(tmp_path)
    np.save(visit / "1_crop.npy", np.full((3, 256, 256), 2.0))
    with pytest.raises(ValueError, match="zeros and ones. Received: 0.0 to 2.0"):
        maps.cosmic(tmp_path)
    (visit / "1_crop.npy").rename(visit / "3_crop.npy")
    with pytest.raises(ValueError, match="its number, 1 to 2, .* Received: 3_crop.npy"):
        maps.cosmic(tmp_path)
