"""Normal scores by their definition, and with every kind of wild score."""

import numpy as np
import pytest
import scipy.stats

from tuner_integration.objectives import normal_scores


def test_they_are_the_normal_quantiles_of_the_ranks():
    values = np.random.default_rng(0).exponential(size=9)
    expected = np.empty(9)
    expected[np.argsort(values)] = scipy.stats.norm.ppf((np.arange(9) + 0.5) / 9)
    np.testing.assert_allclose(normal_scores(values), expected)
    np.testing.assert_allclose(normal_scores(-values, "max"), expected)
    np.testing.assert_allclose(normal_scores(np.exp(values)), expected)


@pytest.mark.parametrize(
    ("scores", "direction", "order"),
    [
        ([0.3, 1e6, 0.1], "min", [1, 2, 0]),
        ([0.3, np.inf, 1e300], "min", [0, 2, 1]),
        ([-100.0, 0.9, 0.2], "max", [2, 0, 1]),  # an R² of -100
        ([1.0, 0.9, 1.0], "max", [0, 1, 0]),  # an accuracy of exactly 1
        ([0.0, 0.2, -0.1], "min", [1, 2, 0]),  # a loss of 0
        ([None, 0.2, np.nan], "min", [1, 0, 1]),
        ([None, 0.2, -np.inf], "max", [1, 0, 1]),
    ],
)
def test_wild_scores_keep_their_order(scores, direction, order):
    found = normal_scores(scores, direction)
    assert np.isfinite(found).all() and np.abs(found).max() < 3
    assert scipy.stats.rankdata(found, method="dense").tolist() == [rank + 1 for rank in order]


@pytest.mark.parametrize("scores", [[], [0.5], [None], [0.5] * 4, [None] * 3])
def test_equal_scores_are_average(scores):
    np.testing.assert_allclose(normal_scores(scores), np.zeros(len(scores)), atol=1e-12)
