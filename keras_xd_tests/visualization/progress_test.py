"""Curves of the best so far against loops."""

import numpy as np
import pytest

from keras_xd.visualization import plot_optimization_history
from keras_xd.visualization.progress import optimization_history


@pytest.mark.parametrize("direction", ["min", "max"])
def test_the_best_is_that_of_all_trials_before(rng, direction):
    scores = rng.normal(size=(3, 8))
    scores[1, :2] = np.nan
    scores[2, 5] = np.nan
    best = {"min": min, "max": max}[direction]
    expected = [
        [best([s for s in row[: i + 1] if s == s], default=np.nan) for i in range(8)]
        for row in scores.tolist()
    ]
    np.testing.assert_array_equal(optimization_history(scores, direction), expected)


def test_the_picture_shows_mean_and_deviation(rng, tmp_path):
    runs = {"random": rng.random((4, 6)), "bayesian": rng.random(6)}
    figure = plot_optimization_history(runs, "max", label="accuracy")
    (axes,) = figure.axes
    lines = {line.get_label(): line for line in axes.lines}
    best = np.maximum.accumulate(runs["random"], axis=1)
    np.testing.assert_array_equal(lines["random"].get_xdata(), np.arange(1, 7))
    np.testing.assert_allclose(lines["random"].get_ydata(), best.mean(axis=0))
    np.testing.assert_allclose(
        lines["bayesian"].get_ydata(), np.maximum.accumulate(runs["bayesian"])
    )
    (band,) = axes.collections  # one repetition has no deviation
    edges = band.get_paths()[0].vertices
    upper = best.mean(axis=0) + best.std(axis=0, ddof=1)
    assert edges[:, 1].max() == pytest.approx(upper.max())
    assert axes.get_ylabel() == "accuracy"
    assert {line.get_drawstyle() for line in axes.lines} == {"steps-post"}
    # The names stand beside the curves.
    assert axes.get_legend() is None
    assert {text.get_text() for text in axes.texts} == {"random", "bayesian"}
    figure.savefig(tmp_path / "best.png")
    assert (tmp_path / "best.png").stat().st_size > 3000


def test_another_direction_is_refused():
    with pytest.raises(ValueError, match="Received: direction='up'"):
        optimization_history([1.0], "up")
