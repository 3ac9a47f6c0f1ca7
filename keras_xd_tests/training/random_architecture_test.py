"""Whose architecture variables are whose, and random architectures by each layer's rule."""

import random

import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.core.searchable import architecture_variables, model_variables
from keras_xd.training.random_architecture import architecture_parts, randomize_architecture
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import GatedDense, gated_model


class Unrepeatable(GatedDense):
    """Cannot be made again from its configuration."""

    @classmethod
    def from_config(cls, config):
        raise TypeError("no")


class Misshapen(GatedDense):
    def random_architecture(self, generator):
        return [np.zeros(1)]


def values_of(variables):
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


def model_of(*parts, shape=(4,)):
    return keras.Sequential([keras.Input(shape), *parts])


def names(model):
    return [(path, [v.name for v in variables]) for path, _, variables in architecture_parts(model)]


def test_variables_belong_to_the_innermost_searchable_layer():
    separable = layers.XDSeparableConv1D(2, 3, search_pointwise=True, name="separable")
    inner = layers.KOpConv1D(2, 3, padding="circular", name="inner")
    resampled = layers.SearchableResampled(inner, 3, name="resampled")
    model = model_of(separable, resampled, shape=(8, 1))
    matrices = ["K0", "L0", "M0"]
    assert names(model) == [
        ("separable/depthwise", [*matrices, "frequency_bias", "channel_gates"]),
        ("separable/pointwise", matrices),
        ("resampled/inner", matrices),
    ]
    assert names(SearchModel(model)) == names(model)
    assert names(inner) == [("", matrices)]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (model_of(keras.layers.Dense(1)), "Only a model with searchable layers"),
        (7, "must be a Keras layer.*Received: model=7"),
        (keras.Sequential([GatedDense(2, name="first")]), "'first', which is not built"),
    ],
)
def test_nothing_to_draw(model, message):
    with pytest.raises(ValueError, match=message):
        randomize_architecture(model, 0)


def test_seeds_and_weights():
    model = gated_model()
    others = [variable.numpy() for variable in model_variables(model)]
    state, drawn = random.getstate(), []
    for seed in (1, 1, 2):
        drawn.append(values_of(architecture_variables(randomize_architecture(model, seed)))[0])
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.any(drawn[0] == drawn[2])
    for before, after in zip(others, model_variables(model), strict=True):
        np.testing.assert_array_equal(before, after.numpy())
    assert random.getstate() == state
    keras.utils.set_random_seed(3)
    first = values_of(architecture_variables(randomize_architecture(model)))[0]
    keras.utils.set_random_seed(3)
    np.testing.assert_array_equal(
        first, values_of(architecture_variables(randomize_architecture(model)))[0]
    )


def test_a_shared_operation_is_drawn_once_and_stays_shared():
    operation = layers.KOperation()
    model = model_of(
        layers.KOpConv1D(2, 3, padding="circular", operation=operation),
        layers.KOpConv1D(2, 5, padding="circular", operation=operation),
        shape=(6, 1),
    )
    randomize_architecture(model, 4)
    first, second = model.layers
    assert first.architecture_variables[0] is second.architecture_variables[0]
    expected = first.random_architecture(np.random.default_rng(4))
    for value, found in zip(expected, values_of(operation.variables), strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-6)


def test_shares_are_drawn_evenly(rng):
    layer = layers.MixedOperation1D(
        2, 3, candidates=("skip", "zero"), padding="same", other_weight=0
    )
    layer.build((None, 6, 2))
    logits = np.stack([layer.random_architecture(rng)[0] for _ in range(4000)])
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    # The even distribution on the triangle: means 1/3, variances 1/18; the bounds are 4 errors.
    np.testing.assert_allclose(shares.mean(axis=0), 1 / 3, atol=4 * np.sqrt(1 / 18 / 4000))
    np.testing.assert_allclose(shares.var(axis=0), 1 / 18, atol=4 * np.sqrt(2 / 18**2 / 4000))
    counts = np.bincount(logits.argmax(axis=1), minlength=3)
    np.testing.assert_allclose(counts / 4000, 1 / 3, atol=4 * np.sqrt(2 / 9 / 4000))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Unrepeatable, "must implement `random_architecture`. Received: layer 'last'"),
        (Misshapen, r"'last' shapes \[\(1,\)\], variables of shapes \[\(4,\)\]"),
    ],
)
def test_all_or_nothing(kind, message):
    model = model_of(GatedDense(4), kind(3, name="last"))
    before = values_of(model.variables)
    with pytest.raises(ValueError, match=message):
        randomize_architecture(model, 0)
    for old, new in zip(before, values_of(model.variables), strict=True):
        np.testing.assert_array_equal(old, new)
