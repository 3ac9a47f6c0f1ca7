"""A KerasTuner oracle that proposes terms of grammars."""

import json
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import keras_tuner
import numpy as np
from keras_tuner.engine.trial import Trial

from keras_xd.core import files, validation
from keras_xd.grammar import Grammar, Topology
from tuner_integration.acquisition import evolve
from tuner_integration.feature_files import PYTHON, FeatureFiles
from tuner_integration.foldings import useful_levels
from tuner_integration.kernels import HierarchicalKernel
from tuner_integration.points import PointSpace, TriedPoints
from tuner_integration.scores import normal_scores
from tuner_integration.summaries import short_values
from tuner_integration.surrogate import Surrogate
from tuner_integration.trial_states import (
    ENDED,
    TrialLimit,
    check_objective,
    described_objective,
    forget_results,
    repaired_state,
)

_STRATEGIES = ("bayesian", "evolution", "random")
_TRIES = 50
_HOPELESS = 10
_ID_WIDTH = 4
_KEPT_NETWORKS = 20_000


class GrammarOracle(keras_tuner.Oracle):
    """Searches architectures, which are terms of grammars, and ordinary hyperparameters.

    A term is a hyperparameter `hp.Fixed(name, …)` whose value this oracle sets: declare nothing,
    and read it by `grammar.parse(hp.get(name))`. Its default is `grammar.first()`.

    No point is proposed twice, and terms that build the same network (see
    `keras_xd.grammar.network_digest`) are one; when no new one is found, the search stops. Trials
    that fail or give NaN count as bad as the worst score so far. The same seed proposes the same
    points, also after a project was loaded again, if the trials end in the same order.

    Args:
        grammars: dictionary from names of hyperparameters to `keras_xd.grammar.Grammar`s.
        objective: as in `keras_tuner.Oracle`.
        max_trials: largest number of trials.
        strategy: "bayesian" maximises the expected improvement of a Gaussian process with the
            hierarchical Weisfeiler-Lehman kernel. "evolution" mutates the best of a sample of the
            last points (regularised evolution). "random" draws.
        initial_trials: number of random points before the first other one; `None` for 10, the
            population for evolution.
        levels: the foldings that the kernel compares, of which those that fold nothing are left
            out; `()` is the plain Weisfeiler-Lehman kernel.
        candidates: number of random points that the search for the largest expected improvement
            begins with; a generation has a third as many. `None` for as many as take about a
            second: 30 large terms, 190 small ones.
        population: number of last points among which evolution samples.
        sample: how many it samples.
        seed: integer ≥ 0; `None` for a random one.
        topologies: dictionary from operators to `Topology`, for operators of one's own.
        max_consecutive_failed_trials: after how many failures in a row the search ends with
            KerasTuner's error, which leaves a distributed search waiting. `None`: the search stops
            if its first 10 trials have failed, and never once a trial has completed.
        **kwargs: of `keras_tuner.Oracle`: `hyperparameters`, `tune_new_entries`,
            `allow_new_entries`, `max_retries_per_trial`.

    Example:

    ```python
    import keras_tuner as kt
    from keras_xd.grammar import spaces
    from tuner_integration import GrammarOracle

    cells = spaces.nas_bench_201_cell()
    oracle = GrammarOracle({"cell": cells}, kt.Objective("loss", "min"), max_trials=12, seed=1)


    class Tuner(kt.Tuner):
        def run_trial(self, trial, **options):
            cell = cells.parse(trial.hyperparameters.get("cell"))
            rate = trial.hyperparameters.Float("rate", 1e-4, 1e-1, sampling="log")
            return {"loss": abs(rate - 0.01) + cell.formula().count("avg_pool")}


    tuner = Tuner(oracle=oracle, directory="searches", project_name="cells")
    tuner.search(verbose=0)
    print(tuner.get_best_hyperparameters()[0].get("cell"))
    ```

    Reference:
        Schrodi et al., "Towards discovering neural architectures from scratch", 2022, section 4;
        Real et al., "Regularized evolution for image classifier architecture search", 2019.
    """

    def __init__(
        self,
        grammars: Mapping[str, Grammar],
        objective: str | keras_tuner.Objective | None = None,
        max_trials: int = 10,
        strategy: str = "bayesian",
        initial_trials: int | None = None,
        levels: Iterable[int] = (0, 1, 2, 3, 4),
        candidates: int | None = None,
        population: int = 30,
        sample: int = 10,
        seed: int | None = None,
        topologies: Mapping[str, Topology] | None = None,
        max_consecutive_failed_trials: int | None = None,
        **kwargs: Any,
    ):
        _check(grammars)
        validation.one_of(strategy, _STRATEGIES, "strategy")
        validation.positive_integer(population, "population")
        validation.positive_integer(sample, "sample")
        for name, value in (("initial_trials", initial_trials), ("candidates", candidates)):
            if value is not None:
                validation.positive_integer(value, name)
        if seed is not None and (not validation.is_integer(seed) or seed < 0):
            raise ValueError(f"`seed` must be an integer ≥ 0 or None. Received: seed={seed!r}")
        super().__init__(
            objective=objective,
            max_trials=max_trials,
            seed=seed,
            max_consecutive_failed_trials=(
                sys.maxsize
                if max_consecutive_failed_trials is None
                else max_consecutive_failed_trials
            ),
            **kwargs,
        )
        if seed is not None:
            self.seed = seed  # the base class takes 0 for None
        self.grammars = dict(grammars)
        self.strategy = strategy
        self.initial_trials = initial_trials or (population if strategy == "evolution" else 10)
        self.levels = tuple(levels)
        self.candidates = candidates
        self.population = population
        self.sample = sample
        self.topologies = topologies
        for name, grammar in self.grammars.items():
            self.hyperparameters.Fixed(name, str(grammar.first()))
            grammar.parse(self.hyperparameters.get(name))
        kernels = {
            name: HierarchicalKernel(useful_levels(grammar, self.levels), topologies=topologies)
            for name, grammar in self.grammars.items()
        }
        self._surrogate = Surrogate(kernels, None)
        self._parsed = {}
        self._networks, self._saved_networks = {}, {}
        self._gives_up = max_consecutive_failed_trials is None
        display = self._display
        display.format_value = short_values(display.format_value, display.col_width)

    @property
    def max_trials(self) -> int | None:
        """The largest number of trials, which may be raised at any time."""
        width = len(next(iter(self.trials))) if self.trials else _ID_WIDTH
        return None if self._max_trials is None else TrialLimit(self._max_trials, width)

    @max_trials.setter
    def max_trials(self, value: int | None) -> None:
        self._max_trials = value

    def populate_space(self, trial_id: str) -> dict[str, Any]:
        """Return the values of a new trial, see `keras_tuner.Oracle.populate_space`."""
        if self._gives_up and self._nothing_works():
            return {"status": "STOPPED"}
        space = PointSpace(self.grammars, self.hyperparameters)
        points = {name: self._point(space, trial) for name, trial in self.trials.items()}
        tried = self._tried(points.values())
        # The generator depends on nothing that would have to be saved.
        rng = np.random.default_rng([self.seed, len(self.trials)])
        point = None
        ended = [name for name in self.end_order if name in points]
        if len(ended) >= self.initial_trials and self.strategy != "random":
            propose = self._evolved if self.strategy == "evolution" else self._improving
            point = propose(space, points, ended, tried, rng)
        if point is None:
            point = _new_point(space, tried, rng)
        if point is None:
            return {"status": "STOPPED"}
        return {"status": "RUNNING", "values": space.values(point)}

    def _tried(self, points):
        if len(self._networks) > _KEPT_NETWORKS:
            self._networks.clear()
        return TriedPoints(points, self.topologies, self._networks)

    def _nothing_works(self):
        statuses = [self.trials[name].status for name in self.end_order]
        return len(statuses) >= _HOPELESS and "COMPLETED" not in statuses

    def _point(self, space, trial):
        """The point of a trial, whose terms are parsed once."""
        values = dict(trial.hyperparameters.values)
        key = json.dumps(values, sort_keys=True), len(space.ordinary)
        if self._parsed.get(trial.trial_id, (None,))[0] != key:
            point = space.point(values)
            self._parsed[trial.trial_id] = key, point
            digests = self._saved_networks.get(trial.trial_id, {})
            self._networks |= {term: digests[name] for name, term in point if name in digests}
        return self._parsed[trial.trial_id][1]

    def _errors(self, names):
        """Values to be minimised, see `normal_scores`."""
        trials = [self.trials[name] for name in names]
        scores = [trial.score if trial.status == "COMPLETED" else None for trial in trials]
        return normal_scores(scores, self.objective.direction)

    def _improving(self, space, points, ended, tried, rng):
        errors = self._errors(ended)
        pending = [point for name, point in points.items() if name not in set(ended)]
        self._surrogate.space = space
        self._surrogate.files = self._feature_files()
        observed = [points[name] for name in ended]
        self._surrogate.fit(observed, errors, pending)
        # Terms of a few hundred nodes take 10 ms each, variations a tenth of that.
        size = sum(term.size for name, term in observed[0] if name in self.grammars)
        count = self.candidates or int(np.clip(20_000 / size, 30, 190))
        start = [observed[index] for index in np.argsort(errors, kind="stable")[:10]]
        start += [space.sample(rng) for _ in range(count)]
        return evolve(
            self._surrogate.improvement,
            start,
            space.vary,
            rng,
            refused=tried,
            children=max(count // 3, 1),
            most_generations=20,
        )

    def _feature_files(self):
        return FeatureFiles(os.path.join(self._project_dir, "features"))

    @keras_tuner.synchronized
    def end_trial(self, trial: Trial) -> None:
        """End a trial, see `keras_tuner.Oracle.end_trial`, and keep what proposals need of it."""
        super().end_trial(trial)
        if self.strategy == "bayesian":
            for name, kernel in self._surrogate.kernels.items():
                term = self.grammars[name].parse(trial.hyperparameters.values[name])
                self._feature_files().features(kernel, term)

    def _evolved(self, space, points, ended, tried, rng):
        errors = dict(zip(ended, self._errors(ended), strict=True))
        last = ended[-self.population :]
        for _ in range(_TRIES):
            drawn = rng.choice(len(last), min(self.sample, len(last)), replace=False)
            parent = min((last[index] for index in sorted(drawn)), key=errors.get)
            child = space.mutate(points[parent], rng)
            if child not in tried:
                return child
        return None

    def score_trial(self, trial: Trial) -> None:
        """Score a trial, see `keras_tuner.Oracle.score_trial`; NaN is a failure, not a warning."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            super().score_trial(trial)

    def get_best_trials(self, num_trials: int = 1) -> list[Trial]:
        """Return the best trials, the best first, of those that have completed."""
        trials = super().get_best_trials(num_trials)
        return [trial for trial in trials if trial.status == "COMPLETED"]

    def update_space(self, hyperparameters: keras_tuner.HyperParameters) -> None:
        """Add hyperparameters, see `keras_tuner.Oracle.update_space`.

        Raises:
            ValueError: a new `hp.Fixed` holds a term, but has no grammar's name. Its value would
                never change.
        """
        for hp in hyperparameters.space:
            value = getattr(hp, "value", None)
            if hp.name not in self.grammars and isinstance(value, str) and value[:1] == "(":
                for grammar in self.grammars.values():
                    try:
                        grammar.parse(value)
                    except ValueError:
                        continue
                    raise ValueError(
                        "A term must have the name of its grammar. "
                        f"Received: hp.Fixed({hp.name!r}), grammars {list(self.grammars)}"
                    )
        super().update_space(hyperparameters)

    def get_state(self) -> dict[str, Any]:
        """Return the state, plain enough for JSON."""
        return {
            **super().get_state(),
            "grammars": {name: str(grammar) for name, grammar in self.grammars.items()},
            "objective": described_objective(self.objective),
            # Known digests of networks, so that a search that goes on proposes at once.
            "networks": {"python": PYTHON, "digests": self._known_digests()},
        }

    def _known_digests(self):
        """Digests of the networks of trials, by their ids and the names of terms."""
        known = {
            trial_id: {n: self._networks[v] for n, v in point if n in self.grammars}
            for trial_id, (_, point) in self._parsed.items()
            if all(v in self._networks for n, v in point if n in self.grammars)
        }
        return {**self._saved_networks, **known}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over a state; the trials have been loaded before.

        What the end of the process has left between two files is put right: a trial that has
        reported its objective has ended, one that the oracle did not know yet is run.

        Raises:
            ValueError: the state is of a search with other grammars or another objective.
        """
        texts = {name: str(grammar) for name, grammar in self.grammars.items()}
        if state["grammars"] != texts:
            raise ValueError(
                "A search goes on with the grammars that it began with; give the new one another "
                f"`project_name`. Received: {texts}"[:400]
            )
        networks = state.get("networks", {})
        if networks.get("python") == PYTHON:
            self._saved_networks = networks["digests"]
        check_objective(self.objective, state.get("objective"), self.trials.values())
        # Files are found in any order, and ids may have different widths.
        self.trials = dict(sorted(self.trials.items(), key=lambda pair: int(pair[0])))
        state = {**state, "run_times": dict(state["run_times"])}
        for trial in self.trials.values():
            if trial.status not in ENDED and trial.metrics.exists(self.objective.name):
                self._end_reported(trial, state)
        state = repaired_state(state, self.trials)
        ended = [name for name, trial in self.trials.items() if trial.status in ENDED]
        known = {*ended, *state["retry_queue"], *state["ongoing_trials"].values()}
        super().set_state(state)
        for name in ended:
            if name not in self.end_order:
                self.end_order.append(name)
                self.update_space(self.trials[name].hyperparameters)
        self.start_order += [name for name in self.trials if name not in self.start_order]
        self._retry_queue += [name for name in self.trials if name not in known]

    def _end_reported(self, trial, state):
        """End a trial whose process was killed after its report, or let it run again."""
        name, times = trial.trial_id, state["run_times"]
        self.score_trial(trial)
        if not np.isnan(trial.score):
            trial.status = "COMPLETED"
        elif name in state["retry_queue"]:
            forget_results(trial)
        elif times.get(name, 0) < self.max_retries_per_trial:
            times[name] = times.get(name, 0) + 1
            forget_results(trial)
        else:
            trial.status = "FAILED"
        self._save_trial(trial)

    def _set_project_dir(self, directory, project_name):
        super()._set_project_dir(directory, project_name)
        files.remove_all_leftovers(os.path.join(str(directory), project_name))

    def _retry(self, trial):
        again = super()._retry(trial)
        if again:
            forget_results(trial)
        return again

    def save(self) -> None:
        """Save the state so that its file is never there in part."""
        content = json.dumps(self.get_state(), allow_nan=False)
        files.write(self._get_oracle_fname(), content.encode(), overwrite=True)

    def _save_trial(self, trial):
        folder = self._get_trial_dir(trial.trial_id)
        content = json.dumps(trial.get_state())
        files.write(os.path.join(folder, "trial.json"), content.encode(), overwrite=True)


def _check(grammars):
    named = isinstance(grammars, dict) and all(isinstance(name, str) for name in grammars)
    if not named or not grammars or not all(isinstance(g, Grammar) for g in grammars.values()):
        raise ValueError(
            "`grammars` must be a dictionary from names to Grammars, with at least one. "
            f"Received: {repr(grammars)[:200]}"
        )


def _new_point(space, tried, rng):
    """Return a random point that was not tried, `None` if none is found."""
    for uniform in (False, True):
        for _ in range(_TRIES):
            point = space.sample(rng, uniform)
            if point not in tried:
                return point
    return None
