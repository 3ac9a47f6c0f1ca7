"""Data of the examples on differential equations: exact solutions, files, bad arguments."""

import numpy as np
import pytest
from scipy import io

from keras_xd_tests import example_scripts

pde = example_scripts.load("datasets.pde")


# Burgers


def cole_hopf(potential, points, viscosity, time):
    """Return the exact solution whose start is the derivative of `potential(x)`.

    `φ = exp(-potential / 2ν)` solves the heat equation, and `u = -2ν φ_x / φ`.
    """
    x = 2 * np.pi * np.arange(points) / points
    spectrum = np.fft.fft(np.exp(-potential(x) / (2 * viscosity)))
    frequencies = np.fft.fftfreq(points, 1 / points)
    spectrum = spectrum * np.exp(-viscosity * frequencies**2 * time)
    slope = np.fft.ifft(1j * frequencies * spectrum)
    return np.real(-2 * viscosity * slope / np.fft.ifft(spectrum))


@pytest.mark.parametrize("time", [0.3, 1.0])
def test_burgers_is_solved_exactly(time):
    potentials = [
        lambda x: -np.cos(x),
        lambda x: 0.5 * np.sin(x) - 0.3 * np.cos(2 * x + 1) + 0.05 * np.sin(5 * x),
    ]
    x = 2 * np.pi * np.arange(256) / 256
    initial = np.stack(
        [np.sin(x), 0.5 * np.cos(x) + 0.6 * np.sin(2 * x + 1) + 0.25 * np.cos(5 * x)]
    )
    exact = np.stack([cole_hopf(potential, 256, 0.1, time) for potential in potentials])
    np.testing.assert_allclose(pde.solve_burgers(initial, 0.1, time), exact, atol=1e-8)
    assert np.abs(exact - initial).max() > 0.1


def test_generated_burgers():
    (inputs, outputs), (test_inputs, _) = pde.burgers(64, train=3, test=2)
    assert inputs.shape == (3, 64, 2) and outputs.shape == (3, 64, 1)
    assert inputs.dtype == outputs.dtype == "float32"
    np.testing.assert_allclose(inputs[1, :, 1], 2 * np.pi * np.arange(64) / 64, rtol=1e-6)
    assert not np.isin(test_inputs[..., 0], inputs[..., 0]).any()
    # 32 points hold another part of the same functions, and 96 do not divide the solver's grid.
    (coarse, coarse_outputs), _ = pde.burgers(32, train=3, test=2)
    np.testing.assert_allclose(coarse[..., 0], inputs[:, ::2, 0], atol=1e-6)
    np.testing.assert_allclose(coarse_outputs, outputs[:, ::2], atol=1e-6)
    (finer, finer_outputs), _ = pde.burgers(96, train=3, test=2)
    np.testing.assert_allclose(finer[:, ::3, 0], inputs[:, ::2, 0], atol=1e-6)
    np.testing.assert_allclose(finer_outputs[:, ::3], outputs[:, ::2], atol=1e-6)
    assert not np.allclose(pde.burgers(64, train=3, test=2, seed=1)[0][0], inputs)


def test_the_start_of_burgers_has_its_covariance(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(pde, "solve_burgers", lambda initial: initial)
        initial, _ = pde.generate_burgers(200, 64)
    assert np.abs(initial.mean(axis=1)).max() < 0.01  # aliases of the 64th mode at most
    spectrum = np.abs(np.fft.rfft(initial)[:, 1:4] / 32) ** 2 / 2
    expected = 2 * 625 / ((2 * np.pi * np.arange(1, 4)) ** 2 + 25) ** 2
    # The mean of 400 squares of normal numbers, within four standard deviations.
    np.testing.assert_allclose(spectrum.mean(axis=0), expected, rtol=4 * np.sqrt(2 / 400))
    initial, final = pde.generate_burgers(20, 64)
    assert np.all(np.sum(final**2, axis=1) < np.sum(initial**2, axis=1))  # energy is lost


def test_symmetries_of_burgers_are_solutions(rng):
    x = 2 * np.pi * np.arange(64) / 64
    start = np.stack([np.sin(x) + 0.3, np.cos(2 * x) - 0.1])
    solution = pde.solve_burgers(start)
    inputs = np.stack([start, np.broadcast_to(x, start.shape)], axis=-1)[[0, 1] * 20]
    outputs = solution[[0, 1] * 20][..., None]
    moved, moved_outputs = pde.burgers_symmetry(inputs, outputs, rng)
    np.testing.assert_allclose(pde.solve_burgers(moved[..., 0]), moved_outputs[..., 0], atol=1e-8)
    np.testing.assert_array_equal(moved[..., 1], inputs[..., 1])
    means = moved[::2, :, 0].mean(axis=1)  # reflected ones have the opposite sign
    assert sorted(set(np.round(means, 6))) == [-0.3, 0.3]
    assert len({tuple(np.round(one, 6)) for one in moved[::2, :, 0]}) > 10
    np.testing.assert_array_equal(inputs[0, :, 0], start[0])  # the given ones are kept


@pytest.mark.real_data("KERAS_XD_DATA_DIR", "burgers1d.npz")
def test_burgers_is_read(data_path):
    (inputs, outputs), (test_inputs, _) = pde.burgers(256, data_path.parent, train=5, test=3)
    assert inputs.shape == (5, 256, 2) and outputs.shape == (5, 256, 1)
    assert test_inputs.shape == (3, 256, 2)
    by_variable = pde.burgers(256, train=5, test=3)
    np.testing.assert_array_equal(by_variable[0][0], inputs)
    with np.load(data_path) as arrays:
        np.testing.assert_array_equal(outputs[..., 0], arrays["u_train"][:5, ::4])
        np.testing.assert_array_equal(test_inputs[..., 0], arrays["u0_test"][:3, ::4])
    solved = pde.solve_burgers(inputs[..., 0].astype("float64"))
    # 256 points of the file cut the start's highest frequencies.
    np.testing.assert_allclose(solved, outputs[..., 0], atol=2e-3)


# Darcy


def dense_darcy(coefficient, source):
    """Return the solution by a dense matrix, put together flux by flux."""
    nodes = len(coefficient)
    matrix = np.eye(nodes**2)
    right = np.zeros(nodes**2)
    for i in range(1, nodes - 1):
        for j in range(1, nodes - 1):
            row = i * nodes + j
            matrix[row] = 0
            right[row] = source[i, j] / (nodes - 1) ** 2
            for k, m in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
                mean = (coefficient[i, j] + coefficient[k, m]) / 2
                matrix[row, row] += mean
                matrix[row, k * nodes + m] -= mean
    return np.linalg.solve(matrix, right).reshape(nodes, nodes)


def test_darcy_solves_its_equations(rng):
    coefficient = np.where(rng.random((3, 12, 12)) < 0.5, 3.0, 12.0)
    source = rng.normal(size=(3, 12, 12))
    expected = [dense_darcy(*pair) for pair in zip(coefficient, source, strict=True)]
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        pde.solve_darcy(coefficient, source), expected, atol=1e-8 * scale, rtol=0
    )


