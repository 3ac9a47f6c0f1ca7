"""Relaxed cells on part of the channels, with shares of edges."""

import keras
import numpy as np
import pytest

from keras_xd import genotypes, layers
from keras_xd.testing import assert_close
from keras_xd_tests.layers.cells import cell_references
from keras_xd_tests.layers.cells.cell_references import randomized, softmax

NAMES = ("dilated_3", "identity", "spatial_attention", "dynamic_3")


def weights_of(rng, reduction=False, relaxation="partial"):
    weights = layers.ArchitectureLogits(reduction, NAMES, seed=1, relaxation=relaxation)
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


def test_other_relaxations_have_all_channels(rng):
    weights = weights_of(rng, relaxation="softmax")
    assert layers.HeterogeneousCell(8, weights).partial_channels == 1
    np.testing.assert_array_equal(np.asarray(weights.edge_probabilities), np.ones(18))
