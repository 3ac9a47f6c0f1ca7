"""Objectives of trials, and scalars of several for a surrogate."""

from collections.abc import Iterable, Mapping, Sequence

import keras_tuner
import numpy as np
import scipy.special
import scipy.stats
from keras_tuner.engine.trial import Trial

from keras_xd.core.argument_types import check_types
from keras_xd.core.pareto import lower_is_better, nondominated

# What a trial has reached: a score, or one value for each objective; `None` if it has failed.
Score = float | Mapping[str, float] | None

# The share of the sum beside the largest, so that what is dominated in part is worse.
_AUGMENTATION = 0.05


@check_types
def normal_scores(scores: Sequence[float | None], direction: str = "min") -> np.ndarray:
    """Return the normal quantiles of the ranks of scores, the best score the lowest."""
    values = np.array([np.nan if score is None else score for score in scores], float)
    values = np.where(np.isnan(values), np.inf, values if direction == "min" else -values)
    ranks = scipy.stats.rankdata(values)
    return scipy.special.ndtri((ranks - 0.5) / max(1, len(values)))


@check_types
def directions_of(objective: keras_tuner.Objective) -> dict[str, str]:
    """Return the directions of an objective, or of each one of several, by their names."""
    several = getattr(objective, "name_to_direction", None)
    return {objective.name: objective.direction} if several is None else dict(several)


def kept_score(metrics: Mapping[str, float], objective: keras_tuner.Objective) -> Score:
    """Return what is kept of metrics: the score, or a dictionary of several objectives."""
    names = list(directions_of(objective))
    values = {name: metrics[name] for name in names}
    if any(np.isnan(value) for value in values.values()):
        return None
    return values[objective.name] if objective.name in values else values


def score_of_trial(trial: Trial, objective: keras_tuner.Objective) -> Score:
    """Return what a trial has reached, `None` if it has not completed."""
    if trial.status != "COMPLETED":
        return None
    if objective.name in directions_of(objective):
        return trial.score
    histories = trial.metrics.metrics
    return kept_score({n: h.get_history()[-1].mean() for n, h in histories.items()}, objective)


def front_of_trials(trials: Iterable[Trial], objective: keras_tuner.Objective) -> list[Trial]:
    """Return the completed trials that no other one dominates, sorted by the first objective."""
    trials = [trial for trial in trials if trial.status == "COMPLETED"]
    directions = directions_of(objective)
    scores = [score_of_trial(trial, objective) for trial in trials]
    table = _table(scores, directions)
    return [trials[index] for index in nondominated(table, list(directions.values()))]


def errors_of_scores(
    scores: Sequence[Score], objective: keras_tuner.Objective, rng: np.random.Generator
) -> np.ndarray:
    """Return what a surrogate is fitted to: numbers of a normal distribution, lower is better."""
    directions = directions_of(objective)
    if objective.name in directions:
        return normal_scores(scores, objective.direction)
    table = lower_is_better(_table(scores, directions), list(directions.values()))
    ranks = (scipy.stats.rankdata(table, axis=0) - 0.5) / max(1, len(table))
    weights = rng.dirichlet(np.ones(len(directions)))
    weighted = ranks * weights
    return normal_scores(weighted.max(axis=1) + _AUGMENTATION * weighted.sum(axis=1))


def _table(scores, directions):
    """Array `(points, objectives)` with NaN for what has failed."""
    rows = [
        [np.nan if s is None else s[n] if isinstance(s, Mapping) else s for n in directions]
        for s in scores
    ]
    return np.array(rows, float).reshape(-1, len(directions))
