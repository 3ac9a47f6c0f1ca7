"""Tasks of the comparison of structured kernels, and what a seed decides."""

import dataclasses

import numpy as np
import pytest

from keras_xd_tests import example_scripts

structured = example_scripts.load("experiments.structured.structured")
models = example_scripts.load("experiments.structured.structured_models")

TINY = ["--epochs", "1", "--width", "8", "--blocks", "1", "--mlp-width", "16", "--length", "6"]
TINY += ["--shares", "0.5", "--batch-size", "8", "--subset", "8"]


@pytest.fixture
def tiny(rng, monkeypatch):
    """Put made up data in the place of the data sets."""

    def parts(low, high, length, classes):
        x = rng.integers(low, high, (8, length)).astype("int32")
        return [(x, np.arange(8) % classes)] * 2

    def sentences(options):
        return parts(0, 9, 6, 2), (6,), 9, 2

    def pieces(options):
        x = rng.integers(0, 9, (8, 6)).astype("int32")
        return [(x, np.roll(x, -1, axis=1))] * 2, (6,), 9, 9

    def images(options):
        x = rng.normal(size=(8, 16, 16, 3)).astype("float32")
        return [(x, np.arange(8) % 10)] * 2, (16, 16, 3), None, 10

    loads = {"trec": sentences, "sst2": sentences, "ptb": pieces, "mlp": images, "vit": images}
    for name, load in loads.items():
        task = dataclasses.replace(models.TASKS[name], load=load)
        monkeypatch.setitem(models.TASKS, name, task)


def test_the_seed_decides(tiny, tmp_path):
    """Weights, dropout and batches, also of a network that another seed has trained."""
    two_batches = ["--tasks", "mlp", "--batch-size", "4"]
    options, _ = structured.parse([*TINY, *two_batches, "--output", str(tmp_path)])
    data = structured.Data("mlp", options)
    first, other, again = (structured.run("mlp", "monarch", "0.5", s, data) for s in (0, 1, 0))
    assert again["loss"] == first["loss"] and again["score"] == first["score"]
    assert other["loss"] != first["loss"]
    dense = structured.run("mlp", "dense", "1", 0, data)
    assert dense["left"] == dense["kernels"] == first["kernels"] > first["left"]
