"""The worked example of CONTRIBUTING.md is a full search space."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd.rewriting import spaces
from keras_xd.testing import check_layer
from keras_xd_tests.docstrings_test import ROOT, code_blocks


@pytest.fixture
def gated_dense():
    """The layer of the example, registered under another name than the example's own run."""
    (code,) = code_blocks((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    layer, *_ = code.split("# 2. ")
    layer = layer.replace('package="keras_xd"', 'package="keras_xd_tests_contributing"')
    names = {}
    exec(compile(layer, "CONTRIBUTING.md", "exec"), names)
    return names["GatedDense"]


@pytest.fixture
def gates(gated_dense, monkeypatch):
    """The space of the example."""
    monkeypatch.setattr(spaces, "SEARCH_SPACES", dict(spaces.SEARCH_SPACES))
    keras_xd.register_search_space(
        keras_xd.SearchSpace("gates", {keras.layers.Dense: gated_dense}, recipe={"rate": 0.01})
    )


def test_layer_passes_the_check_of_all_layers(gated_dense):
    check_layer(gated_dense, {"units": 3, "activation": "relu"}, (2, 6, 2))


def test_one_entry_makes_a_search_space(gates, caplog):
    class Own(keras.layers.Dense):
        """A subclass, which may compute anything."""

    inputs = keras.Input((None, 4))
    shared = keras.layers.Dense(4, activation="relu", name="shared")
    x = keras.layers.TimeDistributed(keras.layers.Dense(4, name="inner"))(shared(inputs))
    x = shared(keras.layers.GlobalAveragePooling1D()(x))
    model = keras.Model(inputs, Own(3, name="own")(keras.layers.Dense(3, name="dense")(x)))
    space = keras_xd.rewrite(model, to="gates")
    assert "own (Own is a subclass of Dense)" in caplog.text
    assert len(keras_xd.architecture_variables(space)) == 2
    assert keras_xd.recipes.default_rate(space) == keras_xd.recipes.recipe("gates").rate == 0.01
    x = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")
    comparison = keras_xd.compare(model, space, x)
    assert comparison.output_error < 1e-6
    assert {row.name: row.kind_after for row in comparison.rows}["shared"] == "GatedDense"
    with pytest.raises(ValueError, match="no Dense was found"):
        keras_xd.rewrite(keras.Sequential([keras.Input((3,)), keras.layers.ReLU()]), to="gates")

    space.get_layer("dense").gates.assign([1.0, 0.5, 0.0])
    assert float(keras_xd.complexity(space.get_layer("dense"))) == 4 * 1.5
    found = keras_xd.finalize(space)
    assert type(found.get_layer("dense")) is keras.layers.Dense
    np.testing.assert_allclose(found(x), space(x), atol=1e-6)
