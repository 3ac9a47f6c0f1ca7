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


@pytest.mark.parametrize("name", ["cifar10", "darcy", "mnist"])
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
    if name != "darcy":  # others have no other layers with sizes
        narrower = networks.wide(backbone, backbone.count_params() + 1)
        assert backbone.count_params() < narrower.count_params() <= model.count_params()


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
    names = ["backbone", "darts"]
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
    assert "`python examples/scoreboard.py --small`" in text
    assert {path.suffix for path in tmp_path.iterdir()} == {".md", ".json"}
    assert json.loads((tmp_path / "scoreboard.json").read_text())["runs"] == results.runs
    # Nothing is left to do, and no other results are written over.
    monkeypatch.setattr(script, "run", None)
    assert script.main(arguments).runs == results.runs
    with pytest.raises(SystemExit):
        script.main([*arguments[1:]])
    assert "not overwritten unless --overwrite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tasks", "imagenet"], "invalid choice: 'imagenet'"),
        (["--methods", "rnn"], "invalid choice: 'rnn'"),
        (["--seeds", "-1"], "--seeds"),
    ],
)
def test_bad_arguments(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit):
        script.main(["--small", *arguments, "--output", str(tmp_path)])
    assert message in capsys.readouterr().err
