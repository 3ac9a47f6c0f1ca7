"""The conformal margin: its promise on new samples, functions, bad input."""

import numpy as np
import pytest

from keras_xd import evaluation


@pytest.mark.parametrize("points", [1.0, 0.8])
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_new_samples_are_covered_as_promised(points, coverage):
    rng = np.random.default_rng(0)
    held_out, hits, trials = 39, 0, 400
    for _ in range(trials):
        y = rng.standard_t(3, size=(held_out + 1, 10))
        band = np.full_like(y, 0.3)
        margin = evaluation.conformal_margin(-band[1:], band[1:], y[1:], coverage, points)
        hits += np.mean(np.abs(y[0]) <= 0.3 + margin) >= points
    deviation = np.sqrt(coverage * (1 - coverage) / trials)
    most = coverage + 1 / (held_out + 1)
    assert coverage - 4 * deviation < hits / trials < most + 4 * deviation


def test_a_band_that_is_too_wide_is_narrowed():
    y = np.zeros((9, 2))
    assert evaluation.conformal_margin(y - 2, y + 2, y, 0.9) == -2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((9, 1)), np.zeros((9, 1)), np.zeros((9, 2))), "same shape"),
        ((np.zeros(8),) * 3, "at least 9 samples"),
        ((np.zeros(9), np.zeros(9), np.full(9, np.nan)), "`y_true` must be finite"),
        ((np.zeros(9),) * 3 + (1.0,), "coverage=1.0"),
        ((np.zeros(9),) * 3 + (0.5, 0.0), "points=0.0"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        evaluation.conformal_margin(*arguments)
