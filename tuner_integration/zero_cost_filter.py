"""Proposals that are skipped because their untrained networks look bad."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

_FIRST, _MOST_IN_A_ROW = 10, 10


class ZeroCostFilter:
    """Skips networks whose score is low among those of all networks that were scored."""

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
