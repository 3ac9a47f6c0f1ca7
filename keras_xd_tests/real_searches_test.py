"""The benchmark of searches on real tasks: its trainings, its points and what it writes."""

import importlib
import json
import types

import numpy as np
import pytest
from keras_tuner.src.tuners import bayesian

from keras_xd.grammar.graphs import network_digest
from keras_xd_tests.example_scripts import BENCHMARKS, evolve_shortly, on_path
from tuner_integration import forest

with on_path(BENCHMARKS):
    real_tasks = importlib.import_module("real_tasks")
    real_searches = importlib.import_module("real_searches")
    real_report = importlib.import_module("real_report")
with on_path():
    timing = importlib.import_module("timing")

TASKS = real_tasks.TASKS


def test_choices_of_keras_tuner_give_the_drawn_term():
    """What one of our searches starts from is what KerasTuner's own starts from."""
    task, rng = TASKS["cells"], np.random.default_rng(0)
    names = {hp.name for hp in real_tasks.hyperparameters().space}
    for _ in range(20):
        values = {"term": str(task.space.sample(rng))}
        given = real_tasks.given(values)
        assert set(given) == names and real_tasks.decoded(task, given) == values
    cut = real_tasks.decoded(task, dict.fromkeys(names, "zero"))
    task.space.check(task.space.parse(cut["term"]))


@pytest.mark.parametrize("name", TASKS)
def test_a_network_by_hand_is_of_its_space(name):
    task = TASKS[name]
    values = real_tasks.BY_HAND[name]
    task.space.check(task.space.parse(values["term"]))
    found = real_tasks.size(name, task, values, values)
    parameters = {"cells": 1586, "hierarchical": 43_980}
    assert found["parameters"] == parameters[name]
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
    words = ["--seeds", "2", "--trials", "4", "--output", str(tmp_path / "real_searches.md")]
    words += ["--searches", str(tmp_path / "kept"), "--share", "0"]
    found = real_searches.main(words)
    runs = found["runs"]["cells"]
    assert list(runs) == [*real_searches.STRATEGIES]
    for seed in range(2):
        firsts = [[network for network, _ in whole[seed][:3]] for whole in runs.values()]
        assert all(first == firsts[0] for first in firsts) and len(set(firsts[0])) == 3
        assert all(len(whole[seed]) == 4 for whole in runs.values())
    page = (tmp_path / "real_searches.md").read_text()
    assert all(f"| {name} | " in page for name in runs) and "2 seeds" in page
    hand = found["networks"]["cells"][found["by_hand"]["cells"]]
    line = next(line for line in page.splitlines() if line.startswith("| by hand | "))
    assert f" {real_searches.objective(hand):.4f} | 0.5000 | 1,586 | 1 | " in line
    assert json.loads((tmp_path / "real_searches.json").read_text()) == found
    # What was kept is not run again; a page can be written anew from its file.
    assert real_searches.main(words) == found
    capsys.readouterr()
    real_searches.main([*words, "--redraw"])
    assert (tmp_path / "real_searches.md").read_text() == page


def test_differences_are_tested_seed_by_seed():
    base = np.arange(10.0)
    assert real_report.paired(base, base) == (0.0, 1.0)
    difference, p = real_report.paired(base - 0.1 - 0.01 * base, base)
    assert difference == pytest.approx(-0.145) and p == pytest.approx(2 / 2**10)
