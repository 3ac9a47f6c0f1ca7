"""The examples on differential equations: exact solutions, files, a small run of each script."""

import contextlib
import importlib
import json
import pathlib
import sys

import keras
import numpy as np
import pytest

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
SMALL = ("--epochs", "2", "--train", "12", "--test", "4", "--batch-size", "6", "--no-jit")
TINY = ("--width", "3", "--modes", "3")


@contextlib.contextmanager
def examples_on_path():
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield
    finally:
        sys.path.remove(str(EXAMPLES))


with examples_on_path():
    pde = importlib.import_module("datasets.pde")
    experiment = importlib.import_module("pde_experiment")
    report = importlib.import_module("pde_report")
    scripts = {name: importlib.import_module(name) for name in ("burgers", "darcy")}


@pytest.fixture(autouse=True)
def no_data_folder(request, monkeypatch):
    """Data are generated unless a test asks for the real ones."""
    if request.node.get_closest_marker("real_data") is None:
        monkeypatch.delenv(pde.VARIABLE, raising=False)


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


def test_the_start_of_burgers_has_its_covariance():
    initial, final = pde.generate_burgers(400, 64)
    assert np.abs(initial.mean(axis=1)).max() < 0.01  # aliases of the 64th mode at most
    spectrum = np.abs(np.fft.rfft(initial)[:, 1:4] / 32) ** 2 / 2
    expected = 2 * 625 / ((2 * np.pi * np.arange(1, 4)) ** 2 + 25) ** 2
    # The mean of 800 squares of normal numbers, within four standard deviations.
    np.testing.assert_allclose(spectrum.mean(axis=0), expected, rtol=4 * np.sqrt(2 / 800))
    assert np.all(np.sum(final**2, axis=1) < np.sum(initial**2, axis=1))  # energy is lost


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


def test_darcy_is_of_second_order():
    """-∇·(a ∇u) for a = 1 + x y and u = sin(πx) sin(2πy), by hand."""
    errors = []
    for nodes in (17, 33):
        x, y = np.meshgrid(*[np.linspace(0, 1, nodes)] * 2, indexing="ij")
        u = np.sin(np.pi * x) * np.sin(2 * np.pi * y)
        slope_x = np.pi * np.cos(np.pi * x) * np.sin(2 * np.pi * y)
        slope_y = 2 * np.pi * np.sin(np.pi * x) * np.cos(2 * np.pi * y)
        source = 5 * np.pi**2 * (1 + x * y) * u - y * slope_x - x * slope_y
        errors.append(np.abs(pde.solve_darcy((1 + x * y)[None], source[None])[0] - u).max())
    assert errors[1] < 0.01
    assert 1.9 < np.log2(errors[0] / errors[1]) < 2.1


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
    # Between the solutions for a = 12 and a = 3 everywhere: the equation has a maximum principle.
    bounds = pde.solve_darcy(np.full((2, 17, 17), [[[12.0]], [[3.0]]]))[:, ::2, ::2]
    assert np.all(outputs[:, 4, 4, 0] > bounds[0, 4, 4])
    assert np.all(outputs[:, 4, 4, 0] < bounds[1, 4, 4])


@pytest.mark.real_data("KERAS_XD_DATA_DIR", "darcy85.npz")
def test_darcy_is_read(data_path):
    (inputs, outputs), (_, test_outputs) = pde.darcy(43, data_path.parent, train=5, test=3)
    assert inputs.shape == (5, 43, 43, 3) and outputs.shape == (5, 43, 43, 1)
    with np.load(data_path) as arrays:
        np.testing.assert_array_equal(inputs[..., 0], arrays["a_train"][:5, ::2, ::2])
        np.testing.assert_array_equal(test_outputs[..., 0], arrays["u_test"][:3, ::2, ::2])
        solved = pde.solve_darcy(arrays["a_train"][:2].astype("float64"))
        # The file was solved on 421 nodes, where the jumps of `a` lie elsewhere.
        error = np.linalg.norm(solved - arrays["u_train"][:2]) / np.linalg.norm(solved)
    assert error < 0.02


