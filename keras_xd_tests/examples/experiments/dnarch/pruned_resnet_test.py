"""The comparison of smaller networks runs in a tiny setting, and cuts what it says."""

import functools
import importlib

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

with example_scripts.on_path():
    pruned = importlib.import_module("experiments.dnarch.pruned_resnet")

TINY = ["--size", "8", "--width", "8", "--subset", "8", "--test-subset", "6", "--batch-size", "4"]
TINY += ["--epochs", "1", "--more-epochs", "2", "--search-epochs", "1", "--seeds", "3"]
TINY += ["--architecture-rate", "0.4"]  # two steps are to move the masks


def residual(options, width, blocks=2):
    """Return blocks that are named as those of ResNet-20."""
    x = inputs = keras.Input((options.size, options.size, 3))
    x = keras.layers.Conv2D(width, 3, padding="same", name="conv")(x)
    for number in range(1, blocks + 1):
        name = f"stage1_block{number}"
        y = keras.layers.Conv2D(width, 3, padding="same", use_bias=False, name=f"{name}_conv1")(x)
        y = keras.layers.BatchNormalization(name=f"{name}_conv1_normalization")(y)
        y = keras.layers.ReLU(name=f"{name}_relu1")(y)
        y = keras.layers.Conv2D(width, 3, padding="same", use_bias=False, name=f"{name}_conv2")(y)
        x = keras.layers.Add(name=f"{name}_add")([y, x])
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(inputs, keras.layers.Dense(10, name="classifier")(x))


@pytest.fixture
def tiny(rng, monkeypatch):
    def load(name, data_dir, subset):
        shapes = [(number, 32, 32, 3) for number in (10, 2, 7)]
        return tuple((rng.uniform(size=s).astype("float32"), np.arange(s[0]) % 10) for s in shapes)

    monkeypatch.setattr(pruned.images, "load", load)
    monkeypatch.setattr(pruned, "resnet", residual)
    monkeypatch.setattr(pruned.timing, "ROUNDS", 1)
    monkeypatch.setattr(pruned, "CALLS", (32,))


def test_methods_come_to_the_budget(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(pruned, "resnet", functools.partial(residual, blocks=1))
    arguments = [*TINY, "--output", str(tmp_path)]
    results = pruned.main(arguments)
    assert [run["method"] for run in results.runs] == list(pruned.METHODS)
    whole, masked, cut, narrow = results.runs
    assert whole["multiply_adds"] == whole["whole_multiply_adds"] == 64 * 9 * (24 + 2 * 64) + 80
    assert whole["kind"] == "1" and {run["kind"] for run in results.runs[1:]} == {"0.5"}
    assert masked["searched"] == masked["multiply_adds"] < 0.9 * whole["multiply_adds"]
    for run in (cut, narrow):
        assert 0.3 < run["multiply_adds"] / whole["multiply_adds"] < 0.6
        assert run["parameters"] < whole["parameters"] and run["bytes"] < whole["bytes"]
    assert [len(run["seconds"]) for run in results.runs] == [2, 3, 2, 2]
    assert all(run["score"] in [n / 6 for n in range(7)] for run in results.runs)
    page = (tmp_path / "pruned_resnet.md").read_text(encoding="utf-8")
    assert "| smallest filters cut | 50 % |" in page and "| 0.5 | 3 | 3×3×8 " in page


def test_the_smallest_filters_are_cut(tiny, tmp_path):
    options, _ = pruned.parse([*TINY, "--output", str(tmp_path)])
    model = residual(options, 8)
    small_ones = {"stage1_block1_conv1": [0, 2, 3, 7], "stage1_block2_conv1": [1, 4, 5, 6]}
    for name, filters in small_ones.items():
        kernel = model.get_layer(name).kernel
        values = keras.ops.convert_to_numpy(kernel).copy()
        values[..., filters] = 0  # such channels are 0 behind normalization and ReLU too
        kernel.assign(values)
    small = pruned.cut_filters(model, 0.55 * keras_xd.complexity(model))
    assert [small.get_layer(name).filters for name in small_ones] == [4, 4]
    x = keras.ops.ones((2, 8, 8, 3))
    np.testing.assert_allclose(small(x), model(x), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="one channel in each block.*Received: budget=9"):
        pruned.cut_filters(model, 9)


def test_the_network_is_resnet_20_of_the_width_for_the_budget(tmp_path):
    options, _ = pruned.parse(["--size", "8", "--output", str(tmp_path)])
    found = pruned.narrow(options, 1000.0, 500.0)
    assert found.get_layer("conv").filters == 11  # 16 / √2
    assert [layer.filters for layer in pruned.inner(found)] == 3 * [11] + 3 * [22] + 3 * [44]


def test_settings_are_checked(tmp_path, capsys):
    wrong = {
        "--budgets=0": "above 0",
        "--budgets=1": "below 1",
        "--search-epochs=9": "below --more-epochs",
        "--width=0": "at least 1",
    }
    for argument, message in wrong.items():
        with pytest.raises(SystemExit):
            pruned.parse([argument, "--output", str(tmp_path)])
        assert message in capsys.readouterr().err
