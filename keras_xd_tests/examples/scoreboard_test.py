"""The scoreboard: its tasks and its wide backbone."""

import functools
import math

import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

tasks = example_scripts.load("experiments.scoreboard.tasks")
methods = example_scripts.load("experiments.scoreboard.methods")
networks = example_scripts.load("experiments.scoreboard.networks")
choice = example_scripts.load("experiments.scoreboard.choice")
redraw = example_scripts.load("redraw")


@pytest.fixture
def shallow(monkeypatch):
    """Networks of two levels or one block, which are those of more but for the number."""
    monkeypatch.setattr(networks, "MUSIC", {**networks.MUSIC, "levels": 2})
    monkeypatch.setattr(keras_xd.models, "fno", functools.partial(keras_xd.models.fno, blocks=1))


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


@pytest.mark.parametrize("name", ["darcy", "mnist"])
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


def test_errors_are_those_of_their_definitions(rng):
    logits, classes = rng.normal(size=(6, 3)), np.array([0, 1, 2, 0, 1, 2])
    right = sum(row.tolist().index(max(row)) == c for row, c in zip(logits, classes, strict=True))
    assert tasks.wrong(classes, logits) == pytest.approx(100 * (6 - right) / 6)
    keys, notes = rng.normal(size=(4, 88)).astype("float32"), rng.integers(2, size=(4, 88))
    odds = 1 / (1 + np.exp(-keys.astype("float64")))
    expected = -np.log(np.where(notes == 1, odds, 1 - odds)).sum() / 4
    assert tasks.nats(notes, keys) == pytest.approx(expected, rel=1e-6)