def test_data_refuse_nonsense(tmp_path, rng):
    with pytest.raises(ValueError, match="must hold burgers1d.npz.*Received: '.*none'"):
        pde.burgers(64, tmp_path / "none")
    with pytest.raises(ValueError, match="must hold darcy85.npz"):
        pde.darcy(43, tmp_path)
    arrays = {
        f"{n}_{p}": rng.normal(size=(3, 1024)) for n in ("u0", "u") for p in ("train", "test")
    }
    np.savez(tmp_path / "burgers1d.npz", **arrays)
    assert pde.burgers(8, tmp_path, train=3, test=2)[1][0].shape == (2, 8, 2)
    with pytest.raises(ValueError, match="Received: resolution=100"):
        pde.burgers(100, tmp_path, train=3, test=3)
    with pytest.raises(ValueError, match="Received: test=4"):
        pde.burgers(64, tmp_path, train=3, test=4)
    arrays = {f"{n}_{p}": np.ones((3, 85, 85)) for n in ("a", "u") for p in ("train", "test")}
    np.savez(tmp_path / "darcy85.npz", **arrays)
    with pytest.raises(ValueError, match="Received: resolution=40"):
        pde.darcy(40, tmp_path, train=3, test=3)
    with pytest.raises(ValueError, match="Received: number=0"):
        pde.generate_burgers(0, 16)
    with pytest.raises(ValueError, match="resolution=1"):
        pde.generate_darcy(1, 1)
    with pytest.raises(ValueError, match="smallest value of -1"):
        pde.solve_darcy(np.full((1, 5, 5), -1.0))


# The experiment


def test_the_loss_sums_relative_errors(rng):
    truth, encoded = rng.normal(size=(2, 3, 4, 5, 1)).astype("float32")
    normalization = experiment.Normalization(rng.normal(2, 3, size=(6, 4, 5, 1)))
    loss = experiment.RelativeError(normalization.decode)
    predicted = normalization.decode(encoded)
    expected = sum(
        np.linalg.norm(predicted[i] - truth[i]) / np.linalg.norm(truth[i]) for i in range(3)
    )
    assert float(loss(truth, encoded)) == pytest.approx(expected, rel=1e-5)


