"""Cheap trials first: an oracle that continues only the best of the terms it has tried a little."""

from collections.abc import Iterable, Sequence
from typing import Any

import keras_tuner
from keras_tuner.engine.trial import Trial

from keras_xd.core import validation
from tuner_integration.fidelity import (
    FIDELITIES,
    check_rungs,
    fidelity_values,
    rung_of,
)
from tuner_integration.objectives import directions_of
from tuner_integration.oracle import GrammarOracle

_PARENT = "tuner/trial_id"


class HalvingOracle(GrammarOracle):
    """Proposes terms as `GrammarOracle` does, tries them a little and continues the best.

    New terms are tried at the first rung. As soon as a trial is among the best `1 / factor` of its
    rung, it is continued at the next one, before any new term is tried (asynchronous successive
    halving, which leaves no worker waiting). As with `keras_tuner.Hyperband`, each continuation is
    a trial of its own: its values hold `tuner/trial_id`, `tuner/round`, and for epochs
    `tuner/epochs` and `tuner/initial_epoch`. `GrammarTuner` starts it from the checkpoint of the
    trial that it continues. `max_trials` counts continuations too.

    For the surrogate and for evolution each term counts once, by its last rung; what was continued
    is better than what was not, and scores are compared within a rung. Imported trials are taken
    for ones of the last rung.

    Args:
        *args: of `GrammarOracle`; one objective.
        fidelity: what rises from rung to rung. "epochs": how long a network is trained in all.
            "data": the share of the training samples, the first ones; `search` needs
            `validation_data`. "channels": a number that the hypermodel reads by
            `hp.get("tuner/channels")`; such trials begin anew.
        rungs: ascending numbers, one for each rung; `None` for `(1, 3, 9)` epochs, `(1/9, 1/3, 1)`
            of the data. Channels have no default.
        factor: of how many trials of a rung one is continued.
        **kwargs: of `GrammarOracle`.

    Example:

    >>> import keras_tuner as kt
    >>> from keras_xd.grammar import spaces
    >>> from tuner_integration import HalvingOracle
    >>> grammars = {"cell": spaces.nas_bench_201_cell()}
    >>> oracle = HalvingOracle(
    ...     grammars, kt.Objective("loss", "min"), 13, seed=0, rungs=(1, 3, 9)
    ... )
    >>> while asked := oracle.ask():
    ...     oracle.tell(
    ...         asked[0], asked[0]["cell"].count("zero") + 1 / asked[0]["tuner/epochs"]
    ...     )
    >>> [trial.hyperparameters.get("tuner/epochs") for trial in oracle.trials.values()]
    [1, 1, 1, 3, 1, 1, 1, 3, 1, 3, 9, 1, 1]

    Reference:
        Li et al., "A system for massively parallel hyperparameter tuning", 2020, algorithm 2.
    """

    def __init__(
        self,
        *args: Any,
        fidelity: str = "epochs",
        rungs: Sequence[float] | None = None,
        factor: int = 3,
        **kwargs: Any,
    ):
        validation.one_of(fidelity, FIDELITIES, "fidelity")
        self.fidelity = fidelity
        self.rungs = check_rungs(fidelity, rungs)
        self.factor = validation.positive_integer(factor, "factor", least=2)
        super().__init__(*args, **kwargs)
        if len(directions_of(self.objective)) > 1:
            raise ValueError(
                "Trials are continued by one objective. "
                f"Received: {list(directions_of(self.objective))}"
            )
        for name, value in fidelity_values(fidelity, self.rungs, len(self.rungs) - 1).items():
            self.hyperparameters.Fixed(name, value)  # what a model is built with by default
        self._begins_new = False

    def populate_space(self, trial_id: str) -> dict[str, Any]:
        """Return the values of a new trial, see `keras_tuner.Oracle.populate_space`."""
        continued = None if self._begins_new else self._continued()
        if continued is not None:
            rung = rung_of(continued) + 1
            values = dict(continued.hyperparameters.values)
            values |= fidelity_values(self.fidelity, self.rungs, rung)
            return {
                "status": "RUNNING",
                "values": {**values, _PARENT: continued.trial_id},
            }
        response = super().populate_space(trial_id)
        if response["status"] == "RUNNING":
            response["values"] |= fidelity_values(self.fidelity, self.rungs, 0)
        elif self.ongoing_trials:
            return {"status": "IDLE"}  # what runs may be worth to be continued
        return response

    def _continued(self):
        """The trial that is to be continued next, `None` if there is none."""
        ended = [self.trials[name] for name in self.end_order if name in self.trials]
        parents = {t.hyperparameters.values.get(_PARENT) for t in self.trials.values()}
        for rung in reversed(range(len(self.rungs) - 1)):
            on_rung = [trial for trial in ended if rung_of(trial) == rung]
            best = self._sorted(on_rung)[: len(on_rung) // self.factor]
            for trial in best:
                if trial.trial_id not in parents:
                    return trial
        return None

    def _sorted(self, trials):
        completed = [trial for trial in trials if trial.status == "COMPLETED"]
        return sorted(completed, key=lambda t: t.score, reverse=self.objective.direction == "max")

    def _observations(self, space, points):
        """Each term once, by its last rung; the score is its place among all."""
        parents = {
            self.trials[name].hyperparameters.values.get(_PARENT)
            for name in self.end_order
            if name in points
        }
        rows = [
            (point, score, len(self.rungs) - 1) for point, score in self._imported_points(space)
        ]
        for name in self.end_order:
            if name in points and name not in parents:
                trial = self.trials[name]
                score = trial.score if trial.status == "COMPLETED" else None
                rows.append((points[name], score, rung_of(trial)))
        sign = 1.0 if self.objective.direction == "min" else -1.0
        keys = [None if s is None else (-rung, sign * s) for _, s, rung in rows]
        places = {key: place for place, key in enumerate(sorted({k for k in keys if k}))}
        scores = [None if key is None else sign * places[key] for key in keys]
        return [point for point, _, _ in rows], scores

    def needed_checkpoints(self, trials: Iterable[Trial]) -> set[str]:
        """Return the ids of trials that may be continued yet, see `GrammarOracle`."""
        trials = list(trials)
        parents = {trial.hyperparameters.values.get(_PARENT) for trial in trials}
        needed = super().needed_checkpoints(trials)
        for rung in range(len(self.rungs) - 1):
            # More than these cannot be among the best before the search ends.
            most = None if self.max_trials is None else int(self.max_trials) // self.factor
            best = self._sorted([t for t in trials if rung_of(t) == rung])[:most]
            needed |= {trial.trial_id for trial in best if trial.trial_id not in parents}
        return needed

    @keras_tuner.synchronized
    def _begun(self, values):
        self._begins_new = True
        try:
            return super()._begun(values)
        finally:
            self._begins_new = False

    def get_state(self) -> dict[str, Any]:
        """Return the state, plain enough for JSON."""
        return {**super().get_state(), "halving": self._settings()}

    def _settings(self):
        return {"fidelity": self.fidelity, "rungs": list(self.rungs), "factor": self.factor}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over a state, see `GrammarOracle.set_state`."""
        if state.get("halving") != self._settings():
            raise ValueError(
                "A search goes on with the rungs that it began with; give the new one another "
                f"`project_name`. Received: {self._settings()}, the project has "
                f"{state.get('halving')}"
            )
        super().set_state(state)
