"""The benchmark of searches on real tasks: its trainings, its points and what it writes."""

import dataclasses
import importlib
import json
import time
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras_tuner.src.tuners import bayesian

from keras_xd.grammar import network_digest
from keras_xd_tests.example_scripts import BENCHMARKS, evolve_shortly, on_path
from tuner_integration import forest

with on_path(BENCHMARKS):
    real_tasks = importlib.import_module("real_tasks")
    real_searches = importlib.import_module("real_searches")
    real_report = importlib.import_module("real_report")
with on_path():
    timing = importlib.import_module("timing")

TASKS = real_tasks.TASKS


def test_the_compiled_loop_trains_as_keras_does():
    """A few steps of Adam with the same batches and the same falling rate give the same weights."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(32, 5)).astype("float32"), rng.integers(3, size=32)
    order = rng.permutation(32).reshape(4, 8).astype("int32")

    def network():
        keras.utils.set_random_seed(0)
        return keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])

    found, expected = network(), network()
    inputs, labels = tf.constant(x), tf.constant(y, tf.int32)
    train = real_tasks.compiled_loop(found, inputs, labels, 0.1, len(order))
    untrained = found.get_weights()
    train(tf.constant(order), tf.constant(time.process_time(), tf.float64))
    for a, b in zip(found.get_weights(), untrained, strict=True):
        np.testing.assert_array_equal(a, b)  # its time is over
    train(tf.constant(order), tf.constant(time.process_time() + 1e3, tf.float64))
    optimizer = keras.optimizers.Adam(0.1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for number, chosen in enumerate(order):
        optimizer.learning_rate = 0.1 * (1 - number / len(order))
        with tf.GradientTape() as tape:
            value = loss(y[chosen], expected(x[chosen], training=True))
        gradients = tape.gradient(value, expected.trainable_variables)
        optimizer.apply_gradients(zip(gradients, expected.trainable_variables, strict=True))
    for a, b in zip(found.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)


@pytest.mark.parametrize("name", TASKS)
def test_a_network_of_each_task_is_trained_and_scored(name):
    task = dataclasses.replace(TASKS[name], training=16, validation=8, epochs=1, batch=8)
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(24, *task.shape)).astype("float32"), rng.integers(10, size=24)
    labels = labels.astype("int32")
    tensors = (*map(tf.constant, (x[:16], labels[:16], x[16:], labels[16:])),)
    drawn = (real_tasks.drawn(task, np.random.default_rng(seed))[0] for seed in range(3, 13))
    values = min(drawn, key=lambda values: len(values["term"]))  # which is traced twice
    first, again = (real_tasks.trained(name, task, values, tensors) for _ in range(2))
    assert first == again and 0 <= first["error"] <= 1 and first["error"] * 8 % 1 == 0


@pytest.mark.parametrize("name", TASKS)
def test_numbers_of_keras_tuner_give_the_drawn_term(name):
    """What one of our searches starts from is what KerasTuner's own starts from."""
    task, rng = TASKS[name], np.random.default_rng(0)
    names = {hp.name for hp in real_tasks.hyperparameters(task).space}
    longest = 0
    for _ in range(20):
        values, given = real_tasks.drawn(task, rng)
        assert set(given) == names
        again = real_tasks.decoded(task, given)
        task.space.check(task.space.parse(again["term"]))
        if task.choices is None:
            assert again == values
        elif again == values:
            longest = max(longest, len(values["term"]))
    assert task.choices is None or longest > 0


def test_networks_of_too_many_operations_are_refused():
    task = TASKS["einspace"]
    values = {"term": str(task.space.first())}
    assert real_tasks.refusal(task, values) is None
    reason = real_tasks.refusal(dataclasses.replace(task, operations=1), values)
    assert reason.endswith("operations exceed the limit 1")
    assert real_tasks.refusal(TASKS["cells"], {"term": "is not read"}) is None
    reason = real_tasks.refusal(dataclasses.replace(task, multiply_adds=9), values)
    assert reason.endswith("exceeds the limit 9") and "multiply_adds" in reason
    assert "at most 100 operations and 15 million multiply–adds" in task.words()


