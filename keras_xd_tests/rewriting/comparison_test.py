"""The table of a model and its rewritten form."""

import contextlib
import functools

import keras
import numpy as np
import pytest
from keras import layers

from keras_xd.core.searchable import searchable_layers
from keras_xd.finalizing.finalizer import finalize
from keras_xd.graph.cost import complexity
from keras_xd.rewriting.comparison import compare
from keras_xd.rewriting.rewriter import rewrite
from keras_xd_tests import sample_models


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class OwnConvolution(layers.Conv2D):
    """A subclass, which may compute anything."""


@functools.cache
def pair(make):
    """Return a model and its search space, which tests leave as they are."""
    model = sample_models.randomize(make(), np.random.default_rng(3))
    return model, rewrite(model)


@contextlib.contextmanager
def changed(layer, factor=1.0, offset=0.0):
    """Give a layer another kernel and bias within a `with` statement."""
    before = layer.get_weights()
    for variable in (layer.kernel, layer.bias):
        variable.assign(variable * factor + offset)
    yield
    layer.set_weights(before)


@pytest.mark.parametrize("make", sample_models.ALL)
def test_rewritten_layers_agree(make, rng):
    model, space = pair(make)
    before = sample_models.fingerprint(model)
    comparison = compare(model, space, sample_models.inputs_of(model, rng))
    assert len(comparison.rows) == len(searchable_layers(space))
    for row in comparison.rows:
        assert row.left_because is None and row.kind_after in (
            f"XD{row.kind_before}",
            f"XDCausal{row.kind_before}",
        )
        assert 0 < row.relative_error < 1e-5
    assert 0 < comparison.output_error < 1e-5
    assert sample_models.fingerprint(model) == before


def test_errors_are_those_of_each_layer_alone(rng):
    """Only the first layer is changed; the second gets the original's inputs."""
    inputs = keras.Input((8, 1))
    x = layers.Conv1D(2, 3, name="first")(inputs)
    model = keras.Model(inputs, layers.Conv1D(2, 3, name="second")(x))
    space = rewrite(model)
    space.get_layer("first").kernel.assign(model.get_layer("first").kernel * 1.5)
    comparison = compare(model, space, rng.normal(size=(2, 8, 1)))
    first, second = comparison.rows
    assert first.relative_error == pytest.approx(0.5, rel=1e-4)
    assert second.relative_error < 1e-5
    assert comparison.output_error > 0.1


def test_numbers_of_a_row(rng):
    model, space = pair(sample_models.shared)
    (row,) = compare(model, space, sample_models.inputs_of(model, rng)).rows
    twin = space.get_layer("twin")
    assert (row.name, row.kind_before, row.kind_after) == ("twin", "Conv2D", "XDConv2D")
    assert (row.parameters_before, row.parameters_after) == (21, twin.count_params())
    assert row.multiply_adds_before == complexity(model) == 2 * 20 * 6 * 3
    assert row.multiply_adds_after == complexity(space)
    outputs = 2 * 5 * 4 * 3 * 4
    assert row.memory_before == 21 * 4 + outputs
    frequencies = twin.plans[0].n * twin.plans[1].n
    assert row.memory_after == twin.count_params() * 4 + outputs + frequencies * 2 * 3 * 4


def test_layers_left_alone_have_reasons(rng):
    inputs = keras.Input((6, 6, 2))
    x = layers.Conv2D(2, 3, padding="same", name="chosen")(inputs)
    x = layers.Conv2D(2, 3, padding="same", name="skipped")(x)
    model = keras.Model(inputs, OwnConvolution(2, 3, name="own")(x))
    comparison = compare(model, rewrite(model, skip="skipped"), sample_models.inputs_of(model, rng))
    assert [row.left_because for row in comparison.rows] == [
        None,
        "it was not chosen",
        "OwnConvolution is a subclass of Conv2D",
    ]
    for row in comparison.rows[1:]:
        assert row.relative_error == 0.0
        assert row.multiply_adds_before == row.multiply_adds_after > 0
        assert row.memory_before == row.memory_after > 0


def test_skips_are_compared_with_the_identity(rng):
    """In a nested model that is called twice, around a raw addition."""
    model = sample_models.randomize(sample_models.nested(), rng)
    (operation,) = [
        operation
        for operation in model.get_layer("block").operations
        if not isinstance(operation, layers.Layer)
    ]
    space = rewrite(model, operations="skip")
    inserted = space.get_layer("block").get_layer(f"{operation.name}_skip")
    (bias,) = (v for v in inserted.architecture_variables if v.name == "frequency_bias")
    bias.assign(bias * 1.25)
    inputs = sample_models.inputs_of(model, rng)
    rows = {row.name: row for row in compare(model, space, inputs).rows}
    assert list(rows) == ["block/stack/conv", "conv", f"block/{operation.name}_skip"]
    row = rows[f"block/{operation.name}_skip"]
    assert (row.kind_before, row.kind_after) == ("identity", "XDConv2D")
    assert (row.parameters_before, row.memory_before, row.multiply_adds_before) == (0, 0, 0)
    assert row.relative_error == pytest.approx(0.25, rel=1e-4)
    assert row.multiply_adds_after == complexity(space) - complexity(model)
    assert compare(model, space, inputs).worst == row


def test_other_models_are_refused(rng):
    model, _ = pair(sample_models.sequential)
    other = keras.Sequential([keras.Input((13, 2)), layers.Dense(2)], name="other")
    with pytest.raises(ValueError, match="rewritten='other', which has no layer 'causal'"):
        compare(model, other, sample_models.inputs_of(model, rng))


def test_a_search_space_before_its_original_is_refused(rng):
    model, space = pair(sample_models.sequential)
    x = sample_models.inputs_of(model, rng)
    for second in (model, finalize(space)):
        with pytest.raises(ValueError, match="give the search space second. Received.*'causal'"):
            compare(space, second, x)


def test_the_error_of_a_model_is_that_of_its_worst_output(rng):
    inputs = keras.Input((8, 1))
    ends = [layers.Conv1D(2, 3, name=name)(inputs) for name in ("first", "second", "third")]
    model = keras.Model(inputs, ends)
    space = rewrite(model)
    space.get_layer("second").kernel.assign(model.get_layer("second").kernel * 1.5)
    comparison = compare(model, space, rng.normal(size=(2, 8, 1)))
    assert comparison.output_error == pytest.approx(0.5, rel=1e-4)
