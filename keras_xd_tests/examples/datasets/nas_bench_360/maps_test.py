"""Darcy flow and cosmic rays: values, splits, bad files."""

import importlib

import numpy as np
import pytest

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
