"""The experiment beside neuraloperator: this package's networks, the page, what is refused."""

import importlib

import numpy as np
import pytest

from keras_xd_tests import example_scripts

with example_scripts.on_path():
    redraw = importlib.import_module("redraw")
    experiment = importlib.import_module("experiments.xd.neuraloperator")

SMALL = "--data FOLDER --width 2 --modes 2 --blocks 1 --epochs 1 --batch-size 4"


@pytest.fixture
def arguments(tmp_path, monkeypatch, rng):
    """Return arguments of a small run, for which random fields are read."""

    def fields(size):
        return tuple(rng.normal(size=(4, size, size, 1)).astype("float32") for _ in range(2))

    data = {"train": fields(16), "validation": fields(16), 16: fields(16), 32: fields(32)}
    monkeypatch.setattr(experiment, "load", lambda folder: data)
    return [*SMALL.split(), "--output", str(tmp_path)]


def test_a_network_of_this_package(arguments, tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "RATES", {"paper-tucker": [(1e-2, None)]})
    (record,) = experiment.main(arguments).runs
    assert set(record["errors"]) == {"validation", "16", "32"}
    assert np.isfinite(list(record["errors"].values())).all()
    before = (tmp_path / "neuraloperator.json").read_bytes()
    experiment.main(arguments)  # nothing is left to do
    assert (tmp_path / "neuraloperator.json").read_bytes() == before


def test_speeds_are_measured_in_turns(arguments, monkeypatch):
    called = []

    def apart(script, task, threads, **variables):
        called.append((task["method"], threads))
        return {"step": float(len(called)), "memory": 1, "calls": {"runtime": "", "1": 1, "32": 1}}

    monkeypatch.setattr(importlib.import_module("timing"), "apart", apart)
    methods = ["xd", "paper"]
    speed = [*arguments, "--measure-speed", "2", "--methods", *methods]
    for _ in range(2):  # nothing is left to do the second time
        runs = experiment.main(speed).runs
        assert called == [(m, n) for n in (1, 2) for _ in range(2) for m in methods]
    assert [process["step"] for process in runs[0]["processes"]] == [1.0, 3.0]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--data"], "expected one argument"),
        (["--methods", "FNO"], "pip install torch==2.13.0 neuraloperator==2.0.0"),
    ],
)
def test_what_is_missing_is_named(more, message, arguments, capsys, monkeypatch):
    monkeypatch.setattr(experiment.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        experiment.main([*arguments, *more])
    assert message in capsys.readouterr().err
