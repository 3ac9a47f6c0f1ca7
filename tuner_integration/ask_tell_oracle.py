"""Ask and tell: a search whose terms are proposed or scored by a person, a script or a model."""

import math
import numbers
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras_tuner

from keras_xd.core import validation
from keras_xd.grammar import Grammar, Topology
from tuner_integration.given_points import Given, given_point, given_values, project_rows
from tuner_integration.objectives import directions_of, kept_score, score_of_trial
from tuner_integration.points import Point, PointSpace, TriedPoints
from tuner_integration.resumable_oracle import ResumableOracle

_KEPT_NETWORKS = 20_000
_HOPELESS = 10


class AskTellOracle(ResumableOracle):
    """Takes terms and scores from outside, besides those of its own trials.

    Attributes:
        skip: function of values that says whether to try another point instead, or `None`. Unlike
            what is refused, what is skipped does not count as bad.
        skipped: list of the values that were skipped.
        refused: list of pairs of the values of refused proposals and why they were refused.
    """

    def __init__(
        self,
        grammars: Mapping[str, Grammar],
        initial_terms: Iterable[Given] = (),
        topologies: Mapping[str, Topology] | None = None,
        refuse: Callable[[dict[str, Any]], str | None] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.refuse = refuse
        self.skip = None
        self.refused, self.skipped = [], []
        self.grammars = dict(grammars)
        self.topologies = topologies
        self._imported = []  # pairs of values and a score
        self._networks = {}  # digests by terms
        self._parsed = {}
        self._queue = [self._initial(number, given) for number, given in enumerate(initial_terms)]

    def _check_reloaded(self):
        super()._check_reloaded()
        space = self._space()
        points = [self._point(space, trial) for trial in self.trials.values()]
        points += [point for point, _ in self._imported_points(space)]
        points += self._refused_points(space)
        points += [space.point(values) for values in (*self._queue, *self.skipped)]
        hash(tuple(points))
        self._observations(space, dict.fromkeys(self.trials))

    def _initial(self, number, given):
        # Hyperparameters are not known before a model is built.
        try:
            values = given_values(given, self.grammars)
            for name, grammar in self.grammars.items():
                grammar.check(grammar.parse(values[name]))
        except ValueError as error:
            raise ValueError(f"initial_terms[{number}]: {error}") from error
        return values

    def open_project(self, directory: str | os.PathLike, project_name: str) -> None:
        """Keep the search in a folder, and go on with what is there; a tuner does so by itself."""
        self._set_project_dir(os.fspath(directory), project_name)
        if os.path.exists(self._get_oracle_fname()):
            self.reload()
        else:
            self.save()

    def ask(self, n: int = 1) -> list[Any]:
        """Return new points to be scored by `tell`, as text."""
        validation.positive_integer(n, "n")
        asked = []
        while len(asked) < n:
            trial = self._silently(self.create_trial, self._free_name())
            if trial.status != "RUNNING":
                break
            values = dict(trial.hyperparameters.values)
            asked.append(values if len(values) > 1 else next(iter(values.values())))
        return asked

    def tell(self, term: Given, score: float | Mapping[str, float] | None) -> None:
        """Take over the score of a point, whether it was asked for or not."""
        metrics = self._checked_metrics(score)
        space = self._space()
        point = given_point(space, term)
        (key,) = self._tried([point]).keys
        trial = None
        for ongoing in self.ongoing_trials.values():
            if key in self._tried([self._point(space, ongoing)]).keys:
                trial = ongoing
        if trial is None:
            self._check_new(space, point)
            if self.remaining_trials() == 0:
                raise ValueError(
                    "A point that was not asked for is one more trial: raise `oracle.max_trials`. "
                    f"Received: max_trials={self.max_trials}"
                )
            trial = self._begun(space.values(point))
        trial.status = "COMPLETED"
        if math.isnan(metrics[self.objective.name]):
            trial.status = "FAILED"
        else:
            self.update_trial(trial.trial_id, metrics)
        self._silently(self.end_trial, trial)

    def propose(self, term: Given) -> None:
        """Let a point be the next trial, before those that the oracle finds itself."""
        space = self._space()
        point = given_point(space, term)
        self._check_new(space, point)
        reason = None if self.refuse is None else self.refuse(space.values(point))
        if reason is not None:
            raise ValueError(
                f"A point must not be refused. Received: {repr(space.values(point))[:200]}, which "
                f"is refused because of this: {reason}"
            )
        self._push(space.values(point))

    def import_trials(self, source: str | os.PathLike | Iterable[tuple[Given, Any]]) -> int:
        """Take over what is known of points: they are not tried again, and guide the search."""
        if isinstance(source, (str, os.PathLike)):
            rows = project_rows(source, self.objective)
            names = {*self.grammars, *(hp.name for hp in self._space().ordinary)}
            rows = [({n: v for n, v in given.items() if n in names}, s) for given, s in rows]
        else:
            rows = list(source)
        space, new = self._space(), []
        tried = self._known_points(space)
        for number, row in enumerate(rows):
            try:
                given, score = row
                point = given_point(space, given, constrained=False)
                score = kept_score(self._checked_metrics(score), self.objective)
            except (TypeError, ValueError) as error:
                raise ValueError(f"Trial {number} cannot be imported. {error}") from error
            if point not in tried:
                tried.add(point)
                new.append((space.values(point), score))
        self._take_over(new)
        return len(new)

    # What changes the state runs under KerasTuner's lock, which an error would leave closed: so
    # everything is checked before.

    @keras_tuner.synchronized
    def _push(self, values):
        self._queue.append(values)
        self.save()

    @keras_tuner.synchronized
    def _take_over(self, rows):
        self._imported += rows
        self.save()

    @keras_tuner.synchronized
    def _begun(self, values):
        """A new trial of these values; those that wait to be retried stay where they are."""
        waiting, self._retry_queue = self._retry_queue, []
        self._queue.insert(0, values)
        trial = self._silently(self.create_trial, self._free_name())
        self._retry_queue = waiting
        return trial

    def _queued(self, space, tried):
        """The next point that was proposed from outside and is new, `None` if there is none."""
        while self._queue:
            point = space.point(self._queue.pop(0))
            if point not in tried:
                return point
        return None

    def _refuses(self, values):
        """Whether values are not tried; they are kept, what is refused with the reason."""
        reason = None if self.refuse is None else self.refuse(dict(values))
        if reason is not None:
            self.refused.append((values, str(reason)))
        elif self.skip is not None and self.skip(dict(values)):
            self.skipped.append(values)
            return True
        return reason is not None

    def _checked_metrics(self, score):
        names = list(directions_of(self.objective))
        metrics = dict(score) if isinstance(score, Mapping) else dict.fromkeys(names, score)
        metrics = {name: math.nan if v is None else v for name, v in metrics.items()}
        several = len(names) > 1 and not isinstance(score, Mapping) and score is not None
        if (
            several
            or not set(names) <= set(metrics)
            or not all(
                isinstance(v, numbers.Real) and not isinstance(v, bool) for v in metrics.values()
            )
        ):
            one = "" if len(names) > 1 else "a number, "
            raise ValueError(
                f"A score must be {one}None, or a dictionary of numbers with "
                f"{', '.join(map(repr, names))}. Received: score={score!r}"
            )
        metrics = {name: float(value) for name, value in metrics.items()}
        return {self.objective.name: float(self.objective.get_value(metrics)), **metrics}

    def _check_new(self, space, point):
        if point in self._known_points(space):
            raise ValueError(
                "A network is tried once. Received: one that was tried, imported or proposed "
                f"before, {repr(space.values(point))[:200]}"
            )

    def _known_points(self, space):
        points = [self._point(space, trial) for trial in self.trials.values()]
        points += [point for point, _ in self._imported_points(space)]
        return self._tried([*points, *(space.point(values) for values in self._queue)])

    def _observations(self, space, points):
        """Points and scores of imported and of ended trials, `None` of those that failed."""
        imported = self._imported_points(space)
        ended = [self.trials[name] for name in self.end_order if name in points]
        scores = [score_of_trial(trial, self.objective) for trial in ended]
        observed = [*(point for point, _ in imported), *(points[t.trial_id] for t in ended)]
        return observed, [*(score for _, score in imported), *scores]

    def _nothing_works(self):
        statuses = [self.trials[name].status for name in self.end_order]
        return len(statuses) >= _HOPELESS and "COMPLETED" not in statuses

    def _point(self, space, trial):
        return self._parsed_point(space, trial.trial_id, dict(trial.hyperparameters.values))

    def _parsed_point(self, space, name, values):
        """The point of these values, whose terms are parsed once."""
        key = values, len(space.ordinary)
        if self._parsed.get(name, (None,))[0] != key:
            point = space.point(values)
            self._parsed[name] = key, point
            # Under the same object as the point's, large terms are found without a comparison.
            for term in [v for n, v in point if n in self.grammars and v in self._networks]:
                self._networks[term] = self._networks.pop(term)
        return self._parsed[name][1]

    def _refused_points(self, space):
        return [
            self._parsed_point(space, f"refused {number}", values)
            for number, (values, _) in enumerate(self.refused)
        ]

    def _imported_points(self, space: PointSpace) -> Sequence[tuple[Point, float | None]]:
        return [
            (self._parsed_point(space, f"imported {number}", values), score)
            for number, (values, score) in enumerate(self._imported)
        ]

    def _tried(self, points):
        if len(self._networks) > _KEPT_NETWORKS:
            self._networks.clear()
        return TriedPoints(points, self.topologies, self._networks)

    def _space(self):
        return PointSpace(self.grammars, self.hyperparameters)

    def _free_name(self):
        number = len(self.trials)
        while f"ask{number}" in self.ongoing_trials:
            number += 1
        return f"ask{number}"

    def _silently(self, function, argument):
        verbose, self.verbose = self.verbose, 0
        try:
            return function(argument)
        finally:
            self.verbose = verbose
