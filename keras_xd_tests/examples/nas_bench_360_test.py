"""The command that runs a task of NAS-Bench-360, on tiny files of the published formats."""

import importlib

import keras
import numpy as np
import pytest

from keras_xd_tests import example_scripts
from keras_xd_tests.examples.datasets.nas_bench_360.tiny_files import WRITERS

with example_scripts.on_path():
    script = importlib.import_module("nas_bench_360")
    tasks = importlib.import_module("datasets.nas_bench_360")

SMALL = ("--epochs", "1", "--batch-size", "4", "--filters", "2", "--verbose", "0")


def run(folder, task, *arguments):
    return script.main(["--task", task, "--data-dir", str(folder), *SMALL, *arguments])


@pytest.mark.parametrize("task", ["cifar100", "fsd50k", "psicov", "cosmic"])  # one of each kind
def test_a_task_runs_on_its_files(task, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(script, "STAGES", 2 if task == "cifar100" else 1)
    monkeypatch.setattr(tasks.proteins, "TEST_WINDOW", 256)  # 512 take longer
    WRITERS[task](tmp_path)
    found = run(tmp_path, task)
    assert np.isfinite([found["validation"], found["test"]]).all() and found["test"] >= 0
    printed = capsys.readouterr().out
    assert f"test: {tasks.TASKS[task].metric} {found['test']:.4f}\n" in printed
    assert f"parameters: {found['parameters']:,}\n" in printed


@pytest.mark.parametrize(
    ("space", "task", "stages"),
    [("dash", "satellite", 1), ("xd", "darcy", 1), ("structured", "satellite", 2)],
)
def test_a_space_is_searched(space, task, stages, tmp_path, monkeypatch):
    """With a pooling between the stages of series; fields have none, and all dense layers alike."""
    monkeypatch.setattr(script, "STAGES", stages)
    WRITERS[task](tmp_path)
    rewritten, rewrite = [], script.keras_xd.rewrite

    def noted(model, **options):
        rewritten.append((options["to"], rewrite(model, **options)))
        return rewritten[-1][1]

    monkeypatch.setattr(script.keras_xd, "rewrite", noted)
    found = run(tmp_path, task, "--space", space, "--subset", "4")
    ((name, model),) = rewritten
    twins = {"dash": "Dash", "xd": "XD", "structured": "MixedDense"}
    assert {*script.OPTIONS} == {*twins} and name == space
    assert any(twins[space] in type(layer).__name__ for layer in model.layers)
    assert np.isfinite(found["test"])


def test_larger_samples_are_cut_into_windows(rng):
    inputs = keras.Input((4, 6, 2))
    # The mean of a window tells it from the others.
    outputs = keras.layers.Lambda(lambda x: x[..., :1] + keras.ops.mean(x, axis=(1, 2, 3))[0])(
        inputs
    )
    model = keras.Model(inputs, outputs)
    samples = rng.normal(size=(1, 8, 6, 2)).astype("float32")
    found = script.predict(model, samples, 2)
    expected = [part[..., :1] + part.mean() for part in (samples[:, :4], samples[:, 4:])]
    np.testing.assert_allclose(found, np.concatenate(expected, axis=1), atol=1e-6)
    whole = rng.normal(size=(3, 4, 6, 2)).astype("float32")
    found = script.predict(model, whole, 1)
    expected = whole[..., :1] + whole.mean(axis=(1, 2, 3), keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_what_is_wrong_is_said(tmp_path, capsys):
    for arguments, message in (
        (("ecg",), "must be converted to challenge2017.npz"),
        (("mnist",), "invalid choice: 'mnist'"),
        (("darcy", "--space", "k"), "invalid choice: 'k'"),
        (("darcy", "--rate", "0"), "must be a positive number"),
    ):
        with pytest.raises(SystemExit):
            run(tmp_path, *arguments)
        assert message in capsys.readouterr().err
