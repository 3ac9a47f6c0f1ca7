"""The scoreboard: its tasks and methods, small runs of the script, what its page says."""

import dataclasses
import functools
import importlib
import json
import math

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

with example_scripts.on_path():
    script = importlib.import_module("scoreboard")
    tasks = importlib.import_module("experiments.scoreboard.tasks")
    methods = importlib.import_module("experiments.scoreboard.methods")
    networks = importlib.import_module("experiments.scoreboard.networks")
    report = importlib.import_module("experiments.scoreboard.scoreboard_report")


@pytest.fixture(autouse=True)
def without_data(monkeypatch):
    for name in ("KERAS_XD_DATA_DIR", "TFDS_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def shallow(monkeypatch):
    """Networks of two levels or one block, which are those of more but for the number."""
    monkeypatch.setattr(networks, "MUSIC", {**networks.MUSIC, "levels": 2})
    monkeypatch.setattr(keras_xd.models, "fno", functools.partial(keras_xd.models.fno, blocks=1))


# Tasks


@pytest.mark.parametrize("name", tasks.TASKS)
def test_networks_fit_their_data(name, shallow):
    task = tasks.TASKS[name]
    data = task.load(0, True)
    assert all(len(inputs) == len(targets) for inputs, targets in (data.train, data.test))
    wanted = data.test[1].shape if data.test[1].ndim > 1 else (len(data.test[0]), data.classes)
    for expert in (False, True)[: 1 + (task.expert is not None)]:
        model = task.network(data, expert)
        outputs = model.predict_on_batch(data.test[0])
        assert outputs.shape == wanted
        error = task.error(model, data.test)
        assert math.isfinite(error) and error > 0
        loss = float(task.loss()(data.test[1], outputs))
        if task.metric.startswith("nats"):
            assert loss == pytest.approx(error, rel=1e-5)
        elif task.metric.startswith("relative"):
            assert 100 * loss == pytest.approx(error, rel=1e-5)
    assert task.recipe is None or task.recipe in keras_xd.recipes.DATA


@pytest.mark.parametrize("name", tasks.TASKS)
def test_the_wide_backbone_has_as_many_parameters_as_what_xd_finds(name, shallow, monkeypatch):
    task = tasks.TASKS[name]
    data = task.load(0, True)
    wanted, asked = methods.parameters_of_xd(task, data, 0), []
    monkeypatch.setattr(methods, "parameters_of_xd", lambda *of: asked.append(of) or wanted)
    model, backbone = methods.start(task, data, "wide"), task.network(data)
    assert [layer.name for layer in model.layers] == [layer.name for layer in backbone.layers]
    assert model.output_shape == backbone.output_shape and asked == [(task, data, 0)]
    assert wanted <= model.count_params() < 1.5 * wanted
    assert networks.wide(backbone, backbone.count_params()) is backbone
    if name in ("cifar10", "mnist", "sentences"):  # others have no other layers with sizes
        narrower = networks.wide(backbone, backbone.count_params() + 1)
        assert backbone.count_params() < narrower.count_params() <= model.count_params()


def test_permutations_follow_from_the_seed():
    for name in ("cifar10", "mnist"):
        first, again, other = (tasks.TASKS[name].load(seed, True).test for seed in (0, 0, 1))
        np.testing.assert_array_equal(first[0], again[0])
        assert np.any(first[0] != other[0])
        np.testing.assert_array_equal(np.sort(first[0], axis=None), np.sort(other[0], axis=None))


def test_pressures_are_decoded(rng):
    """With a normalization that is not trained, and stays when weights are drawn anew."""
    task = tasks.TASKS["darcy"]
    data = task.load(0, True)
    model = task.network(data)
    inner = keras.Model(model.input, model.get_layer("outputs").output)
    x, y = data.train
    expected = inner.predict_on_batch(x) * (y.std(axis=0) + 1e-5) + y.mean(axis=0)
    np.testing.assert_allclose(model.predict_on_batch(x), expected, atol=1e-6)
    before = [weight.numpy() for weight in data.decoding.weights]
    keras_xd.reset_weights(model, 1)
    for old, new in zip(before, data.decoding.weights, strict=True):
        np.testing.assert_array_equal(old, new.numpy())


def test_errors_are_those_of_their_definitions(rng):
    logits, classes = rng.normal(size=(6, 3)), np.array([0, 1, 2, 0, 1, 2])
    right = sum(row.tolist().index(max(row)) == c for row, c in zip(logits, classes, strict=True))
    assert tasks.wrong(classes, logits) == pytest.approx(100 * (6 - right) / 6)
    keys, notes = rng.normal(size=(4, 88)).astype("float32"), rng.integers(2, size=(4, 88))
    odds = 1 / (1 + np.exp(-keys.astype("float64")))
    expected = -np.log(np.where(notes == 1, odds, 1 - odds)).sum() / 4
    assert tasks.nats(notes, keys) == pytest.approx(expected, rel=1e-6)


# Methods


def test_every_method_has_as_many_settings():
    found = {method: methods.settings(method) for method in methods.METHODS}
    assert {len(settings) for settings in found.values()} == {len(methods.RATES)}
    assert all(("factor" in found[name][0]) == (name in report.SEARCHES) for name in found)


def test_batches_pass_all_samples_before_one_comes_again():
    task = tasks.TASKS["mnist"]
    data = task.load(0, True)
    training = methods.Training(task, data, seed=3, updates=10)
    batches = list(training.batches(5))
    assert len(batches) == 5
    found = np.concatenate([inputs.numpy() for inputs, _ in batches])[:, :, 0]
    number = len(data.train[0])  # fewer than a batch, so each batch has all of them
    for part in np.split(found, 5):
        order = np.lexsort(part.T)
        expected = data.train[0][:, :, 0]
        np.testing.assert_array_equal(part[order], expected[np.lexsort(expected.T)])
    assert len(found) == 5 * number
    again = next(iter(methods.Training(task, data, seed=3, updates=10).batches(5)))
    np.testing.assert_array_equal(batches[0][0].numpy(), again[0].numpy())


def test_random_operations_are_candidates_of_dash(monkeypatch):
    task = tasks.TASKS["mnist"]
    data = task.load(0, True)
    monkeypatch.setattr(methods.Training, "fit", lambda self, model, updates, rate: model)
    sizes = set()
    for seed in range(3):
        training = methods.Training(task, data, seed, updates=10)
        found = training.run("random", task.network(data), rate=0.1)
        for name in ("conv1", "conv2"):
            layer = found.get_layer(name)
            assert type(layer) is keras.layers.Conv1D
            sizes.add((*layer.kernel_size, *layer.dilation_rate))
    assert len(sizes) > 2 and {size for size, _ in sizes} <= {3, 5, 7, 9}
    assert {rate for _, rate in sizes} <= {1, 3, 7, 15}


# The script


def one_convolution(data):
    inputs = keras.Input(data.shape)
    x = keras.layers.Conv1D(4, 5, padding="same", activation="relu")(inputs)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, keras.layers.Dense(data.classes)(x))


