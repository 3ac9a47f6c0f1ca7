"""Relaxed cells on part of the channels, with shares of edges."""

import keras
import numpy as np
import pytest

from keras_xd import genotypes, layers, models
from keras_xd.layers.cells.architecture_logits import ArchitectureLogits
from keras_xd.testing import assert_close
from keras_xd.training.operation_ablation import removable_architectures
from keras_xd_tests.layers.cells import cell_references
from keras_xd_tests.layers.cells.cell_references import randomized, softmax

NAMES = ("dilated_3", "identity", "spatial_attention", "dynamic_3")
GAEA = {"relaxation": "partial", "update": "exponentiated_gradient", "tiers": 1}


def weights_of(rng, reduction=False, relaxation="partial"):
    weights = ArchitectureLogits(reduction, NAMES, seed=1, relaxation=relaxation)
    weights.build()
    weights.logits.assign(rng.standard_normal((18, 4)))
    if relaxation == "partial":
        weights.edge_logits.assign(rng.standard_normal(14))
    return weights


def edge_probabilities(weights):
    values = np.asarray(weights.edge_logits, "float64")
    parts = np.split(values, [2, 5, 9])
    return np.concatenate([*(softmax(part, 0) for part in parts), np.ones(4)])


def test_shares_are_those_of_operations_times_those_of_edges(rng):
    weights = weights_of(rng)
    of_edges, of_operations = edge_probabilities(weights), softmax(np.asarray(weights.logits), -1)
    expected = of_edges[:, None] * of_operations
    np.testing.assert_allclose(np.asarray(weights.probabilities), expected, rtol=1e-5)
    assert weights.genotype == genotypes.cell_of_weights(expected, NAMES)
    assert weights.genotype != genotypes.derive_cell(np.asarray(weights.logits), NAMES)
    found = weights.describe()
    np.testing.assert_allclose(found["probabilities"], of_operations, rtol=1e-5)
    np.testing.assert_allclose(found["edge_probabilities"], of_edges, rtol=1e-5)
    # Two operations of each first tier, one of each second one.
    assert float(np.sum(np.asarray(weights.expected_operations))) == pytest.approx(12, rel=1e-5)


@pytest.mark.parametrize("reduction", [False, True])
def test_cell_equals_numpy(reduction, rng):
    """A quarter of the channels is operated on; what passes by has the edges' shares too."""
    weights = weights_of(rng, reduction)
    cell = layers.HeterogeneousCell(8, weights, reduction)
    assert cell.partial_channels == 4
    x = [rng.standard_normal((2, 4, 4, n)).astype("float32") for n in (6, 5)]
    cell.build([value.shape for value in x])
    randomized(cell.edges, rng)
    shares = np.asarray(weights.probabilities, "float64")
    expected = cell_references.cell(cell, x, shares, of_edges=edge_probabilities(weights))
    assert_close(keras.ops.convert_to_numpy(cell(x)), expected.astype("float32"), 2e-5)


def test_a_step_of_gaea_is_that_of_numpy(rng):
    """θ ← θ exp(-η g), clamped and normalised, by numerical derivatives of the whole cell."""
    names, size, rate = ("dilated_3", "identity"), 4, 2.0
    weights = ArchitectureLogits(operations=names, **GAEA)
    cell = layers.HeterogeneousCell(8, weights)
    inputs = keras.Input((size, size, 3))
    model = keras.Model(inputs, cell([inputs, inputs]))
    for part in (cell.edges, *cell.preprocessing):
        randomized(part, rng).trainable = False
    weights.logits.assign(rng.standard_normal((14, 2)))
    weights.logits[3].assign([6.0, -6.0])  # one probability is below the smallest one
    weights.edge_logits.assign(rng.standard_normal(14))
    x = rng.standard_normal((2, size, size, 3)).astype("float32")
    y = rng.standard_normal((2, size, size, 32)).astype("float32")
    theta = softmax(np.asarray(weights.logits, "float64"), -1)
    edges = edge_probabilities(weights)

    def loss(theta, edges):
        probabilities = np.concatenate([theta, np.zeros((4, 2))]) * edges[:, None]
        return np.mean((cell_references.cell(cell, [x, x], probabilities, of_edges=edges) - y) ** 2)

    def slope(*place):
        values = []
        for sign in (1, -1):
            moved = theta.copy(), edges.copy()
            moved[len(place) == 1][place] += sign * 1e-4
            values.append(loss(*moved))
        return (values[0] - values[1]) / 2e-4

    model.compile(keras.optimizers.SGD(rate), "mse", run_eagerly=True)
    assert model.train_on_batch(x, y) == pytest.approx(loss(theta, edges), rel=1e-5)
    found = np.asarray(weights.operation_probabilities)[:14]
    for row in (0, 3, 6, 13):
        wanted = theta[row] * np.exp(-rate * np.array([slope(row, 0), slope(row, 1)]))
        wanted = np.maximum(wanted / wanted.sum(), 1e-5)
        np.testing.assert_allclose(found[row], wanted / wanted.sum(), rtol=1e-3)
    assert found[3].min() == pytest.approx(1e-5, rel=1e-3)
    wanted = edges[:5] * np.exp(-rate * np.array([slope(edge) for edge in range(5)]))
    wanted = np.concatenate([part / part.sum() for part in (wanted[:2], wanted[2:])])
    np.testing.assert_allclose(np.asarray(weights.edge_probabilities)[:5], wanted, rtol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"update": "adam"}, "`update` must be one of"),
        ({"tiers": 3}, "`tiers` must be one of"),
        ({"tiers": 1, "relaxation": "gumbel"}, "tiers=1 need.*relaxation='gumbel'"),
        ({**GAEA, "relaxation": "perturbation"}, "need.*relaxation='perturbation'"),
        ({"tiers": 1, "operations": ("dilated_3", "dilated_5")}, "'identity'. Received"),
    ],
)
def test_bad_arguments_of_updates_and_tiers(arguments, message):
    with pytest.raises(ValueError, match=message):
        ArchitectureLogits(**{"operations": NAMES, **arguments})


def test_one_tier_is_told_where_it_matters(rng):
    cell = genotypes.random_cell(rng, ("dilated_3", "dilated_5"))
    with pytest.raises(ValueError, match="must be identities.*dilated"):
        layers.DerivedCell(cell, 4, tiers=1)
    model = models.nos_search_network(3, 4, (8, 8, 3), 2, ("identity", "dilated_3"), **GAEA)
    with pytest.raises(ValueError, match="two tiers.*tiers=1"):
        removable_architectures(model)
