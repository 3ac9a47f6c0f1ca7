"""Signals in an unknown order: what each method sees, and by what its setting is chosen."""

import importlib
import sys

import numpy as np
import pytest

from keras_xd_tests import example_scripts

with example_scripts.on_path():
    unknown_order = importlib.import_module("experiments.xd.unknown_order")


@pytest.mark.parametrize("shuffled", [True, False])
def test_all_samples_of_a_seed_have_one_order(shuffled):
    points = np.arange(12.0)
    samples = (points + [[0], [100]], [0, 1]), (points + [[1000]], [1])
    task = unknown_order.Task("made up", lambda _: samples, shuffled)
    found = {}
    for seed in (0, 1):
        (x, _), (test, _) = unknown_order.parts(task, seed)
        assert x.shape == (2, 12, 1) and test.shape == (1, 12, 1)
        found[seed] = x[0, :, 0].astype(int)
        np.testing.assert_array_equal(x[1, :, 0], found[seed] + 100)
        np.testing.assert_array_equal(test[0, :, 0], found[seed] + 1000)
        np.testing.assert_array_equal(sorted(found[seed]), points)
    assert (found[0] == points).all() != shuffled
    assert (found[0] == found[1]).all() != shuffled


def test_columns_are_scaled_by_the_training_samples_and_drawn_by_the_seed():
    (x, y), (test, labels) = unknown_order.columns("diabetes", 0)
    assert len(x) == 331 and len(test) == 111 and set(y) == set(labels) == {0, 1}
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(x.std(axis=0), 1)
    assert (unknown_order.columns("diabetes", 1)[1][0] != test).any()


@pytest.mark.parametrize("method", ["boosting", "cnn"])
def test_a_setting_is_chosen_on_training_samples_that_are_not_trained_on(method, monkeypatch):
    name, values = unknown_order.FITTED.get(method, unknown_order.RATES)
    train, _ = unknown_order.parts(unknown_order.TASKS["wine"], 0)
    seen = []

    def trained(task, method, data, seed, share, **setting):
        seen.append((data[0], share, setting))
        right = setting == {name: values[1]}

        def predict(x):
            where = {row.tobytes(): label for row, label in zip(*train, strict=True)}
            assert not {row.tobytes() for row in data[0]} & {row.tobytes() for row in x}
            return np.array([where[row.tobytes()] if right else -1 for row in x])

        return predict, 1, 1

    monkeypatch.setattr(unknown_order, "trained", trained)
    record = unknown_order.choose("wine", method, 0)
    assert record["setting"] == {name: values[1]} and record["accuracies"] == [0, 100, 0]
    assert [setting for *_, setting in seen] == [{name: value} for value in values]
    assert all(len(x) == 106 and share < 1 for x, share, _ in seen)


@pytest.mark.parametrize(
    ("task", "module"), [("mnist1d_ordered", "mnist1d.data"), ("segments", "river")]
)
def test_a_missing_package_is_named_before_anything_runs(
    task, module, monkeypatch, capsys, tmp_path
):
    monkeypatch.setitem(sys.modules, module, None)  # as if it was not installed
    with example_scripts.on_path(), pytest.raises(SystemExit):
        unknown_order.main(["--tasks", task, "--output", str(tmp_path / "new")])
    assert f"pip install {module.partition('.')[0]}" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
