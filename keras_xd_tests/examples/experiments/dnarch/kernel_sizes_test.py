"""The sweep of kernel sizes runs in a tiny setting, holds fixed sizes, and reports."""

import importlib
import json

import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

with example_scripts.on_path():
    sweep = importlib.import_module("experiments.dnarch.kernel_sizes")
    training = importlib.import_module("experiments.dnarch.dnarch_training")

TINY = ["--blocks", "1", "--channels", "4", "--epochs", "2", "--batch-size", "8"]
TINY += ["--subset", "8", "--seeds", "3"]


@pytest.fixture
def images(rng, monkeypatch):
    def load(name, data_dir, subset):
        shape = (8, 8, 3) if name == "cifar10" else (28, 28, 1)
        return tuple(
            (rng.uniform(size=(number, *shape)).astype("float32"), np.arange(number) % 10)
            for number in (8, 2, 5)
        )

    monkeypatch.setattr(training.cifar10.images, "load", load)
    monkeypatch.delenv("KERAS_XD_DATA_DIR", raising=False)


def test_sizes_are_held_or_learned_and_kept(images, tmp_path, monkeypatch, capsys):
    arguments = ["cifar10", *TINY, "--size", "8", "--sizes", "3", "7", "--output", str(tmp_path)]
    arguments += ["--architecture-rates", "0.1"]
    results = sweep.main(arguments)
    names = ["fixed 3", "fixed 7", *(f"learned from {n}, rate 0.1" for n in (3, 7)), "separable"]
    assert [run["method"] for run in results.runs] == names
    runs = {run["method"]: run for run in results.runs}
    for run in results.runs:
        assert run["score"] in [n / 5 for n in range(6)]
        assert len(run["seconds"]) == 2
    for size in (3, 7):
        assert runs[f"fixed {size}"]["sizes"] == [[float(size)] * 2]
        assert runs[f"learned from {size}, rate 0.1"]["sizes"] != [[float(size)] * 2]
    # Encoder, a 5 × 5 depthwise convolution, two linear layers, decoder.
    assert runs["separable"]["multiply_adds"] == 64 * (3 * 4 + 25 * 4 + 2 * 16) + 40
    assert runs["separable"]["sizes"] == []
    page = (tmp_path / "kernel_sizes_cifar10.md").read_text()
    assert "(best of the fixed)" in page
    assert "--sizes 3 7" in page and "of 8 points" in page
    monkeypatch.setattr(sweep, "run", None)  # what is finished is not run again
    assert sweep.main(arguments).runs == results.runs
    assert json.loads((tmp_path / "kernel_sizes_cifar10.json").read_text())["runs"] == results.runs


def test_masks_are_fixed_in_the_first_epochs(images, tmp_path):
    arguments = ["cifar10", *TINY, "--size", "8", "--sizes", "3", "7", "--output", str(tmp_path)]
    arguments += ["--warmup-epochs", "2"]
    options, data, _ = sweep.parse(arguments)
    names = sweep.methods(options.sizes, [(0.1, 0), (0.1, options.warmup_epochs)])
    assert names[2:4] == ["learned from 3, rate 0.1", "learned from 3, rate 0.1 after 2"]
    assert sweep.run(names[3], data, 3, options)["sizes"] == [[3.0, 3.0]]  # of two epochs
    runs = [{"method": name} for name in names]
    assert sweep.schedules(runs) == [(0.1, 0), (0.1, 2)]
    assert sweep.methods(options.sizes, sweep.schedules(runs)) == names


@pytest.mark.parametrize(
    ("experiment", "arguments", "shape"),
    [("mnist", ["--size", "4"], (16, 1)), ("darcy", ["--size", "8"], (8, 8, 3))],
)
def test_networks_of_other_experiments(experiment, arguments, shape, images, tmp_path):
    arguments = [experiment, *TINY, *arguments, "--sizes", "3", "8", "--output", str(tmp_path)]
    options, data, _ = sweep.parse(arguments)
    assert data.inputs.shape[1:] == shape
    searched, separable = (
        sweep.network(method, data, 0, options) for method in ("fixed 8", "separable")
    )
    outputs = (None, 10) if experiment == "mnist" else (None, 8, 8, 1)
    assert searched.output_shape == separable.output_shape == outputs
    sizes = keras_xd.describe(searched)["block1"]
    assert sizes["kernel_size/0"] == pytest.approx(8, abs=1e-4)


def test_settings_are_checked(images, tmp_path, capsys):
    for wrong in (["--sizes", "3"], ["--sizes", "3", "9"], ["--size", "3"]):
        with pytest.raises(SystemExit):
            arguments = ["cifar10", *TINY, "--size", "8", *wrong, "--output", str(tmp_path)]
            sweep.parse(arguments)
    assert "up to the 8 points of the inputs. Received: [3, 9]" in capsys.readouterr().err
