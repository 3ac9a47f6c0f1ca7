"""Cells decided at the end of training, at once or edge by edge."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd import genotypes, layers
from keras_xd.training.callbacks import GenotypeLogger, PerturbationSelection
from keras_xd.training.callbacks.perturbation_selection import _needs_features
from keras_xd.training.perturbation import decide_by_perturbation
from keras_xd_tests.training.perturbation_test import NAMES, architectures, numpy, samples, searched


def stubbed(search, costs, calls=None):
    """Let the loss of a search be minus the costs of all operations that are not removed."""
    kinds = architectures(search)

    def evaluate(x, y, **options):
        present = [numpy(kind.logits) > -1e3 for kind in kinds]
        if calls is not None:
            calls.append(options)
        return {"loss": -sum(c[p].sum() for c, p in zip(costs, present, strict=True))}

    search.evaluate = evaluate
    return search


def trained(selection, epochs, search, rng, stop=None):
    """Call a selection as `fit` does; return the numbers of edges that keep one operation."""
    selection.set_model(search)
    selection.set_params({"epochs": epochs})
    selection.on_train_begin()
    counts = []
    for epoch in range(epochs if stop is None else stop):
        selection.on_epoch_end(epoch, {})
        counts.append(
            [
                int((numpy(k.operation_probabilities).max(-1) > 0.999).sum())
                for k in architectures(search)
            ]
        )
    selection.on_train_end()
    return counts


def test_fit_ends_with_what_the_function_decides(rng):
    """While it trains, the logger notes what the shares would decide on."""
    search = searched("perturbation", NAMES[:2], channels=1, run_eagerly=True)
    x, y = samples(rng)
    stubbed(search, [rng.random((18, 2)) for _ in range(2)])
    batches = tf.data.Dataset.from_tensors((x, y))
    kinds, undecided = architectures(search), []

    def note(logs):
        undecided.extend(numpy(kind.logits) for kind in kinds)

    logger, selection = GenotypeLogger(), PerturbationSelection(batches)
    assert selection.genotype is None
    noting = keras.callbacks.LambdaCallback(on_train_end=note)
    history = search.fit(x, y, verbose=0, callbacks=[noting, selection, logger])
    assert selection.genotype == layers.derived_genotype(search)
    assert len(logger.genotypes) == 1
    assert history is search.history and len(history.history["loss"]) == 1
    for kind, logits in zip(kinds, undecided, strict=True):
        kind.logits.assign(logits)
    shares = genotypes.Genotype(*(kind.genotype_of_probabilities for kind in kinds))
    assert logger.genotypes[-1] == shares
    assert decide_by_perturbation(search, batches) == selection.genotype


def test_edges_are_decided_one_by_one(rng):
    """In an order of its own, the last ones at the end."""
    search, costs = searched("perturbation"), [rng.random((18, 3)) for _ in range(2)]
    # Poolings make features, so that no block lacks them whatever else is kept.
    calls = []
    stubbed(search, costs, calls)
    selection = PerturbationSelection(*samples(rng), epochs_between=2, batch_size=4, seed=1)
    counts = trained(selection, 36, search, rng)
    # The first at the end of the second epoch, the last at the end of training.
    assert counts == [[min(epoch // 2, 17)] * 2 for epoch in range(1, 37)]
    assert len(calls) == 18 * (1 + 2 * 3) and all(c["batch_size"] == 4 for c in calls)
    cells = [selection.genotype.normal, selection.genotype.reduction]
    assert [kind.genotype for kind in architectures(search)] == cells
    for cell, cost in zip(cells, costs, strict=True):
        for number, block in enumerate(cell.blocks):
            assert block.second == NAMES[cost[14 + number].argmax()]
            assert any(genotypes.is_feature(name) for name, _ in block.first)
            edges = [genotypes.first_tier_edge(number, s) for s in genotypes.SOURCES[number]]
            best = cost[edges].max(-1)
            names = [NAMES[column] for column in cost[edges].argmax(-1)]
            two = np.sort(np.argsort(best)[-2:])
            if all(genotypes.is_feature(names[s]) for s in two):
                assert block.first == tuple((names[s], int(s)) for s in two)


def test_a_block_keeps_one_operation_that_makes_features(rng):
    """Though attention is what is missed most on all edges."""
    names = ("identity", "channel_attention")
    search = searched("perturbation", names)
    costs = [np.stack([rng.random(18), 2 + rng.random(18)], -1) for _ in range(2)]
    stubbed(search, costs)
    selection = PerturbationSelection(*samples(rng), epochs_between=1, seed=2)
    trained(selection, 18, search, rng)
    for cell in (selection.genotype.normal, selection.genotype.reduction):
        for block in cell.blocks:
            assert sorted(name for name, _ in block.first) == ["channel_attention", "identity"]
            assert block.second == "channel_attention"
    assert _needs_features(0, {1: 1}, names) and not _needs_features(0, {1: 0}, names)
    assert not _needs_features(0, {}, names) and not _needs_features(14, {1: 1}, names)
    assert not _needs_features(2, {3: 1}, names) and _needs_features(2, {3: 1, 4: 1}, names)


def test_bad_arguments(rng, monkeypatch):
    x, y = samples(rng)
    for options, message in (
        ({"mode": "auto"}, "`mode`"),
        ({"epochs_between": -1}, "Received: epochs_between=-1"),
        ({"epochs_between": 0.5}, "Received: epochs_between=0.5"),
        ({"seed": "one"}, "`seed`"),
    ):
        with pytest.raises(ValueError, match=message):
            PerturbationSelection(x, y, **options)
    search = searched("perturbation", NAMES[:2], channels=1)
    with pytest.raises(ValueError, match="more than 17 .* epochs=34, epochs_between=2"):
        trained(PerturbationSelection(x, y, epochs_between=2), 34, search, rng)
    with monkeypatch.context() as patch:
        patch.setattr(architectures(search)[0], "relaxation", "gumbel")
        with pytest.raises(ValueError, match="Received: relaxation='gumbel'"):
            trained(PerturbationSelection(x, y), 1, search, rng)
    stubbed(search, [rng.random((18, 2)) for _ in range(2)])
    with pytest.raises(ValueError, match="`metric` must be one of .*Received: metric='error'"):
        trained(PerturbationSelection(x, y, metric="error"), 1, search, rng)
