"""Cells are decided by what the network loses without an operation."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd.layers.cells.genotypes import cell_of_weights, random_genotype
from keras_xd.search import decide_by_perturbation
from keras_xd_tests.search.gated_dense import gated_model

NAMES = ("identity", "max_pooling_3", "channel_attention")
numpy = keras.ops.convert_to_numpy


def searched(relaxation="softmax", names=NAMES, channels=4, **options):
    keras.utils.set_random_seed(1)
    model = keras_xd.models.nos_search_network(
        3, channels, (8, 8, 3), 2, operations=names, seed=1, relaxation=relaxation
    )
    search = keras_xd.SearchModel(model)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    search.compile("sgd", "sgd", loss, metrics=["accuracy"], jit_compile=False, **options)
    return search


def samples(rng, number=6):
    return rng.normal(size=(number, 8, 8, 3)).astype("float32"), np.arange(number) % 2


def architectures(search):
    return [search.model.get_layer(name).architecture for name in ("cell1", "cell2")]


@pytest.mark.parametrize("relaxation", ["softmax", "partial"])
def test_it_is_the_rule_with_the_importance_for_weights(relaxation, rng, monkeypatch):
    """The loss of an evaluation is replaced by a sum over what is not removed."""
    search = searched(relaxation)
    kinds = architectures(search)
    costs = [rng.random((18, 3)) for _ in kinds]

    def evaluate(x, y, **options):
        assert options["batch_size"] == 5
        present = [numpy(kind.operation_shares) > 1e-6 for kind in kinds]
        return {"loss": -sum(c[p].sum() for c, p in zip(costs, present, strict=True))}

    monkeypatch.setattr(search, "evaluate", evaluate)
    found = decide_by_perturbation(search, *samples(rng), batch_size=5)
    expected = [cell_of_weights(cost, NAMES) for cost in costs]
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


def test_architectures_can_be_told_any_cell():
    for seed in range(5):
        genotype = random_genotype(np.random.default_rng(seed), NAMES)
        for relaxation in ("softmax", "partial"):
            architecture = keras_xd.layers.CellArchitecture(False, NAMES, relaxation=relaxation)
            architecture.build()
            architecture.decide(genotype.normal)
            assert architecture.genotype == genotype.normal


def test_logits_are_kept_where_it_fails(rng):
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
    with pytest.raises(ValueError, match="'softmax' or 'partial'. Received: relaxation='gumbel'"):
        decide_by_perturbation(searched("gumbel", NAMES[:2]), x, y)
    with pytest.raises(ValueError, match="a model with 0 normal and 0 reduction"):
        decide_by_perturbation(keras_xd.SearchModel(gated_model()), x, y)
