"""The experiment on snapping runs in a tiny setting, and resumes."""

import importlib

import numpy as np
import pytest

from keras_xd_tests import example_scripts

with example_scripts.on_path():
    snapping = importlib.import_module("experiments.xd.snapping")

TINY = ["--size", "8", "--subset", "8", "--test-subset", "6", "--batch-size", "8"]
TINY += ["--filters", "2", "--epochs", "1", "--more-epochs", "1", "--seeds", "3"]
TINY += ["--architecture-rate", "0.1"]


@pytest.fixture
def images(rng, monkeypatch):
    def load(name, data_dir, subset):
        shapes = [(number, 32, 32, 3) for number in (10, 2, 7)]
        return tuple((rng.uniform(size=s).astype("float32"), np.arange(s[0]) % 10) for s in shapes)

    monkeypatch.setattr(snapping.images, "load", load)


def test_runs_are_kept_and_those_near_convolutions_snap(images, eager, tmp_path, monkeypatch):
    arguments = [*TINY, "--kinds", "plain", "--output", str(tmp_path)]
    results = snapping.main([*arguments, "--weights", "0"])
    backbone, moved = results.runs
    assert "distances" not in backbone and moved["snapped"] == 0
    assert min(moved["distances"]) > 0.05 and moved["at once"] == moved["score"]
    # One step of a small rate moves nothing so far.
    monkeypatch.setattr(snapping, "LAYERS", 1)
    other = [*arguments[:-1], str(tmp_path / "other"), "--architecture-rate", "1e-6"]
    near = snapping.main([*other, "--weights", "1"]).runs[1]
    assert near["snapped"] == 1 and near["operations"] == ["convolution 3×3"]
    assert near["at once"] == near["score"] and "trained on" in near
    page = (tmp_path / "other" / "snapping_cifar10.md").read_text(encoding="utf-8")
    assert "| 1 of 1 | 0.000 |" in page
    assert (tmp_path / "snapping_cifar10.svg").read_bytes().startswith(b"<?xml")
    monkeypatch.setattr(snapping, "run", None)  # what is finished is not run again
    assert snapping.main([*arguments, "--weights", "0"]).runs == results.runs


def test_rows_and_columns_are_permuted_alike_in_all_images(images, tmp_path):
    options = snapping.parse([*TINY, "--output", str(tmp_path)])[0]
    data = snapping.load(options)
    (x, y), (test_x, _) = data["plain"]
    (permuted, labels), _ = data["permuted"]
    assert x.shape == (8, 8, 8, 3) and test_x.shape == (6, 8, 8, 3)
    np.testing.assert_array_equal(y, labels)
    np.testing.assert_array_equal(np.sort(x, axis=None), np.sort(permuted, axis=None))
    assert not np.array_equal(x, permuted)


def test_settings_are_checked(tmp_path):
    for wrong in (["--weights", "-1"], ["--kinds", "odd"], ["--tolerance", "0"]):
        with pytest.raises(SystemExit):
            snapping.parse([*wrong, "--output", str(tmp_path)])