@pytest.fixture
def quick(monkeypatch):
    """Few updates, one setting, a small backbone, no timing."""
    small = dataclasses.replace(tasks.TASKS["mnist"], backbone=one_convolution)
    monkeypatch.setitem(tasks.TASKS, "mnist", small)
    monkeypatch.setattr(script, "SMALL_UPDATES", 2)
    monkeypatch.setattr(methods, "PERIODS", 1)
    monkeypatch.setattr(methods, "RATES", (1e-3,))
    monkeypatch.setattr(methods, "PAIRS", ((1e-3, 2),))
    times = {"1": [2.0, 1.0], "64": [3.0, 1.0]}
    monkeypatch.setattr(script.timing, "milliseconds", lambda *_: times)


def test_small_runs_of_some_methods(quick, tmp_path, monkeypatch, capsys):
    names = ["backbone", "darts", "dash_xd"]
    arguments = ["--small", "--tasks", "mnist", "--seeds", "1", "--output", str(tmp_path)]
    arguments += ["--methods", *names]
    results = script.main(arguments)
    assert len(results.runs) == 2 * len(names)
    for method in names:
        choice = results.find("mnist", method, report.CHOICE)
        assert [choice["setting"]] == methods.settings(method) and len(choice["errors"]) == 1
        run = results.find("mnist", method, 1)
        parts = {"search": 2} if method in report.SEARCHES else {"training": 2}
        if method == "darts":
            parts = {"search": 1, "training": 1}
        assert run["updates"] == parts and set(run["cpu_seconds"]) == set(parts)
        assert run["multiply_adds"] > 0 and run["parameters"] > 0
    text = (tmp_path / "scoreboard.md").read_text()
    assert text in capsys.readouterr().out
    assert "**Not finished:" in text and "`python examples/scoreboard.py --small`" in text
    assert {path.suffix for path in tmp_path.iterdir()} == {".md", ".json"}
    assert json.loads((tmp_path / "scoreboard.json").read_text())["runs"] == results.runs
    # Nothing is left to do, and no other results are written over.
    monkeypatch.setattr(script, "run", None)
    assert script.main(arguments).runs == results.runs
    (tmp_path / "scoreboard.md").write_text("")
    script.main(["--small", "--redraw", "--output", str(tmp_path)])
    assert (tmp_path / "scoreboard.md").read_text() == text
    with pytest.raises(SystemExit):
        script.main([*arguments[1:]])
    assert "not overwritten unless --overwrite" in capsys.readouterr().err


