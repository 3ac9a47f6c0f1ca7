"""Scores as a surrogate sees them: by their order alone."""

from collections.abc import Sequence

import numpy as np
import scipy.special
import scipy.stats

from keras_xd.core.argument_types import check_types


@check_types
def normal_scores(scores: Sequence[float | None], direction: str = "min") -> np.ndarray:
    """Return the normal quantiles of the ranks of scores, the best score the lowest."""
    values = np.array([np.nan if score is None else score for score in scores], float)
    values = np.where(np.isnan(values), np.inf, values if direction == "min" else -values)
    ranks = scipy.stats.rankdata(values)
    return scipy.special.ndtri((ranks - 0.5) / max(1, len(values)))
