"""Random-forest surrogate on operators, paths and hyperparameters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.ensemble import RandomForestRegressor

from keras_xd.grammar import expand
from keras_xd.grammar.terms import Term
from tuner_integration.points import Point

_TREES = 50
_SHARE_OF_FEATURES = 0.33
# Terms of hundreds of nodes have tens of thousands of paths; a fit to them would take seconds.
_MOST_FEATURES = 1000


def path_features(term: Term) -> dict[str, int]:
    """Return how often each operator, and each path from the root to one, occurs in a term."""
    found: dict[str, int] = {}
    stack = [(expand(term), "")]
    while stack:
        node, path = stack.pop()
        path = f"{path}/{node.operator}"
        for name in (node.operator, path):
            found[name] = found.get(name, 0) + 1
        stack += [(argument, f"{path}/{place}") for place, argument in enumerate(node.arguments)]
    return found


class Forest:
    """Random forest of 50 trees; the deviation is that among the trees."""

    def __init__(
        self,
        points: Sequence[Point],
        targets: ArrayLike,
        numbers: Mapping[str, Callable[[Any], float]] | None = None,
    ):
        self._numbers = numbers or {}
        self._known: dict[Term, dict[str, int]] = {}
        rows = [self._features(point) for point in points]
        self._columns = _useful_columns(rows)
        model = RandomForestRegressor(
            _TREES, max_features=_SHARE_OF_FEATURES, random_state=0, n_jobs=1
        )
        matrix, targets = self._matrix(rows), np.asarray(targets, float)
        model.fit(matrix, targets)
        self._trees = [tree.tree_ for tree in model.estimators_]
        seen = np.zeros((_TREES, len(points)), bool)
        for tree, indices in zip(seen, model.estimators_samples_, strict=True):
            tree[indices] = True
        found = np.where(seen, np.nan, self._of_trees(matrix))
        found[:, seen.all(0)] = targets.mean()
        self.out_of_bag = np.nanmean(found, axis=0)

    def predict(self, points: Sequence[Point]) -> tuple[np.ndarray, np.ndarray]:
        """Return arrays of means and standard deviations at a list of points."""
        found = self._of_trees(self._matrix([self._features(point) for point in points]))
        return found.mean(0), found.std(0)

    def _of_trees(self, matrix):
        return np.stack([tree.predict(matrix)[:, 0] for tree in self._trees])

    def _matrix(self, rows):
        matrix = np.zeros((len(rows), len(self._columns)), np.float32)
        for row, found in zip(matrix, rows, strict=True):
            for name, value in found.items():
                if name in self._columns:
                    row[self._columns[name]] = value
        return matrix

    def _features(self, point):
        found = {}
        for name, value in point:
            if isinstance(value, Term):
                if value not in self._known:
                    self._known[value] = path_features(value)
                found |= {f"{name}:{key}": count for key, count in self._known[value].items()}
            elif name in self._numbers:
                found[f"{name}="] = self._numbers[name](value)
            else:
                found[f"{name}={value!r}"] = 1
        return found


def _useful_columns(rows):
    """Numbers of columns by the names of features, of those that tell the rows apart best."""
    values: dict[str, dict[int, float]] = {}
    for number, row in enumerate(rows):
        for name, value in row.items():
            values.setdefault(name, {})[number] = value
    different = {tuple(found.items()): name for name, found in sorted(values.items(), reverse=True)}
    names = sorted(different.values())
    if len(names) > _MOST_FEATURES:
        # Variance of whether a feature occurs, `q (1 - q)`; numbers of all rows stay.
        counts = np.array([len(values[name]) for name in names])
        shares = counts / len(rows)
        kept = np.argsort(-shares * (1 - shares), kind="stable")[:_MOST_FEATURES].tolist()
        kept += np.flatnonzero(counts == len(rows)).tolist()
        names = [names[place] for place in sorted(set(kept))]
    return {name: column for column, name in enumerate(names)}
