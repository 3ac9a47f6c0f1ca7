"""Flows of the examples: exact solutions, refined solvers, files, bad arguments."""

import h5py
import numpy as np
import pytest

from keras_xd_tests import example_scripts

flows = example_scripts.load("datasets.navier_stokes")


@pytest.mark.parametrize("rows, columns", [(1, 1), (3, 3), (0, 5)])
def test_a_flow_that_only_decays_is_solved_exactly(rows, columns):
    """`v·∇w` vanishes for one wave length, so that `w` decays by the exponential function."""
    x = 2 * np.pi * np.arange(32) / 32
    start = np.cos(rows * x)[:, None] * np.sin(columns * x + 1)
    found = flows.solve_navier_stokes(start[None], 1e-2, 0.7, forced=False)[0]
    rate = 4 * np.pi**2 * (rows**2 + columns**2) * 1e-2
    np.testing.assert_allclose(found, start * np.exp(-rate * 0.7), atol=1e-12)


def test_the_force_acts_along_the_diagonal():
    """From rest `w = f (1 - exp(-8π² ν t)) / 8π² ν`: the flow is parallel, nothing is advected."""
    found = flows.solve_navier_stokes(np.zeros((1, 32, 32)), 1e-2, 2.0)[0]
    x = 2 * np.pi * np.arange(32) / 32
    phase, rate = x[:, None] + x, 8 * np.pi**2 * 1e-2
    expected = 0.1 * (np.sin(phase) + np.cos(phase)) * (1 - np.exp(-rate * 2)) / rate
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_a_refined_solver_agrees():
    start = flows.initial_vorticity(range(2), 64)
    finer = flows.initial_vorticity(range(2), 128)
    np.testing.assert_allclose(finer[:, ::2, ::2], start, atol=1e-12)
    found = flows.solve_navier_stokes(start, 1e-3, 2.0)
    refined = flows.solve_navier_stokes(finer, 1e-3, 2.0, courant=0.1)[:, ::2, ::2]
    assert np.abs(found - refined).max() < 1e-4 * np.abs(refined).max()
    assert np.abs(found - start).max() > 0.3 * np.abs(start).max()


def test_starts_have_their_covariance():
    spectrum = np.fft.fft2(flows.initial_vorticity(range(400), 64)) / 64**2
    for k in ((1, 0), (0, 2), (3, 4)):
        expected = 2 * 7**3 * (4 * np.pi**2 * (k[0] ** 2 + k[1] ** 2) + 49) ** -2.5
        values = np.abs(spectrum[:, k[0], k[1]]) ** 2
        np.testing.assert_allclose(values.mean(), expected, rtol=4 / np.sqrt(400))
    assert np.abs(spectrum[:, 0, 0]).max() < 1e-12


def test_generated_flows_and_files(tmp_path):
    train, test = flows.navier_stokes(16, 2, train=3, test=1)
    assert train.shape == (3, 16, 16, 2) and test.shape == (1, 16, 16, 2)
    assert train.dtype == "float32" and np.isfinite(train).all()
    alone = flows.generate_navier_stokes(4, 16, 2, grid=64)
    np.testing.assert_allclose(np.concatenate([train, test]), alone, atol=1e-6)
    with h5py.File(tmp_path / "flows.mat", "w") as file:
        file["u"] = np.transpose(alone, (3, 2, 1, 0))
    read = flows.navier_stokes(8, 2, train=3, test=1, path=tmp_path / "flows.mat")
    np.testing.assert_array_equal(read[0], alone[:3, ::2, ::2])
    np.testing.assert_array_equal(read[1], alone[3:, ::2, ::2])
    with pytest.raises(ValueError, match="has 4 flows at 2 times on 16 points. Received: .*=3"):
        flows.navier_stokes(8, 3, train=1, test=1, path=tmp_path / "flows.mat")
    with h5py.File(tmp_path / "other.mat", "w") as file:
        file["a"] = np.zeros(3)
    with pytest.raises(ValueError, match="other.mat must be a MATLAB file with the array `u`"):
        flows.navier_stokes(8, 2, path=tmp_path / "other.mat")
    with pytest.raises(ValueError, match="must exist.*neuraloperator"):
        flows.navier_stokes(path=tmp_path / "none.mat")
