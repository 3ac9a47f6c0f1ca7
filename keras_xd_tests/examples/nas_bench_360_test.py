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


@pytest.mark.parametrize("task", tasks.TASKS)
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
    [("dash", "satellite", 1), ("xd", "satellite", 2), ("structured", "satellite", 1)]
    + [("dash", "darcy", 1), ("xd", "darcy", 1)],
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


def test_the_network_learns(tmp_path, monkeypatch):
    """Classes are frequencies: after some epochs most of the test series are told."""
    monkeypatch.setattr(script, "STAGES", 1)
    rng = np.random.default_rng(0)
    for part, number in (("train", 96), ("test", 24)):
        labels = np.arange(number) % 3
        places = np.arange(46) + rng.uniform(0, 46, size=(number, 1))
        series = np.sin(places * np.array([0.3, 1.0, 2.5])[labels][:, None])
        np.savez(tmp_path / f"satellite_{part}.npz", data=series, label=1 + labels)
    arguments = ("--epochs", "8", "--filters", "8", "--batch-size", "12", "--rate", "0.01")
    assert run(tmp_path, "satellite", *arguments)["test"] < 0.2


def test_one_seed_gives_one_result(tmp_path, monkeypatch):
    monkeypatch.setattr(script, "STAGES", 1)
    WRITERS["darcy"](tmp_path)
    first, again, other = (run(tmp_path, "darcy", "--batch-size", "8", "--seed", s) for s in "001")
    assert first == again and first["test"] != other["test"]


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


def test_the_loss_of_darcy_is_its_error(rng):
    y, answer = rng.normal(size=(2, 3, 4, 4, 1)).astype("float32")
    error = tasks.metrics.relative_l2(y, answer)
    assert float(script.make_loss("darcy")(y, answer)) == pytest.approx(error, rel=1e-5)


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