def test_symmetries_of_darcy_are_solutions(rng):
    coefficient = np.where(rng.random((1, 9, 9)) < 0.5, 3.0, 12.0)
    coordinates = np.broadcast_to(rng.normal(size=(1, 9, 9, 2)), (40, 9, 9, 2))
    inputs = np.concatenate([coefficient[[0] * 40][..., None], coordinates], axis=-1)
    outputs = pde.solve_darcy(coefficient)[[0] * 40][..., None]
    turned, turned_outputs = pde.darcy_symmetry(inputs, outputs, rng)
    solved = pde.solve_darcy(turned[..., 0])
    np.testing.assert_allclose(solved, turned_outputs[..., 0], atol=1e-9)
    np.testing.assert_array_equal(turned[..., 1:], coordinates)
    assert len({one.tobytes() for one in turned[..., 0]}) == 8
    orbit = [pde.turned(coefficient[..., None], number) for number in range(8)]
    assert len({one.tobytes() for one in orbit}) == 8
    np.testing.assert_array_equal(inputs[:, ..., 0], coefficient[[0] * 40])


def test_generated_darcy():
    (inputs, outputs), (test_inputs, _) = pde.darcy(9, train=4, test=2)
    assert inputs.shape == (4, 9, 9, 3) and outputs.shape == (4, 9, 9, 1)
    assert inputs.dtype == outputs.dtype == "float32"
    assert set(np.unique(inputs[..., 0])) == {3, 12}
    np.testing.assert_array_equal(inputs[0, :, 4, 1], np.linspace(0, 1, 9, dtype="float32"))
    np.testing.assert_array_equal(inputs[0, 4, :, 2], np.linspace(0, 1, 9, dtype="float32"))
    border = [outputs[:, 0], outputs[:, -1], outputs[:, :, 0], outputs[:, :, -1]]
    assert all(np.all(side == 0) for side in border) and np.all(outputs[:, 1:-1, 1:-1] > 0)
    assert not np.array_equal(test_inputs[:2], inputs[:2])
    (coarse, _), _ = pde.darcy(5, train=4, test=2)
    np.testing.assert_array_equal(coarse, inputs[:, ::2, ::2])
    # Of one grid of nodes the solutions are the same, too.
    (coarse, solutions), _ = pde.darcy(5, train=4, test=2, nodes=17)
    np.testing.assert_array_equal(coarse, inputs[:, ::2, ::2])
    np.testing.assert_array_equal(solutions, outputs[:, ::2, ::2])
    # Between the solutions for a = 12 and a = 3 everywhere: the equation has a maximum principle.
    bounds = pde.solve_darcy(np.full((2, 17, 17), [[[12.0]], [[3.0]]]))[:, ::2, ::2]
    assert np.all(outputs[:, 4, 4, 0] > bounds[0, 4, 4])
    assert np.all(outputs[:, 4, 4, 0] < bounds[1, 4, 4])


def test_published_files_are_read(tmp_path, rng):
    a, u = rng.normal(size=(2, 5, 8)).astype("float32")
    io.savemat(tmp_path / "burgers_data_R10.mat", {"a": a, "u": u})
    (inputs, outputs), (others, _) = pde.burgers(4, tmp_path, train=3, test=2)
    np.testing.assert_array_equal(inputs[..., 0], a[:3, ::2])
    np.testing.assert_array_equal(outputs[..., 0], u[:3, ::2])
    np.testing.assert_array_equal(others[..., 0], a[3:, ::2])
    with pytest.raises(ValueError, match="from 1 to 1, .*burgers_data_R10.mat. Received: test=2"):
        pde.burgers(4, tmp_path, train=4, test=2)
    fields = rng.normal(size=(2, 2, 3, 7, 7)).astype("float32")
    for name, (coefficient, solution) in zip(pde.PUBLISHED[pde.DARCY_FILE], fields, strict=True):
        io.savemat(tmp_path / name, {"coeff": coefficient, "sol": solution})
    (inputs, outputs), (others, _) = pde.darcy(4, tmp_path, train=3, test=1)
    np.testing.assert_array_equal(inputs[..., 0], fields[0, 0, :, ::2, ::2])
    np.testing.assert_array_equal(outputs[..., 0], fields[0, 1, :, ::2, ::2])
    np.testing.assert_array_equal(others[..., 0], fields[1, 0, :1, ::2, ::2])
