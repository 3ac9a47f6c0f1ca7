"""Scores as a surrogate sees them: by their order alone."""

from collections.abc import Sequence

import numpy as np
import scipy.special
import scipy.stats

from keras_xd.core.argument_types import check_types


@check_types
def normal_scores(scores: Sequence[float | None], direction: str = "min") -> np.ndarray:
    """Return the normal quantiles of the ranks of scores, the best score the lowest.

    So no score can be wild: one of 1e6 counts like any other that is the worst. What is missing or
    NaN is worse than all others, together with infinite losses; equal scores have equal ranks.

    Args:
        scores: list of numbers, `None` for trials that failed.
        direction: "min" if low scores are good, otherwise "max".

    Returns:
        Array of finite numbers.

    Example:

    >>> from tuner_integration.scores import normal_scores
    >>> normal_scores([0.3, 1e6, 0.1, None]).round(2).tolist()
    [-0.32, 0.32, -1.15, 1.15]

    Reference:
        Blom, "Statistical estimates and transformed beta-variables", 1958: normal quantiles of
        (rank - 0.5) / number.
    """
    values = np.array([np.nan if score is None else score for score in scores], float)
    values = np.where(np.isnan(values), np.inf, values if direction == "min" else -values)
    ranks = scipy.stats.rankdata(values)
    return scipy.special.ndtri((ranks - 0.5) / max(1, len(values)))
