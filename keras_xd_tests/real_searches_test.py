"""The benchmark of searches on real tasks: its trainings, its points and what it writes."""

import importlib

import numpy as np
import pytest

from keras_xd_tests.example_scripts import BENCHMARKS, on_path

with on_path(BENCHMARKS):
    real_tasks = importlib.import_module("real_tasks")
    real_report = importlib.import_module("real_report")

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


def test_differences_are_tested_seed_by_seed():
    base = np.arange(10.0)
    assert real_report.paired(base, base) == (0.0, 1.0)
    difference, p = real_report.paired(base - 0.1 - 0.01 * base, base)
    assert difference == pytest.approx(-0.145) and p == pytest.approx(2 / 2**10)
