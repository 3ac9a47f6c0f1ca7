"""Points of a search: terms and ordinary hyperparameters together."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras_tuner
import numpy as np

from keras_xd.grammar import Grammar, Topology
from keras_xd.grammar.graphs import network_digest
from keras_xd.grammar.terms import Term
from tuner_integration.fidelity import PREFIX

# The pairs `(name, value)` of one point.
Point = tuple[tuple[str, Any], ...]

_STEP = 0.1


class PointSpace:
    """Draws, varies and compares points, which are tuples of pairs `(name, value)`."""

    def __init__(
        self, grammars: Mapping[str, Grammar], hyperparameters: keras_tuner.HyperParameters
    ):
        self.grammars = grammars
        # KerasTuner's own values say how a trial is run, not what is tried.
        self.ordinary = [
            hp
            for hp in hyperparameters.space
            if hp.name not in grammars and not hp.name.startswith(PREFIX)
        ]

    def values(self, point: Point) -> dict[str, Any]:
        """Return what KerasTuner stores: terms as text, plain Python numbers."""
        return {name: str(v) if name in self.grammars else v for name, v in point}

    def point(self, values: Mapping[str, Any]) -> Point:
        """Return the point of a trial's values; what is missing has its default."""
        terms = {name: grammar.parse(values[name]) for name, grammar in self.grammars.items()}
        return self._complete(terms, lambda hp: values.get(hp.name, hp.default))

    def sample(self, rng: np.random.Generator, uniform: bool = False) -> Point:
        """Return a random point, its terms drawn uniformly or by the productions' weights."""
        terms = {name: g.sample(rng, uniform=uniform) for name, g in self.grammars.items()}
        return self._complete(terms, lambda hp: hp.prob_to_value(rng.random()))

    def allows(self, point: Point) -> bool:
        """Return whether the terms of a point satisfy the constraints, so that they can vary."""
        for name, term in point:
            if name in self.grammars:
                try:
                    self.grammars[name].check(term)
                except ValueError:
                    return False
        return True

    def mutate(self, point: Point, rng: np.random.Generator) -> Point:
        """Return the point with one of its parts changed, and others with probability 1 / parts."""
        old = dict(point)
        names = [name for name in old if name in self.grammars or name in self._tuned()]
        chosen = {name for name in names if rng.random() < 1 / len(names)}
        if names and not chosen:
            chosen = {names[int(rng.integers(len(names)))]}

        def term(name):
            value = old[name]
            return self.grammars[name].mutate(value, rng) if name in chosen else value

        def value(hp):
            if hp.name not in old:
                return hp.prob_to_value(rng.random())
            return self._stepped(hp, old[hp.name], rng) if hp.name in chosen else old[hp.name]

        return self._complete({name: term(name) for name in self.grammars}, value)

    def crossover(self, a: Point, b: Point, rng: np.random.Generator) -> Point:
        """Return `a` with a part of each term from `b`, and some of its hyperparameters."""
        old, other = dict(a), dict(b)
        terms = {n: g.crossover(old[n], other[n], rng) for n, g in self.grammars.items()}

        def value(hp):
            given = [d[hp.name] for d in (old, other) if hp.name in d]
            if not given:
                return hp.prob_to_value(rng.random())
            return given[int(rng.integers(len(given)))]

        return self._complete(terms, value)

    def vary(self, a: Point, b: Point, rng: np.random.Generator) -> Point:
        """Return a child: half of them by crossover, half of those of `a` with itself."""
        if rng.random() < 0.5:
            return self.crossover(a, b if rng.random() < 0.5 else a, rng)
        return self.mutate(a, rng)

    def squared_distances(
        self, left: Sequence[Point], right: Sequence[Point]
    ) -> dict[str, np.ndarray]:
        """Return squared distances `(left, right)` of each ordinary hyperparameter, 0 to 1."""
        found = {}
        for name, hps in self._tuned().items():
            a, b = ([dict(point).get(name) for point in points] for points in (left, right))
            absent_a, absent_b = (np.array([v is None for v in values]) for values in (a, b))
            if len(hps) == 1 and _is_ordered(hps[0]):
                x, y = (
                    np.array([0.0 if v is None else hps[0].value_to_prob(v) for v in values])
                    for values in (a, b)
                )
                squares = (x[:, None] - y) ** 2
            else:
                codes = {}
                x, y = (
                    np.array([codes.setdefault(v, len(codes)) for v in values]) for values in (a, b)
                )
                squares = (x[:, None] != y).astype(float)
            one = absent_a[:, None] != absent_b
            both = absent_a[:, None] & absent_b
            found[name] = np.where(one, 1.0, np.where(both, 0.0, squares))
        return found

    def numbers(self) -> dict[str, Callable[[Any], float]]:
        """Return, by the names of ordered hyperparameters, the functions from values to [0, 1]."""
        return {
            name: hps[0].value_to_prob
            for name, hps in self._tuned().items()
            if len(hps) == 1 and _is_ordered(hps[0])
        }

    def _tuned(self):
        """Hyperparameters with more than one value, by their names."""
        found = {}
        for hp in self.ordinary:
            if hp.prob_to_value(0.0) != hp.prob_to_value(1.0 - 1e-9):
                found.setdefault(hp.name, []).append(hp)
        return found

    def _stepped(self, hp, value, rng):
        """Another value of a hyperparameter, near the old one half of the time."""
        if not _is_ordered(hp) or rng.random() < 0.5:
            return hp.prob_to_value(rng.random())
        moved = hp.value_to_prob(value) + _STEP * rng.normal()
        return hp.prob_to_value(float(np.clip(moved, 0.0, 1.0 - 1e-9)))

    def _complete(self, terms, value):
        """Point of these terms and of `value(hyperparameter)` for each that is active."""
        conditional = any(hp.conditions for hp in self.ordinary)
        values = {name: str(term) for name, term in terms.items()} if conditional else {}
        pairs = dict(terms)
        for hp in self.ordinary:
            if all(condition.is_active(values) for condition in hp.conditions):
                chosen = value(hp)
                values[hp.name] = chosen.item() if isinstance(chosen, np.generic) else chosen
                pairs[hp.name] = values[hp.name]
        return tuple(pairs.items())