def test_normalization_leaves_the_coordinates(rng):
    values = rng.normal(2, 3, size=(50, 4, 3))
    normalization = experiment.Normalization(values)
    encoded = normalization.encode(values)
    np.testing.assert_allclose(encoded[..., 0].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(encoded[..., 0].std(axis=0), 1, atol=1e-4)
    np.testing.assert_array_equal(encoded[..., 1:], values[..., 1:])
    np.testing.assert_allclose(normalization.decode(encoded[..., :1]), values[..., :1])


def test_decay_is_part_of_the_gradient():
    """One step of each by hand: momentum and moments see gradient + decay · weight."""
    start, gradient = np.array([2.0, -1.0]), np.array([0.5, 0.5])
    decayed = gradient + 0.5 * start
    for optimizer, expected in (
        (experiment.SGD(0.1, 0.5, momentum=0.5), start - 0.1 * decayed),
        (experiment.Adam(0.1, 0.5, epsilon=1e-8), start - 0.1 * np.sign(decayed)),
    ):
        weight = keras.Variable(start)
        optimizer.apply([keras.ops.convert_to_tensor(gradient, "float32")], [weight])
        np.testing.assert_allclose(weight, expected, atol=1e-6)
        assert type(optimizer).from_config(optimizer.get_config()).decay == 0.5


def test_rates_are_halved_each_fifth():
    weights, architecture = experiment.optimizers(scripts["darcy"].PROBLEM, 7, 50, 0.1)
    assert isinstance(architecture, experiment.SGD) and architecture.momentum == 0.5
    for optimizer, rate in ((weights, 1e-3), (architecture, 0.1)):
        rates = []
        for step in (0, 69, 70, 7 * 40):
            optimizer.iterations.assign(step)
            rates.append(float(optimizer.learning_rate))
        assert rates == pytest.approx([rate, rate, rate / 2, rate / 16])


class Recorder(keras.Model):
    """Notes the samples of every training batch."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.seen = []

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        np.testing.assert_array_equal(y, 2 * x)
        self.seen.append([float(value) for value in np.ravel(x)])
        return {"loss": 0.0}


def test_batches_come_in_another_order_each_epoch():
    inputs = np.arange(7.0)[:, None]
    runs = []
    for _ in range(2):
        keras.utils.set_random_seed(1)
        model = Recorder()
        model.compile("sgd", "mse", run_eagerly=True)
        batches = experiment.Batches(inputs, 2 * inputs, 3, seed=1)
        model.fit(batches, epochs=3, verbose=0, shuffle=False)
        assert [len(batch) for batch in model.seen] == [3, 3, 1] * 3
        runs.append([sum(model.seen[i : i + 3], []) for i in (0, 3, 6)])
    first, second, third = runs[0]
    assert sorted(first) == sorted(second) == sorted(third) == list(range(7))
    assert first != second and second != third and first != third
    assert runs[0] == runs[1]


def test_the_search_starts_as_the_baseline(rng):
    options = experiment.parse(scripts["burgers"].PROBLEM, ["--output", "none", *SMALL, *TINY])[0]
    outputs = []
    inputs = rng.normal(size=(2, 16, 2)).astype("float32")
    for method in ("CNN", "XD"):
        keras.utils.set_random_seed(3)
        model = experiment.make_model(method, (16, 2), options)
        outputs.append(np.asarray(model(inputs)))
    np.testing.assert_allclose(outputs[1], outputs[0], atol=1e-6)


@pytest.mark.parametrize(("name", "size"), [("burgers", 16), ("darcy", 7)])
def test_a_small_run_writes_its_results(name, size, tmp_path):
    output = tmp_path / "results"
    arguments = [*SMALL, *TINY, "--resolution", str(size), "--output", str(output)]
    records = scripts[name].main(arguments)
    assert [(r["resolution"], r["method"]) for r in records] == [
        (size, method) for method in ("CNN", "FNO", "XD")
    ]
    text = (output / f"{name}.md").read_text()
    written = json.loads((output / f"{name}.json").read_text())
    assert written["runs"] == records
    assert written["settings"]["command"] in text
    assert written["settings"]["command"].endswith(" ".join(arguments))
    assert (output / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert {file.suffix for file in output.iterdir()} == {".md", ".json", ".png"}
    for record in records:
        assert f"| {record['method']} | 2 | {record['error']:.4f} |" in text
        assert len(record["errors"]) == 2 and record["seconds_per_epoch"] > 0
        assert record["error"] == pytest.approx(record["errors"][-1], rel=1e-3)
        assert record["mean_of_last"] == pytest.approx(np.mean(record["errors"]), rel=1e-3)
    cnn, _, xd = records
    # K, L and M of four layers: pairs of numbers, n · Σ radices, for each axis.
    added = {16: 16 * (2 + 2 + 2 + 2), 7: 2 * 7 * 7}[size]
    assert xd["parameters"] == cnn["parameters"] + 4 * 3 * 2 * added
    with pytest.raises(SystemExit):
        scripts[name].main(arguments)  # nothing is overwritten


def test_the_table_holds_means_over_seeds():
    record = {"resolution": 43, "method": "FNO", "epochs": 5, "parameters": 1234}
    records = [
        {**record, "error": 0.1, "mean_of_last": 0.2, "seconds_per_epoch": 1.0},
        {**record, "error": 0.3, "mean_of_last": 0.2, "seconds_per_epoch": 2.0},
        {**record, "error": 0.5, "mean_of_last": 0.2, "seconds_per_epoch": 9.0},
    ]
    single = {**records[0], "method": "XD", "resolution": 85}
    *_, first, second = report.table(scripts["darcy"].PROBLEM, [single, *records]).splitlines()
    assert first == "| 43 | FNO | 5 | 0.3000 ± 0.2000 | 0.2000 ± 0.0000 | – | 1,234 | 2.0 |"
    assert second == "| 85 | XD | 5 | 0.1000 | 0.2000 | 0.0065 | 1,234 | 1.0 |"


def test_nonsense_is_refused(tmp_path, capsys):
    def refusal(*arguments):
        with pytest.raises(SystemExit):
            scripts["burgers"].main([*SMALL, "--output", str(tmp_path), *arguments])
        return capsys.readouterr().err

    assert "as many as --resolution" in refusal("--resolution", "8", "--epochs", "1", "2")
    assert "at least 1" in refusal("--seeds", "0")
    assert "must hold burgers1d.npz" in refusal("--data-dir", str(tmp_path / "none"))
    (tmp_path / "burgers.md").write_text("kept")
    assert "burgers.md would be overwritten" in refusal()
    assert (tmp_path / "burgers.md").read_text() == "kept"


def test_choices_are_made_on_training_samples():
    arguments = ["--resolution", "8", "--output", "none", *SMALL, "--train", "20"]
    problem = scripts["burgers"].PROBLEM
    _, [(train, test)] = experiment.parse(problem, arguments)
    _, [(shorter, kept)] = experiment.parse(problem, [*arguments, "--evaluate-on", "validation"])
    np.testing.assert_array_equal(shorter[0], train[0][:18])
    np.testing.assert_array_equal(kept[1], train[1][18:])
    assert len(test[0]) == 4


@pytest.mark.real_data("KERAS_XD_DATA_DIR", "burgers1d.npz")
def test_runs_on_the_real_data(tmp_path, data_path, monkeypatch):
    arguments = [*SMALL, *TINY, "--resolution", "16", "--methods", "FNO", "--output", str(tmp_path)]
    scripts["burgers"].main(arguments)
    settings = json.loads((tmp_path / "burgers.json").read_text())["settings"]
    assert settings["data"] == "read from the data folder"
    assert settings["command"].startswith("KERAS_XD_DATA_DIR=… python examples/burgers.py")
    monkeypatch.delenv("KERAS_XD_DATA_DIR")
    folder = str(data_path.parent)
    records = scripts["burgers"].main([*arguments, "--overwrite", "--data-dir", folder])
    text = (tmp_path / "burgers.md").read_text()
    assert folder not in text and "--data-dir …" in text
    assert len(records) == 1
