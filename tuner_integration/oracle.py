"""A KerasTuner oracle that proposes terms of grammars."""

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras_tuner
import numpy as np
from keras_tuner.engine.trial import Trial
from threadpoolctl import threadpool_limits

from keras_xd.core import validation
from keras_xd.grammar import Grammar, Topology
from keras_xd.grammar.topologies import check_operators
from tuner_integration.acquisition import evolve
from tuner_integration.ask_tell_oracle import AskTellOracle
from tuner_integration.foldings import useful_levels
from tuner_integration.given_points import Given
from tuner_integration.kernels import HierarchicalKernel
from tuner_integration.objectives import directions_of, errors_of_scores, front_of_trials
from tuner_integration.summaries import short_values
from tuner_integration.surrogate import Surrogate

_STRATEGIES = ("bayesian", "evolution", "random")
_TRIES = 50
# As many trials later a network is tried again with other hyperparameters, not before.
_REST = 2


class GrammarOracle(AskTellOracle):
    """Searches architectures, which are terms of grammars, and ordinary hyperparameters.

    A term is a hyperparameter `hp.Fixed(name, …)` whose value this oracle sets: declare nothing,
    and read it by `grammars[name].parse(hp.get(name))`. Its default is `grammars[name].first()`.

    No point is proposed twice, and terms that build the same network are one (see
    `keras_xd.grammar.graphs.network_digest`); when no new one is found, the search stops. Trials
    that fail or give NaN count as bad as the worst score so far. The same seed proposes the same
    points, also after a project was loaded again, if the trials end in the same order.

    Points may also come from outside: `initial_terms`, `propose` and `import_trials`. `ask` and
    `tell` need no tuner, and with `open_project` are kept in files as those of one.

    Args:
        grammars: dictionary from names of hyperparameters to `keras_xd.grammar.Grammar`s.
        objective: as in `keras_tuner.Oracle`. For several the search looks for their Pareto front,
            see `pareto`; their sum, which is the score of a trial in KerasTuner, does not matter.
        max_trials: largest number of trials.
        strategy: "bayesian" maximises the expected improvement of a Gaussian process with the
            hierarchical Weisfeiler-Lehman kernel, or of a random forest if that predicts better; a
            network is not tried again within two trials. "evolution" mutates the best of a sample
            of the last points (regularised evolution). "random" draws.
        initial_trials: number of random points before the first other one; `None` for 10, the
            population for evolution.
        fold_levels: the foldings that the kernel compares, of which those that fold nothing are
            left out; `()` is the plain Weisfeiler-Lehman kernel.
        num_candidates: number of random points that the search for the largest expected improvement
            begins with; a generation has a third as many. `None` for as many as take about a
            second: 30 large terms, 190 small ones.
        population: number of last points among which evolution samples.
        tournament_size: how many it samples.
        seed: integer ≥ 0; `None` for a random one.
        topologies: dictionary from operators to `Topology`, for operators of your own.
        max_consecutive_failed_trials: after how many failures in a row the search ends with
            KerasTuner's error, which leaves a distributed search waiting. `None`: the search stops
            if its first 10 trials have failed, and never once a trial has completed.
        initial_terms: points that are tried first, such as networks known to be good: terms, their
            texts, or dictionaries if there are more terms or other hyperparameters.
        refuse: function of the values of a proposal, terms as text, that returns why it must not be
            tried, or `None`. It costs no trial and counts as bad as a failure. After 50 in a row
            the search stops. `GrammarTuner(limits=…)` refuses by the costs of networks.
        **kwargs: of `keras_tuner.Oracle`: `hyperparameters`, `tune_new_entries`,
            `allow_new_entries`, `max_retries_per_trial`.

    Example:

    ```python
    import keras_tuner as kt
    from keras_xd.grammar import spaces
    from tuner_integration import GrammarOracle

    cells = spaces.nas_bench_201_cell()
    oracle = GrammarOracle(
        {"cell": cells}, kt.Objective("loss", "min"), max_trials=11, seed=1
    )


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
        Knowles, "ParEGO", 2006, for several objectives.
    """

    def __init__(
        self,
        grammars: Mapping[str, Grammar],
        objective: str | keras_tuner.Objective | None = None,
        max_trials: int = 10,
        strategy: str = "bayesian",
        initial_trials: int | None = None,
        fold_levels: Iterable[int] = (0, 1, 2, 3, 4),
        num_candidates: int | None = None,
        population: int = 30,
        tournament_size: int = 10,
        seed: int | None = None,
        topologies: Mapping[str, Topology] | None = None,
        max_consecutive_failed_trials: int | None = None,
        initial_terms: Iterable[Given] = (),
        refuse: Callable[[dict[str, Any]], str | None] | None = None,
        **kwargs: Any,
    ):
        _check(grammars)
        for grammar in grammars.values():
            check_operators(grammar.rules, topologies)
        validation.one_of(strategy, _STRATEGIES, "strategy")
        validation.positive_integer(population, "population")
        validation.positive_integer(tournament_size, "tournament_size")
        for name, value in (
            ("initial_trials", initial_trials),
            ("num_candidates", num_candidates),
        ):
            if value is not None:
                validation.positive_integer(value, name)
        validation.seed(seed)
        super().__init__(
            grammars,
            initial_terms,
            topologies,
            refuse,
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
        self.strategy = strategy
        self.initial_trials = initial_trials or (population if strategy == "evolution" else 10)
        self.fold_levels = tuple(fold_levels)
        self.num_candidates = num_candidates
        self.population = population
        self.tournament_size = tournament_size
        for name, grammar in self.grammars.items():
            first = str(grammar.first())
            self.hyperparameters.Fixed(name, first)
            if self.hyperparameters.get(name) != first:  # but a term that was given
                grammar.parse(self.hyperparameters.get(name))
        kernels = {
            name: HierarchicalKernel(
                useful_levels(grammar, self.fold_levels), topologies=topologies
            )
            for name, grammar in self.grammars.items()
        }
        self._surrogate = Surrogate(kernels, None)
        self._gives_up = max_consecutive_failed_trials is None
        display = self._display
        display.format_value = short_values(display.format_value, display.col_width)

    def populate_space(self, trial_id: str) -> dict[str, Any]:
        """Return the values of a new trial, see `keras_tuner.Oracle.populate_space`."""
        space = self._space()
        points = {name: self._point(space, trial) for name, trial in self.trials.items()}
        pending = [point for name, point in points.items() if name not in self.end_order]
        # The generator depends on nothing that would have to be saved.
        rng = np.random.default_rng([self.seed, len(self.trials)])
        for _ in range(_TRIES):
            point = self._proposed(space, points, pending, rng)
            if point is None:
                return {"status": "STOPPED"}
            values = space.values(point)
            if not self._refuses(values):
                return {"status": "RUNNING", "values": values}
        warnings.warn(
            f"The search stops, as {_TRIES} proposals in a row were refused, the last one because "
            f"of this: {self.refused[-1][1] if self.refused else 'it was skipped'}",
            stacklevel=2,
        )
        return {"status": "STOPPED"}

    def _proposed(self, space, points, pending, rng):
        """The next point, `None` if there is none."""
        observed, scores = self._observations(space, points)
        refused = self._refused_points(space)
        tried = self._tried([*refused, *map(space.point, self.skipped), *observed, *pending])
        point = self._queued(space, tried)
        if point is None and self._gives_up and self._nothing_works():
            return None
        if point is None and len(observed) >= self.initial_trials and self.strategy != "random":
            # What was refused is as bad as what has failed.
            observed, scores = [*refused, *observed], [*[None] * len(refused), *scores]
            errors = errors_of_scores(scores, self.objective, rng)
            if self.strategy == "evolution":
                point = self._evolved(space, observed, errors, tried, rng)
            else:
                point = self._improving(space, observed, errors, pending, tried, rng)
        return _new_point(space, tried, rng) if point is None else point

    def pareto(self) -> list[Trial]:
        """Return the completed trials that no other one dominates, sorted by the first objective.

        A trial dominates another if it is as good in all objectives and better in one. With one
        objective it is the best trial.

        Example:

        >>> import keras_tuner as kt
        >>> from keras_xd.grammar import spaces
        >>> from tuner_integration import GrammarOracle
        >>> objectives = [kt.Objective("error", "min"), kt.Objective("parameters", "min")]
        >>> oracle = GrammarOracle(
        ...     {"cell": spaces.nas_bench_201_cell()}, objectives, 3, seed=0
        ... )
        >>> for error, parameters in ((0.2, 900), (0.1, 1200), (0.3, 950)):
        ...     oracle.tell(oracle.ask()[0], {"error": error, "parameters": parameters})
        >>> [trial.trial_id for trial in oracle.pareto()]
        ['0001', '0000']
        """
        return front_of_trials(self.trials.values(), self.objective)

    def needed_checkpoints(self, trials: Iterable[Trial]) -> set[str]:
        """Return the ids of trials whose weights are kept in addition to those of the best.

        Args:
            trials: all completed trials, which a worker has from the chief.
        """
        if len(directions_of(self.objective)) == 1:
            return set()
        return {trial.trial_id for trial in front_of_trials(trials, self.objective)}

    @threadpool_limits.wrap(1)  # matrices are small: a second thread waits and costs five times
    def _improving(self, space, observed, errors, pending, tried, rng):
        self._surrogate.space = space
        self._surrogate.network = tried.network
        self._surrogate.fit(observed, errors, pending)
        # Terms of a few hundred nodes take 10 ms each, variations a tenth of that.
        size = sum(term.size for name, term in observed[0] if name in self.grammars)
        count = self.num_candidates or int(np.clip(20_000 / size, 30, 190))
        best = [observed[index] for index in np.argsort(errors, kind="stable")[:10]]
        start = [point for point in best if space.allows(point)]
        start += [space.sample(rng) for _ in range(count)]
        last = [*observed, *pending][-_REST:] if space.numbers() else []
        for resting in (last, []) if last else ([],):
            tried.rest(resting)
            found = evolve(
                self._surrogate.improvement,
                start,
                space.vary,
                rng,
                refused=tried,
                children=max(count // 3, 1),
                most_generations=20,
            )
            if found is not None:
                return found
        return None

    def _evolved(self, space, observed, errors, tried, rng):
        last = [index for index, point in enumerate(observed) if space.allows(point)]
        last = last[-self.population :]
        for _ in range(_TRIES if last else 0):
            drawn = rng.choice(len(last), min(self.tournament_size, len(last)), replace=False)
            parent = min((last[index] for index in sorted(drawn)), key=lambda index: errors[index])
            child = space.mutate(observed[parent], rng)
            if child not in tried:
                return child
        return None

    def update_space(self, hyperparameters: keras_tuner.HyperParameters) -> None:
        """Add hyperparameters, see `keras_tuner.Oracle.update_space`."""
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
            "proposed": self._queue,
            "imported": [{"values": v, "score": score} for v, score in self._imported],
            "refused": [{"values": v, "reason": reason} for v, reason in self.refused],
            "skipped": self.skipped,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over a state, see `ResumableOracle.set_state`."""
        texts = {name: str(grammar) for name, grammar in self.grammars.items()}
        if state["grammars"] != texts:
            raise ValueError(
                "A search goes on with the grammars that it began with; give the new one another "
                f"`project_name`. Received: {texts}"[:400]
            )
        if "proposed" in state:
            self._queue = state["proposed"]
        self._imported = [(row["values"], row["score"]) for row in state.get("imported", ())]
        self.refused = [(row["values"], row["reason"]) for row in state.get("refused", ())]
        self.skipped = list(state.get("skipped", ()))
        super().set_state(state)


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
