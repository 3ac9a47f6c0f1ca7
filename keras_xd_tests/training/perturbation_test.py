"""Cells are decided by what the network loses without an operation."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd import layers
from keras_xd.layers.cells.architecture_logits import ArchitectureLogits
from keras_xd.layers.cells.genotypes import cell_of_weights
from keras_xd.training.perturbation import decide_by_perturbation
from keras_xd_tests.training.gated_dense import gated_model

NAMES = ("identity", "max_pooling_3", "channel_attention")
numpy = keras.ops.convert_to_numpy


@functools.cache
def network(relaxation, names, channels):
    """Return a network that tests share, and its weights as they were made."""
    keras.utils.set_random_seed(1)
    kinds = [ArchitectureLogits(number, names, 1, relaxation) for number in (False, True)]
    inputs = keras.Input((4, 4, 3))
    outputs = [inputs, inputs]
    for number, kind in enumerate(kinds):
        filters = channels * (1 + number)  # halving the sizes takes two
        cell = layers.HeterogeneousCell(filters, kind, bool(number), name=f"cell{number + 1}")
        outputs.append(cell(outputs[-2:]))
    x = keras.layers.GlobalAveragePooling2D()(outputs[-1])
    model = keras.Model(inputs, keras.layers.Dense(2)(x))
    return model, model.get_weights()


def searched(relaxation="softmax", names=NAMES, channels=4, **options):
    """Return a search of its own around a network with its first weights."""
    model, weights = network(relaxation, names, channels)
    model.set_weights(weights)
    keras.utils.set_random_seed(1)
    search = keras_xd.SearchModel(model)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    search.compile("sgd", "sgd", loss, metrics=["accuracy"], jit_compile=False, **options)
    return search


def samples(rng, number=6):
    return rng.normal(size=(number, 4, 4, 3)).astype("float32"), np.arange(number) % 2


def architectures(search):
    return [search.model.get_layer(name).architecture for name in ("cell1", "cell2")]


@pytest.mark.parametrize(
    ("relaxation", "names", "channels"),
    [("softmax", NAMES[:2], 1), ("partial", NAMES[:2], 4), ("perturbation", NAMES, 4)],
    ids=["softmax", "partial", "perturbation"],
)
def test_it_is_the_rule_with_the_importance_for_weights(
    relaxation, names, channels, rng, monkeypatch
):
    """The loss of an evaluation is replaced by a sum over what is not removed."""
    search = searched(relaxation, names, channels)
    kinds = architectures(search)
    costs = [rng.random((18, len(names))) for _ in kinds]

    def evaluate(x, y, **options):
        assert options["batch_size"] == 5
        present = [numpy(kind.operation_probabilities) > 1e-6 for kind in kinds]
        return {"loss": -sum(c[p].sum() for c, p in zip(costs, present, strict=True))}

    monkeypatch.setattr(search, "evaluate", evaluate)
    found = decide_by_perturbation(search, *samples(rng), batch_size=5)
    expected = [cell_of_weights(cost, names) for cost in costs]
    assert [found.normal, found.reduction] == expected
    assert keras_xd.layers.derived_genotype(search) == found
    plain = keras_xd.finalize(search)
    cells = [layer for layer in plain.layers if isinstance(layer, keras_xd.layers.DerivedCell)]
    assert [cell.genotype_cell for cell in cells[:2]] == expected


def test_it_evaluates_the_trained_network(rng):
    search = searched(names=("identity", "max_pooling_3"), channels=1)
    batches = tf.data.Dataset.from_tensors(samples(rng))
    weights = [numpy(w) for w in search.model.trainable_weights]
    counted = []
    evaluate = search.evaluate
    search.evaluate = lambda *a, **k: counted.append(1) or evaluate(*a, **k)
    found = decide_by_perturbation(search, batches, metric="accuracy", mode="max")
    assert len(counted) == 1 + 2 * 18 * 2
    assert keras_xd.layers.derived_genotype(search) == found
    logits = {id(kind.logits) for kind in architectures(search)}
    for variable, before in zip(search.model.trainable_weights, weights, strict=True):
        if id(variable) not in logits:
            np.testing.assert_array_equal(numpy(variable), before)


def test_logits_are_kept_where_it_fails(rng, monkeypatch):
    search = searched(names=NAMES[:2], channels=1, run_eagerly=True)
    before = [numpy(kind.logits) for kind in architectures(search)]
    for options, message in (
        ({"metric": "error"}, r"one of \['accuracy', .*'loss'.*\].*Received: metric='error'"),
        ({"mode": "auto"}, "Received: mode='auto'"),
    ):
        with pytest.raises(ValueError, match=message):
            decide_by_perturbation(search, *samples(rng), **options)
    x, y = samples(rng)
    with pytest.raises(ValueError, match="`metric` must be finite. Received: loss=nan"):
        decide_by_perturbation(search, x * np.nan, y)
    for kind, logits in zip(architectures(search), before, strict=True):
        np.testing.assert_array_equal(numpy(kind.logits), logits)
    with monkeypatch.context() as patch:
        patch.setattr(architectures(search)[0], "relaxation", "gumbel")
        with pytest.raises(ValueError, match="'softmax' or 'partial'. Received: relaxation='gum"):
            decide_by_perturbation(search, x, y)
    with pytest.raises(ValueError, match="a model with 0 normal and 0 reduction"):
        decide_by_perturbation(keras_xd.SearchModel(gated_model()), x, y)
