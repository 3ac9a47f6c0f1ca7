"""The examples with KerasTuner, each in the smallest setting, and what they write."""

import functools
import importlib
import json
import types

import keras_tuner as kt
import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

with example_scripts.on_path():
    tuning = importlib.import_module("experiments.grammar.tuning")
    pde = importlib.import_module("datasets.pde")
    scripts = {
        name: importlib.import_module(f"experiments.grammar.{name}")
        for name in ("grammar_cifar10", "activation_search", "tune_burgers")
    }

SMALL = {
    "grammar_cifar10": (
        *("--trials", "1", "--initial-trials", "1", "--images", "8", "--epochs", "1"),
        *("--strategy", "evolution"),
        *("--final-epochs", "1", "--filters", "2", "--seeds", "1", "--finalists", "1"),
    ),
    "activation_search": (
        *("--trials", "2", "--initial-trials", "2", "--subset", "10", "--epochs", "1"),
        *("--filters", "2", "--seeds", "1", "--finalists", "1"),
    ),
    "tune_burgers": (
        *("--max-epochs", "2", "--factor", "3", "--train", "10", "--test", "2"),
        *("--resolution", "16", "--batch-size", "10", "--width", "2", "--modes", "3"),
        *("--seeds", "1", "--finalists", "1"),
    ),
}


@pytest.fixture
def images(monkeypatch, rng):
    """Random images in place of CIFAR-10."""
    parts = [
        (rng.random((3, 32, 32, 3), dtype="float32"), rng.integers(10, size=3)) for _ in range(3)
    ]
    monkeypatch.setattr(scripts["grammar_cifar10"].images, "load", lambda *_: parts)
    return parts


def run(name, folder, *arguments):
    places = ("--output", str(folder / "results"), "--searches", str(folder / "searches"))
    return scripts[name].main([*SMALL[name], *places, *arguments])


def check_results(name, folder, tuner, trials):
    """What is written is what the tuner found; nothing tells where it was written."""
    found = json.loads((folder / "results" / f"{name}.json").read_text())
    scores = [trial["score"] for trial in found["trials"]]
    assert scores == tuning.scores(tuner.oracle) and len(scores) == trials
    best = tuner.oracle.get_best_trials()[0]
    assert best.score in scores and np.isfinite(best.score)
    page = (folder / "results" / f"{name}.md").read_text()
    command = found["settings"]["command"]
    script = f"python examples/experiments/grammar/{name}.py "
    assert command.startswith(script) and "--resume" not in command
    assert f"`{command}` wrote this page." in page and f"{trials} trials" in page
    assert str(folder) not in page
    pictures = {path.name for path in (folder / "results").glob("*.svg")}
    assert f"{name}.svg" in pictures and all(f"]({picture})" in page for picture in pictures)


@pytest.mark.parametrize("name", ["grammar_cifar10", "tune_burgers"])
def test_an_example_runs_and_writes_its_results(name, tmp_path, images, monkeypatch):
    one_block = functools.partial(keras_xd.models.fno, blocks=1)
    monkeypatch.setattr(keras_xd.models, "fno", one_block)
    # Blocks of one convolution are the network by hand.
    script = scripts["grammar_cifar10"]
    for constant, block, smaller in (
        ("BY_HAND", "Residual2 {0} (OP id) {0}", "Linear2 (OP id) {0}"),
        ("HAND_SPACE", "Residual2 OP id OP", "Linear2 id OP"),
    ):
        parts = (text.format(script.CONVBLOCK) for text in (block, smaller))
        monkeypatch.setattr(script, constant, getattr(script, constant).replace(*parts))
    tuner = run(name, tmp_path)
    check_results(name, tmp_path, tuner, 1 if name == "grammar_cifar10" else 2)
    if name == "grammar_cifar10":  # the found network is not behind the one by hand
        first = next(iter(tuner.oracle.trials.values()))
        assert first.hyperparameters.get("network") == scripts[name].BY_HAND
    # What is there is neither run again nor written over unasked.
    with pytest.raises(SystemExit):
        run(name, tmp_path)


def test_a_search_that_is_resumed_repeats_nothing(tmp_path, monkeypatch, capsys):
    script = scripts["activation_search"]
    monkeypatch.setattr(script, "KNOWN", {})  # the functions to compare with
    with pytest.raises(SystemExit):
        run("activation_search", tmp_path, "--resume")
    assert "--resume needs trials" in capsys.readouterr().err
    first = run("activation_search", tmp_path)
    check_results("activation_search", tmp_path, first, 2)
    again = run("activation_search", tmp_path, "--resume", "--trials", "3")
    check_results("activation_search", tmp_path, again, 3)
    before, after = (
        [trial.get_state() for _, trial in sorted(tuner.oracle.trials.items())]
        for tuner in (first, again)
    )
    assert after[:2] == before


def test_the_best_trial_again_is_the_one_with_the_best_mean():
    """The trial with the luckiest score is not the best one over seeds."""
    scores = {"a": [0.9, 0.2], "b": [0.6, 0.7], "c": [0.1, 0.1], "d": [1.0, 1.0]}
    oracle = kt.oracles.RandomSearchOracle(kt.Objective("accuracy", "max"))
    trials = [kt.engine.trial.Trial(kt.HyperParameters(), status="COMPLETED") for _ in scores]
    for trial, name, score in zip(trials, scores, (0.9, 0.8, 0.7, 0.6), strict=True):
        trial.hyperparameters.values, trial.score = {"name": name}, score
        oracle.trials[trial.trial_id] = trial
    tuner = types.SimpleNamespace(oracle=oracle)

    def train(values, seed):
        return {"score": scores[values["name"]][seed], "seed": seed}

    values, runs = tuning.best_again(tuner, 3, 2, train)  # the fourth is not trained again
    assert values == {"name": "b"}
    assert runs == [{"score": 0.6, "seed": 0}, {"score": 0.7, "seed": 1}]
    oracle.objective = kt.Objective("accuracy", "min")
    assert tuning.best_again(tuner, 3, 2, train)[0] == {"name": "c"}