class TriedPoints:
    """A container of points, in which points whose terms build the same networks are one."""

    def __init__(
        self,
        points: Iterable[Point],
        topologies: Mapping[str, Topology] | None = None,
        known: dict[Term, str] | None = None,
    ):
        self.topologies = topologies
        self._known = {} if known is None else known
        self.keys = {self._key(point) for point in points}
        self._resting = set()

    def __contains__(self, point: Point) -> bool:
        return self._key(point) in self.keys or self._networks(point) in self._resting

    def rest(self, points: Iterable[Point]) -> None:
        """Contain all points with the networks of these ones, instead of those of earlier ones."""
        self._resting = {self._networks(point) for point in points}

    def add(self, point: Point) -> None:
        """Add a point."""
        self.keys.add(self._key(point))

    def _key(self, point):
        return tuple([(n, self.network(v) if isinstance(v, Term) else v) for n, v in point])

    def _networks(self, point):
        return tuple([(name, self.network(v)) for name, v in point if isinstance(v, Term)])

    def network(self, term: Term) -> str:
        """Return what is the same for all terms that build the same network."""
        if term not in self._known:
            try:
                self._known[term] = network_digest(term, self.topologies)
            except ValueError:  # a term that is no graph
                self._known[term] = str(term)
        return self._known[term]


def _is_ordered(hp):
    """Whether nearby values are alike: numbers in a range, ordered choices."""
    return hasattr(hp, "min_value") or bool(getattr(hp, "ordered", False))
