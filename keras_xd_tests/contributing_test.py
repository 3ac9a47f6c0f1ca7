"""The worked example of CONTRIBUTING.md is a full search space."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd.rewriting import kinds
from keras_xd.testing import check_layer
from keras_xd_tests.docstrings_test import ROOT, code_blocks


@pytest.fixture
def gated_conv():
    """The layer of the example, registered under another name than the example's own run."""
    (code,) = code_blocks((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    layer, *_ = code.split("# 2. ")
    layer = layer.replace('package="keras_xd"', 'package="keras_xd_tests"')
    names = {}
    exec(compile(layer, "CONTRIBUTING.md", "exec"), names)
    return names["GatedConv2D"]


@pytest.fixture
def gates(gated_conv, monkeypatch):
    """The entry of the example."""
    monkeypatch.setattr(kinds, "SEARCH_SPACES", dict(kinds.SEARCH_SPACES))
    keras_xd.register_search_space("gates", {keras.layers.Conv2D: gated_conv})


def test_layer_passes_the_check_of_all_layers(gated_conv):
    arguments = {"filters": 3, "kernel_size": 3, "padding": "same", "activation": "relu"}
    check_layer(gated_conv, arguments, (2, 6, 5, 2))


def test_one_entry_makes_a_search_space(gates, caplog):
    model = keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            keras.layers.Conv2D(3, 3, padding="same", name="conv"),
            keras.layers.DepthwiseConv2D(3, name="depthwise"),
        ]
    )
    space = keras_xd.rewrite(model, to="gates")
    assert type(space.get_layer("conv")).__name__ == "GatedConv2D"
    assert "depthwise (there is no searchable DepthwiseConv2D)" in caplog.text
    inputs = np.random.default_rng(0).normal(size=(2, 6, 6, 2)).astype("float32")
    assert keras_xd.compare(model, space, inputs).output_error < 1e-6

    space.get_layer("conv").gates.assign([1.0, 0.5, 0.0])
    assert float(keras_xd.complexity(space.get_layer("conv"))) == 36 * 9 * 2 * 1.5
    found = keras_xd.finalize(space)
    assert type(found.get_layer("conv")) is keras.layers.Conv2D
    np.testing.assert_allclose(found(inputs), space(inputs), atol=1e-6)
