"""The comparison with ordinary CNNs runs in a tiny setting, resumes, and counts alike."""

import importlib

import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

with example_scripts.on_path():
    comparison = importlib.import_module("experiments.dnarch.image_comparison")

TINY = ["--size", "8", "--subset", "8", "--test-subset", "6", "--epochs", "1", "--batch-size", "8"]
TINY += ["--channels", "4", "--blocks", "1", "--seeds", "3"]


@pytest.fixture
def images(rng, monkeypatch):
    def load(name, data_dir):
        shapes = [(number, 32, 32, 3) for number in (10, 2, 7)]
        return tuple((rng.uniform(size=s).astype("float32"), np.arange(s[0]) % 10) for s in shapes)

    monkeypatch.setattr(comparison.images, "load", load)


def test_methods_are_trained_under_one_budget_and_kept(images, tmp_path, monkeypatch):
    arguments = [*TINY, "--output", str(tmp_path)]
    results = comparison.main(arguments)
    learned, separable, plain = results.runs
    assert [found["method"] for found in results.runs] == list(comparison.METHODS)
    # Encoder, a 5 × 5 depthwise convolution, two linear layers, decoder.
    by_hand = 64 * (3 * 4 + 25 * 4 + 2 * 16) + 40
    assert separable["multiply_adds"] == by_hand
    # The block counts normalization, GELUs and dropout too.
    assert learned["budget"] == pytest.approx(by_hand + 64 * (4 + 8 + 4), rel=1e-4)
    assert 0.3 < plain["multiply_adds"] / plain["budget"] <= 1
    assert np.shape(learned["kernels"]) == (1, 2) and plain["kernels"] == []
    assert all(found["score"] in [n / 6 for n in range(7)] for found in results.runs)
    page = (tmp_path / "image_comparison_8.md").read_text()
    assert "| separable |" in page and "on 6 test images of 8 × 8 pixels" in page
    assert (tmp_path / "image_comparison_8.svg").read_bytes().startswith(b"<?xml")
    monkeypatch.setattr(comparison, "run", None)  # what is finished is not run again
    assert comparison.main(arguments).runs == results.runs


def test_images_are_averaged_and_plain_networks_fill_the_budget(images, tmp_path):
    options, _ = comparison.parse([*TINY, "--output", str(tmp_path)])
    (x, y), (test_x, _) = comparison.load(options)
    assert x.shape == (8, 8, 8, 3) and test_x.shape == (6, 8, 8, 3) and len(y) == 8
    assert x.dtype == "uint8" and np.std(x) < 255 / np.sqrt(12) / 3
    model = comparison.network("plain", options, 0, 30000)
    channels = model.layers[1].filters
    assert keras_xd.complexity(model) <= 30000
    assert keras_xd.complexity(comparison.plain(options, 0, channels + 1)) > 30000


def test_settings_are_checked(images, tmp_path, capsys):
    for wrong in (["--size", "12"], ["--methods", "xd"], ["--dropout", "2"]):
        with pytest.raises(SystemExit):
            comparison.parse([*TINY, *wrong, "--output", str(tmp_path)])