def test_no_run_begins_after_the_time_of_day(tmp_path):
    results = script.main(["--small", "--until", "00:00", "--output", str(tmp_path)])
    assert not results.runs
    everything = len(tasks.TASKS) * len(methods.METHODS) * len(script.SEEDS) - len(script.SEEDS)
    wanted = f"**Not finished: {everything} of {everything} runs are missing.**"
    assert wanted in results.paths["md"].read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tasks", "imagenet"], "invalid choice: 'imagenet'"),
        (["--methods", "rnn"], "invalid choice: 'rnn'"),
        (["--seeds", "-1"], "--seeds"),
        (["--redraw"], "--redraw needs results in"),
        (["--redraw", "--overwrite"], "--redraw needs what --overwrite"),
    ],
)
def test_bad_arguments(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit):
        script.main(["--small", *arguments, "--output", str(tmp_path)])
    assert message in capsys.readouterr().err


# The page


def record(task, method, seed, error):
    return {
        "task": task,
        "method": method,
        "seed": seed,
        "error": error,
        "cpu_seconds": {"training": 2.0 if method == "backbone" else 6.0},
        "parameters": 100,
        "multiply_adds": 1000,
        "milliseconds": {"1": [2.0, 1.0], "64": [3.0, 1.0]},
        "samples": [24, 12, 12],
        "shape": [36, 1],
    }


def page(runs):
    settings = script.describe(True)
    return report.page(settings, runs, {"command": "it", "versions": "v", "threads": 1})


def test_the_page_tells_who_is_ahead():
    runs = []
    for index, task in enumerate(tasks.TASKS):
        for seed in range(3):
            runs.append(record(task, "backbone", seed, 10.0 + seed))
            runs.append(record(task, "xd", seed, (8.0 if index < 5 else 11.0) + seed))
            runs.append(record(task, "dash", seed, (5.0 if index < 5 else 12.1) + 2 * seed))
    assert report.deviations(runs, "cifar10", "xd") == pytest.approx(2.0)
    assert report.deviations(runs, "cifar10", "dash") == pytest.approx((11 - 7) / 2)
    assert report.deviations(runs, "cifar10", "darts") is None
    for run in runs[1::3]:
        run["parameters"] = 200
    runs[1]["parameters"] = 100  # as many as the backbone
    text = page(runs)
    again = "It found the backbone again in"
    assert (
        f"- XD: ahead by more than 2 on 0, behind by more than 1 on 0 (none). {again} 1 of" in text
    )
    assert "- DASH: ahead by more than 2 on 0, behind by more than 1 on 3 (" in text
    assert "| CIFAR-10, permuted, error, % | 11.0 ± 1.0 | – | – | – | – | **7.0 ± 2.0** |" in text
    assert "**Not finished: 141 of 213 runs are missing.**" in text
    better = [{**run, "error": 7.9 + run["seed"]} if run["method"] == "xd" else run for run in runs]
    assert "- XD: ahead by more than 2 on 8, behind by more than 1 on 0 (none); meets" in page(
        better
    )
    row = next(line for line in text.splitlines() if line.startswith("| seconds of search"))
    assert row.split(" | ")[1:] == ["1.00", "3.00", "3.00 |"]


def test_runs_that_diverge_are_not_counted():
    runs = [record("darcy", "backbone", 0, 3.0), record("darcy", "xd", 0, None)]
    text = page(runs)
    assert "| Darcy flow, relative L2, % | **3.0 (0)** | – | – | – |" in text
