"""Proposals that are skipped because their untrained networks look bad."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

_FIRST, _MOST_IN_A_ROW = 10, 10


class ZeroCostFilter:
    """Skips networks whose score is low among those of all networks that were scored.

    The first ten are not skipped, and not more than ten in a row.

    Args:
        score: function of an untrained model to a number, larger is better, such as
            `keras_xd.training.synflow`.
        share: of the networks that are skipped, in [0, 1).

    Raises:
        ValueError: the score is no function, or the share is out of its range.

    Example:

    >>> import keras
    >>> from tuner_integration.zero_cost_filter import ZeroCostFilter
    >>> filter = ZeroCostFilter(lambda model: model.count_params(), share=0.5)
    >>> dense = keras.layers.Dense
    >>> models = [keras.Sequential([keras.Input((n,)), dense(1)]) for n in range(1, 15)]
    >>> [filter.skips(model) for model in models].count(True), filter.skips(models[0])
    (0, True)
    """

    def __init__(self, score: Callable[[keras.Model], float], share: float = 0.5):
        if not callable(score):
            raise ValueError(f"`zero_cost` must be a function of a model. Received: {score!r}")
        number = isinstance(share, (int, float)) and not isinstance(share, bool)
        if not number or not 0 <= share < 1:
            raise ValueError(f"`zero_cost_share` must lie in [0, 1). Received: {share!r}")
        self.score = score
        self.share = share
        self.scores, self._in_a_row = [], 0

    def skips(self, model: keras.Model) -> bool:
        """Return whether to try another network instead; its score counts for later ones."""
        value = float(self.score(model))
        self.scores.append(-math.inf if math.isnan(value) else value)
        # Infinite scores have ranks, but no quantiles.
        below = np.mean([score < self.scores[-1] for score in self.scores])
        skipped = (
            len(self.scores) > _FIRST and below < self.share and self._in_a_row < _MOST_IN_A_ROW
        )
        self._in_a_row = self._in_a_row + 1 if skipped else 0
        return bool(skipped)

    def get_state(self) -> dict[str, Any]:
        """Return the state, plain enough for JSON."""
        return {"scores": [None if math.isinf(s) else s for s in self.scores]}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over a state."""
        self.scores = [-math.inf if s is None else s for s in state["scores"]]