@pytest.mark.parametrize("name", TASKS)
def test_a_network_by_hand_is_of_its_space(name):
    task = TASKS[name]
    for values in real_tasks.BY_HAND[name]:
        task.space.check(task.space.parse(values["term"]))
        assert real_tasks.refusal(task, values) is None
        assert ("rate" in values) == (task.rate is None)
    found = real_tasks.size(name, task, values, values)
    assert found["parameters"] == {"cells": 1586, "activations": 7690, "einspace": 4570}[name]
    assert len(found["milliseconds"]) == 2 and min(found["milliseconds"]) > 0


def stand_in(name, task, values, tensors):
    """A score that depends on the network alone."""
    digest = network_digest(task.space.parse(values["term"]))
    loss = None if digest[0] == "0" else int(digest[:4], 16) / 2**15
    return {"error": 0.5, "loss": loss}


@pytest.fixture
def small(monkeypatch):
    """Compute scores and times at once; KerasTuner's own search takes the best of some points."""

    def first(function, x0, **options):
        return types.SimpleNamespace(x=x0, fun=function(x0))

    optimize = types.SimpleNamespace(minimize=first)
    monkeypatch.setattr(bayesian, "scipy", types.SimpleNamespace(optimize=optimize))
    monkeypatch.setattr(forest, "_TREES", 5)
    evolve_shortly(monkeypatch)
    monkeypatch.setattr(real_searches, "INITIAL", 3)
    monkeypatch.setattr(timing, "ROUNDS", 1)
    monkeypatch.setattr(real_tasks, "trained", stand_in)
    monkeypatch.setattr(real_tasks, "data", lambda *_: ())


def test_all_searches_run_with_equal_first_points_and_are_reported(small, tmp_path, capsys):
    words = [
        "--tasks",
        "activations",
        "--seeds",
        "2",
        "--trials",
        "4",
        "--output",
        str(tmp_path / "real_searches.md"),
    ]
    words += ["--searches", str(tmp_path / "kept"), "--share", "0"]
    found = real_searches.main(words)
    runs = found["runs"]["activations"]
    assert list(runs) == [*real_searches.STRATEGIES]
    for seed in range(2):
        firsts = [[network for network, _ in whole[seed][:3]] for whole in runs.values()]
        assert all(first == firsts[0] for first in firsts) and len(set(firsts[0])) == 3
        assert all(len(whole[seed]) == 4 for whole in runs.values())
    page = (tmp_path / "real_searches.md").read_text()
    assert all(f"| {name} | " in page for name in runs) and "2 seeds" in page
    hand = found["networks"]["activations"][found["by_hand"]["activations"]]
    line = next(line for line in page.splitlines() if line.startswith("| by hand | "))
    assert f" {real_searches.objective(hand):.4f} | 0.5000 | 7,690 | 1 | " in line
    assert json.loads((tmp_path / "real_searches.json").read_text()) == found
    # What was kept is not run again; a page can be written anew from its file.
    assert real_searches.main(words) == found
    capsys.readouterr()
    real_searches.main([*words, "--redraw"])
    assert (tmp_path / "real_searches.md").read_text() == page


def test_searches_are_compared_at_equal_trials_and_equal_seconds():
    networks = {
        name: {"loss": loss, "seconds": s} for name, loss, s in (("a", 1.0, 4), ("b", 0.5, 1))
    }
    networks["c"] = {"loss": None, "seconds": 1}
    runs = {
        "random": [[["a", 0.0], ["b", 0.0], ["c", 0.0]]],
        "bayesian": [[["c", 1.0], ["b", 0.0]]],
    }
    found = {"runs": {"t": runs}, "networks": {"t": networks}}
    curves = real_report.curves(found, real_searches.objective)["t"]
    losses, seconds = curves["random"]
    assert losses[0].tolist() == [1.0, 0.5, real_searches.CHANCE]
    assert seconds[0].tolist() == [4.0, 5.0, 6.0]
    assert real_report.best_after(losses, 1).tolist() == [1.0]
    assert real_report.best_within(losses, seconds, 4.5).tolist() == [1.0]
    assert real_report.best_within(losses, seconds, 5.0).tolist() == [0.5]
    losses, seconds = curves["bayesian"]
    assert seconds[0].tolist() == [2.0, 3.0]
    measures = real_report.measures(curves, 1, 2, 5.0)
    assert [*measures] == [
        "2 trials",
        "a quarter of the seconds (1 s)",
        "half (2 s)",
        "all (5 s)",
    ]
    assert {name: best.tolist() for name, best in measures["all (5 s)"].items()} == {
        "random": [0.5],
        "bayesian": [0.5],
    }
