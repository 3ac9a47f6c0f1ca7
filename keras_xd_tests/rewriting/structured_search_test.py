"""The families and sizes of structured matrices, searched: `rewrite` to mixtures, and on."""

import functools

import keras
import numpy as np
import pytest
from keras import layers

import keras_xd
from keras_xd.graph.size_counts import count_parameters
from keras_xd.layers import MixedDense, MixedEinsumDense, MixedLSTM
from keras_xd.testing import assert_close
from keras_xd_tests.rewriting.structured_test import assert_same_after_saving, bert, outputs, vit

SEVERAL = {"family": ("low_rank", "block_tensor_train", "dense"), "density": (0.75, 0.5)}


def kinds_of(model):
    return [type(layer) for _, layer in keras_xd.core.searchable.named_layers(model)]


def decide(space, name, weight=200.0):
    """Give one candidate, or its share, to every mixture."""
    for layer in keras_xd.core.searchable.searchable_layers(space):
        place = layer.operation_names.index(name)
        layer.logits.assign(weight * np.eye(len(layer.operation_names))[place])


OPTIONS = {
    layers.MultiHeadAttention: {**SEVERAL, "density": 0.5},
    layers.GroupQueryAttention: {**SEVERAL, "family": ("block_tensor_train", "dense")},
}


@functools.cache
def transformer(attention):
    """Return a model and its search space, whose architecture alone is changed by tests."""
    model = vit(attention=attention)
    return model, keras_xd.rewrite(model, to="structured", skip="head", **OPTIONS[attention])


@pytest.mark.parametrize("attention", OPTIONS)
def test_transformers_are_rewritten_and_finalized(attention, tmp_path, rng):
    model, space = transformer(attention)
    x = rng.normal(size=(8, 16, 16, 3)).astype("float32")
    kinds = kinds_of(space)
    assert kinds.count(MixedEinsumDense) == 4 and kinds.count(MixedDense) == 2
    decide(space, "dense")
    assert_close(outputs(space, x), outputs(model, x), 1e-5)
    assert_close(outputs(keras_xd.finalize(space), x), outputs(model, x), 1e-5)
    decide(space, "block_tensor_train_0.5")
    plain = keras_xd.finalize(space)
    assert not keras_xd.core.searchable.searchable_layers(plain)
    assert_close(outputs(plain, x), outputs(space, x), 1e-5)
    counted = count_parameters(space)
    assert plain.count_params() == float(counted) < 0.65 * model.count_params()
    assert keras_xd.complexity(plain) == float(keras_xd.complexity(space))
    saved = space if attention is layers.MultiHeadAttention else plain
    assert_same_after_saving(saved, x, tmp_path)
    names = {row.name for row in plain.report.rows}
    assert {"block_attention/query", "block_mlp1"} < names


def test_a_transformer_is_searched(rng):
    model, space = transformer(layers.GroupQueryAttention)
    x = rng.normal(size=(8, 16, 16, 3)).astype("float32")
    weights = space.get_weights()
    decide(space, "dense", 1.0)
    search = keras_xd.SearchModel(space)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    target = 0.7 * model.count_params()
    settings = {"complexity_measure": "parameters", "complexity_weight": 50.0}
    search.compile(
        "adam",
        keras.optimizers.Adam(0.1),
        loss,
        complexity_target=target,
        jit_compile=False,
        **settings,
    )
    search.fit(x, np.arange(8) % 6, epochs=25, verbose=0)
    assert float(count_parameters(space)) == pytest.approx(target, rel=0.03)
    decide(space, "block_tensor_train_0.5")
    assert_close(outputs(keras_xd.finalize(search), x), outputs(space, x), 1e-5)
    space.set_weights(weights)


def test_layers_made_in_build_and_recurrent_ones(rng):
    model = bert()
    x = rng.integers(0, 11, (4, 7))
    x[:, 5:] = 0
    options = {**SEVERAL, "family": ("low_rank", "dense")}
    space = keras_xd.rewrite(model, to="structured", **options)
    decide(space, "low_rank_0.75")
    plain = keras_xd.finalize(space)
    assert_close(outputs(plain, x), outputs(space, x), 1e-5)

    inputs = keras.Input((3, 8))
    y = layers.Bidirectional(layers.LSTM(6, name="state"), name="both")(inputs)
    model = keras.Model(inputs, layers.Dense(4)(y))
    space = keras_xd.rewrite(model, to="structured", **SEVERAL)
    assert kinds_of(space).count(MixedLSTM) == 2
    x = rng.normal(size=(3, 3, 8)).astype("float32")
    decide(space, "dense")
    assert_close(outputs(space, x), outputs(model, x), 1e-5)
    assert_close(outputs(keras_xd.finalize(space), x), outputs(model, x), 1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"family": ("low_rank", "sparse")}, "'sparse'"),
        ({"family": ("low_rank",), "budget": 100}, "`complexity_target` .*'budget': 100"),
        ({"family": ["monarch"], "sizes": {"blocks": 2}}, "are a search.*'sizes'"),
        ({"density": (0.5, 1.5)}, "density=1.5"),
        ({"density": (0.5, 0.5)}, "`densities` must be different"),
        ({"family": ("low_rank",), "density": (0.01, 0.02)}, "no layer has one.*two candidates"),
        ({"learning_rates": "fast"}, "`learning_rates` must be one of"),
    ],
)
def test_bad_input(options, message):
    inputs = keras.Input((12,))
    model = keras.Model(inputs, layers.Dense(24, name="dense")(inputs))
    with pytest.raises(ValueError, match=message):
        keras_xd.rewrite(model, to="structured", **options)
