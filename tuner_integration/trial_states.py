"""Saved states of trials: their ids, objective and results."""

from collections.abc import Iterable
from typing import Any

import keras_tuner
from keras_tuner.engine.trial import Trial

ENDED = ("COMPLETED", "FAILED")
# What KerasTuner raises for a file that is not as it was written.
DAMAGED = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)


class TrialLimit(int):
    """A number of trials whose text has the width of their ids, because KerasTuner pads
    ids to it.
    """

    def __new__(cls, value: int, width: int) -> "TrialLimit":
        self = super().__new__(cls, value)
        self.width = width
        return self

    def __str__(self) -> str:
        return f"{int(self):0{self.width}d}"

    def __format__(self, form: str) -> str:
        return format(int(self), form)


def described_objective(objective: keras_tuner.Objective) -> dict[str, Any]:
    """Return name and direction of an objective, or of each one of several, for JSON."""
    several = getattr(objective, "name_to_direction", None)
    if several is not None:
        return {"name": objective.name, "objectives": dict(sorted(several.items()))}
    return {"name": objective.name, "direction": objective.direction}


def check_objective(
    objective: keras_tuner.Objective, saved: dict[str, Any] | None, trials: Iterable[Trial]
) -> None:
    """Raise `ValueError` if trials were scored by another objective."""
    own = described_objective(objective)
    for trial in trials if saved is None and "direction" in own else ():
        if trial.score is not None:
            histories = trial.metrics.metrics
            if own["name"] in histories:
                saved = {"name": own["name"], "direction": histories[own["name"]].direction}
            else:
                saved = {"metrics": sorted(histories)}
            break
    if saved is not None and saved != own:
        raise ValueError(
            "A search goes on with the objective that it began with; give the new one another "
            f"`project_name`. Received: {own}, the project has {saved}"
        )


def forget_results(trial: Trial) -> None:
    """Let a trial that runs again report anew; KerasTuner would keep what it reported first."""
    trial.metrics = type(trial.metrics)()
    trial.score = None


def repaired_state(state: dict[str, Any], trials: dict[str, Trial]) -> dict[str, Any]:
    """Return a state of `keras_tuner.Oracle` in which no trial runs that has ended, and
    none twice.
    """
    ended = {name for name, trial in trials.items() if trial.status in ENDED}
    ongoing = {t: name for t, name in state["ongoing_trials"].items() if name not in ended}
    # A trial that was to run again is in both lists if the process was killed before it did.
    running = {*ended, *ongoing.values()}
    waiting = [name for name in dict.fromkeys(state["retry_queue"]) if name not in running]
    return {**state, "ongoing_trials": ongoing, "retry_queue": waiting}
