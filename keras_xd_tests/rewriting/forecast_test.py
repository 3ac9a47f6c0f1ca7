"""Forecasts are the counts of the rewritten model."""

import functools
import itertools

import keras
import pytest
from keras import layers

import keras_xd
from keras_xd.core.tracing import shapes_alone
from keras_xd.graph.cost import complexity
from keras_xd.rewriting.comparison import compare
from keras_xd.rewriting.forecast import forecast
from keras_xd.rewriting.rewriter import rewrite
from keras_xd_tests import sample_models


def every_kind():
    """A model of every kind of layer that is rewritten, and one that is left."""
    inputs = keras.Input((9, 8, 4), name="image")
    x = layers.Conv2D(6, 3, groups=2, strides=2, name="plain")(inputs)
    x = layers.DepthwiseConv2D(2, depth_multiplier=2, padding="same", name="depthwise")(x)
    x = layers.SeparableConv2D(4, 3, padding="same", depth_multiplier=2, name="separable")(x)
    x = layers.Conv2DTranspose(4, 3, strides=2, use_bias=False, name="transposed")(x)
    x = layers.Add(name="sum")([x, layers.Conv2D(4, 3, padding="same", name="residual")(x)])
    x = layers.MaxPooling2D(1, name="maximum")(x)
    x = layers.AveragePooling2D(2, padding="same", name="pool")(x)
    return keras.Model(inputs, layers.Dense(3, name="dense")(layers.Flatten()(x)))


made = functools.cache(lambda make: make())  # models that no test changes
ALL_OPERATIONS = ("convolution", "pooling", "skip")


ARGUMENTS = [
    {},
    {"depth": (1, 2, 3), "operations": ALL_OPERATIONS, "radix": 4},
    {"frequency_bias": True, "channel_gates": True, "padding": "circular"},
    {"to": "k_operation", "warm_start": "random_unitary"},
]


def of_models(values):
    """Return each value with the model of every kind, and each other model with one of them."""
    others = zip(sample_models.ALL, itertools.cycle(values), strict=False)
    return [(every_kind, value) for value in values] + list(others)


def compared(model, other, rng):
    """Return what `compare` counts, of operations that are not computed: they give zeros."""
    with shapes_alone():
        return compare(model, other, sample_models.inputs_of(model, rng, batch=2))


def name_of(value):
    return getattr(value, "__name__", str(value))


@pytest.mark.parametrize(("make", "arguments"), of_models(ARGUMENTS), ids=name_of)
def test_forecast_is_what_becomes(make, arguments, rng):
    model = made(make)
    before = sample_models.fingerprint(model)
    expected = forecast(model, **arguments)
    assert sample_models.fingerprint(model) == before
    space = rewrite(model, **arguments)
    comparison = compared(model, space, rng)
    rows = {row.name: row for row in comparison.rows}
    assert {row.name for row in expected.rows if row.left_because is None} == {
        row.name for row in comparison.rows if row.left_because is None
    }
    for row in expected.rows:
        actual = rows[row.name].__dict__
        known = {name: value for name, value in row.__dict__.items() if name in actual}
        assert known == {name: actual[name] for name in known} and len(known) == 10
    assert expected.parameters_before == model.count_params()
    assert expected.parameters_after == space.count_params()
    assert expected.multiply_adds_before == complexity(model)
    assert expected.multiply_adds_after == complexity(space)
    for which, memory in ((model, expected.memory_before), (space, expected.memory_after)):
        when = "before" if which is model else "after"
        weights = sum(weight.nbytes for weight in which.get_weights())
        inside = {id(w) for layer in which.layers for w in layer.weights}
        assert len(inside) == len(which.weights)
        rest = sum(getattr(rows[row.name], f"memory_{when}") for row in expected.rows)
        counted = sum(getattr(row, f"parameters_{when}") for row in expected.rows) * 4
        assert memory == weights + rest - counted


def test_unknown_sizes():
    inputs = keras.Input((None, None, 1))
    x = layers.Conv2D(2, 3, name="open")(inputs)
    x = layers.Resizing(4, 4)(x)
    model = keras.Model(inputs, layers.Conv2D(2, 3, name="known")(x))
    with pytest.warns(UserWarning, match="spatial size is unknown.*Left: open"):
        result = forecast(model)
    open_row, known = result.rows
    assert open_row.left_because.startswith("its spatial size is unknown")
    assert open_row.multiply_adds_before is None and result.multiply_adds_before is None
    assert known.multiply_adds_after > known.multiply_adds_before > 0
    assert "? → ?" in str(result)


def test_other_errors_are_not_taken_for_unknown_sizes():
    class Broken(layers.ReLU):
        def multiply_adds(self, input_shape):
            raise ValueError("my own")

    inputs = keras.Input((8, 1))
    model = keras.Model(inputs, layers.Conv1D(2, 3)(Broken()(inputs)))
    with pytest.raises(ValueError, match="my own"):
        forecast(model)


@functools.cache
def rewritten(make):
    return rewrite(made(make), depth=2)


@pytest.mark.parametrize(("make", "keep"), of_models(["kernel", "spectrum"]), ids=name_of)
def test_finalized_sizes_are_those_of_the_finalized_model(make, keep, rng):
    model = made(make)
    expected = forecast(model, depth=2, form=keep)
    plain = keras_xd.finalize(rewritten(make), form=keep)
    assert expected.parameters_finalized == plain.count_params()
    assert expected.multiply_adds_finalized == complexity(plain)
    found = {row.name: row for row in plain.report.rows}
    for row in expected.rows:
        if row.left_because is None:
            assert row.parameters_finalized == found[row.name].parameters_after
            assert row.multiply_adds_finalized % found[row.name].multiply_adds_after == 0
        else:
            assert row.parameters_finalized == row.parameters_before
    memory = {row.name: row.memory_after for row in compared(model, plain, rng).rows}
    for row in expected.rows:
        assert row.memory_finalized == memory[row.name]
    text = str(expected).splitlines()[-1]
    assert f"→ {plain.count_params():,}  " in text


def test_what_the_search_decides_has_no_finalized_size():
    model = keras.Sequential([keras.Input((8, 8, 2)), layers.Conv2D(2, 3, padding="same")])
    found = forecast(model, to="darts")
    assert found.parameters_finalized is found.multiply_adds_finalized is None
    assert found.rows[0].form is found.memory_finalized is None
    with pytest.raises(ValueError, match="form='all'"):
        forecast(model, form="all")
