"""The experiments on differential equations: batches, optimizers, other sizes."""

import dataclasses
import functools
import importlib

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

with example_scripts.on_path():
    pde = importlib.import_module("datasets.pde")
    experiment = importlib.import_module("experiments.xd.pde_experiment")
    names = ("burgers", "darcy", "navier_stokes")
    scripts = {name: importlib.import_module(f"experiments.xd.{name}") for name in names}


def test_batches_of_symmetries_follow_from_seed_epoch_and_batch(rng):
    inputs = rng.normal(size=(6, 4, 4, 3)).astype("float32")
    make = functools.partial(
        experiment.SymmetricBatches, pde.darcy_symmetry, inputs, inputs[..., :1], batch_size=3
    )
    first, again, other = make(seed=1), make(seed=1), make(seed=2)
    epochs = []
    for _ in range(2):
        epochs.append([first[index] for index in range(2)])
        for index in (1, 0):  # in any order
            np.testing.assert_array_equal(again[index][0], epochs[-1][index][0])
        for batches in (first, again):
            batches.on_epoch_end()
    for x, y in epochs[0]:
        np.testing.assert_array_equal(x[..., :1], y)  # both are turned alike
    sums = [np.sort(np.concatenate([x for x, _ in e]).sum(axis=(1, 2, 3))) for e in epochs]
    np.testing.assert_allclose(sums[0], sums[1], rtol=1e-5)  # each sample once
    assert not np.array_equal(epochs[0][0][0], epochs[1][0][0])
    assert not np.array_equal(epochs[0][0][0], other[0][0])


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


def test_statistics_of_each_point_are_had_between_the_points():
    """Cubic splines through a cubic function are that function."""
    coarse, fine = (np.linspace(0, 1, size) for size in (13, 25))
    values = [1 + 2 * x[:, None] ** 3 + x**2 for x in (coarse, fine)]
    layer = keras_xd.layers.PointNormalization(1)
    layer.build((None, 13, 13, 3))
    layer.mean.assign(values[0][..., None])
    new = experiment.at_other_size(layer, (25, 25, 3), scripts["darcy"].between)
    np.testing.assert_allclose(np.asarray(new.mean)[..., 0], values[1], atol=1e-5)
    np.testing.assert_allclose(new.deviation, 1, atol=1e-5)


def test_flows_are_told_from_the_times_before(monkeypatch):
    rng = np.random.default_rng(0)
    flows = rng.normal(size=(3, 4, 4, 7)).astype("float32")
    script = scripts["navier_stokes"]
    monkeypatch.setattr(script.navier_stokes, "generate_navier_stokes", lambda *_, **options: flows)
    (inputs, outputs), (others, _) = script.load(4, None, 2, 1, "1e-5", 5, 2)
    assert inputs.shape == (2, 4, 4, 2, 8) and others.shape == (1, 4, 4, 2, 8)
    np.testing.assert_array_equal(outputs[..., 0], flows[:2, ..., 5:])
    for step in range(2):
        np.testing.assert_array_equal(inputs[..., step, :5], flows[:2, ..., :5])
        np.testing.assert_array_equal(inputs[..., step, 7], np.float32((step + 1) / 2))
    np.testing.assert_array_equal(inputs[0, :, 2, 1, 5], np.arange(4) / 4)
    np.testing.assert_array_equal(inputs[0, 2, :, 1, 6], np.arange(4) / 4)


@pytest.mark.parametrize(
    "name, words, expected",
    [
        ("burgers", "", {"resolution": [256], "also_at": [512, 1024, 2048, 4096, 8192]}),
        ("darcy", "", {"resolution": [85], "nodes": 421, "width": 32, "modes": [12]}),
        (
            *("navier_stokes", "--viscosity 1e-5"),
            {"recipe": "paper-1e-5", "steps": 10, "modes": [8, 8, 4], "batch_size": 10},
        ),
        ("navier_stokes", "--viscosity 1e-4 --epochs 2", {"steps": 20, "epochs": [2]}),
    ],
)
def test_the_settings_of_the_paper(name, words, expected, tmp_path):
    problem = dataclasses.replace(scripts[name].PROBLEM, load=lambda *_, **flags: None)
    arguments = ["--paper", *words.split(), "--output", str(tmp_path)]
    options, _ = experiment.parse(problem, arguments)
    expected = {"epochs": [500], "train": 1000, **expected}
    assert {key: getattr(options, key) for key in expected} == expected
    recipe = experiment.chosen_recipe(problem, options)
    rates = {"burgers": ("adam", 1e-3, 1e-3), "darcy": ("sgd", 0.1, 1e-3)}
    rates["navier_stokes"] = ("sgd", 5e-3 if "1e-5" in words else 1e-3, 2.5e-3)
    assert (recipe.architecture, recipe.rate, recipe.weights_rate) == rates[name]
