"""The tasks of the Long Range Arena in a tiny setting."""

import importlib

import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

with example_scripts.on_path():
    dnarch = importlib.import_module("experiments.dnarch.dnarch")
    training = importlib.import_module("experiments.dnarch.dnarch_training")

TINY = ["--blocks", "1", "--channels", "4", "--epochs", "1", "--batch-size", "8"]


def write_pairs(folder):
    lines = [f"{i % 2}.0\t1\t2\t{'ab' * 20}\t{('ba', 'cc')[i % 2] * 20}\n" for i in range(16)]
    for part in ("train", "eval", "test"):
        (folder / f"new_aan_pairs.{part}.tsv").write_text("".join(lines))


def test_pairs_are_searched(tmp_path):
    write_pairs(tmp_path)
    arguments = ["retrieval", "--methods", "KRWD", "--size", "48", "--data-dir", str(tmp_path)]
    (run,) = dnarch.main([*arguments, *TINY, "--output", str(tmp_path / "out")]).runs
    assert run["kind"] == "retrieval" and 0 <= run["score"] <= 1
    assert len(run["blocks"]) == 2 and run["difference"] < 1e-4


def test_curves_are_sequences(tmp_path):
    arguments = ["pathfinder", *TINY, "--subset", "4", "--output", str(tmp_path)]
    _, data, _ = dnarch.parse(arguments)
    assert data.inputs.shape == (4, 1024, 1) and data.classes == 2
    np.testing.assert_array_equal(data.targets, [0, 1, 0, 1])


def test_pairs_are_read_by_one_network(tmp_path):
    write_pairs(tmp_path)
    arguments = ["retrieval", *TINY, "--size", "48", "--data-dir", str(tmp_path)]
    options, data, _ = dnarch.parse([*arguments, "--output", str(tmp_path / "out")])
    model = training.network("plain", data, 0, options)
    features, head = model.get_layer("features"), model.layers[-2:]
    a, b = (features.predict(data.inputs[:3, place], verbose=0) for place in (0, 1))
    (first, bias), (second, last) = (layer.get_weights() for layer in head)
    hidden = np.maximum(np.concatenate([a, b, a * b, a - b], axis=1) @ first + bias, 0)
    found = model.predict(data.inputs[:3], verbose=0)
    np.testing.assert_allclose(found, hidden @ second + last, rtol=1e-4, atol=1e-5)
    # The features are counted for both.
    counts = keras_xd.complexity(model), keras_xd.complexity(features)
    assert counts[0] > 2 * counts[1]


def test_bad_sizes(tmp_path, capsys):
    for arguments in (["path_x", "--size", "32"], ["pathfinder", "--size", "16"]):
        with pytest.raises(SystemExit):
            dnarch.main([*arguments, "--subset", "4", "--output", str(tmp_path)])
        assert "PathFinder has 32, Path-X 128 pixels. Received: size=" in capsys.readouterr().err
