"""An oracle of KerasTuner that loses and repeats nothing, whenever its process is killed."""

import json
import math
import operator
import os
import warnings
from collections.abc import Iterable
from typing import Any

import keras_tuner
import numpy as np
from keras_tuner.engine.trial import Trial

from keras_xd.core import files

_ID_WIDTH = 4
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


class ResumableOracle(keras_tuner.Oracle):
    """Keeps its state in files that are complete or not there, and puts right what a kill left."""

    _content = None  # of the file of the state, as this process knows it

    @property
    def max_trials(self) -> int | None:
        """The largest number of trials, which may be raised at any time."""
        width = len(next(iter(self.trials))) if self.trials else _ID_WIDTH
        return None if self._max_trials is None else TrialLimit(self._max_trials, width)

    @max_trials.setter
    def max_trials(self, value: int | None) -> None:
        self._max_trials = value

    def score_trial(self, trial: Trial) -> None:
        """Score a trial, see `keras_tuner.Oracle.score_trial`; NaN is a failure, not a warning."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            super().score_trial(trial)

    def get_best_trials(self, num_trials: int = 1) -> list[Trial]:
        """Return the best trials, the best first, of those that have completed."""
        trials = super().get_best_trials(num_trials)
        return [trial for trial in trials if trial.status == "COMPLETED"]

    def get_state(self) -> dict[str, Any]:
        """Return the state, plain enough for JSON."""
        return {**super().get_state(), "objective": described_objective(self.objective)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over a state; the trials have been loaded before."""
        check_objective(self.objective, state.get("objective"), self.trials.values())
        # Files are found in any order, and ids may have different widths.
        self.trials = dict(sorted(self.trials.items(), key=lambda pair: int(pair[0])))
        state = {**state, "run_times": dict(state["run_times"])}
        for trial in self.trials.values():
            if trial.status == "COMPLETED" and np.isnan(trial.score):  # as `end_trial` sees it
                trial.status = "FAILED"
                self._save_trial(trial)
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

    def reload(self) -> None:
        """Read the files of the project, see `keras_tuner.Oracle.reload`."""
        known = dict(self.trials)
        try:
            content = self._content_of_file()
            super().reload()
            self._check_reloaded()
            self._content = content
        except DAMAGED as error:
            self.trials = known
            cause = error.__cause__ or error
            if isinstance(cause, ValueError) and "Received: " in str(cause):
                raise ValueError(str(cause)) from error
            raise ValueError(
                "A search goes on from whole files of its project; if it is to begin anew, give it "
                f"another `project_name`. Received: {self._project_dir!r}, which cannot be read: "
                f"{type(cause).__name__}: {cause}"
            ) from error

    def _check_reloaded(self):
        """Raise an error where what was read would fail later."""
        for name, trial in self.trials.items():
            if not isinstance(trial.hyperparameters.values, dict):
                raise TypeError(f"the values of trial {name!r} are no dictionary")
            if trial.status == "COMPLETED":
                math.isnan(trial.score)
        lists = self.start_order, self.end_order, self._retry_queue
        if not all(isinstance(each, list) for each in lists):
            raise TypeError("the orders of trials are no lists")
        for name in [*self.start_order, *self.end_order, *self._retry_queue]:
            self.trials[name]
        if not all(isinstance(count, int) for count in self._run_times.values()):
            raise TypeError("the numbers of runs are no integers")
        if not isinstance(self.hyperparameters.values, dict):
            raise TypeError("the values of the hyperparameters are no dictionary")
        operator.index(self.seed)
        hash(tuple(self._id_to_hash.values()))

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

    def _has_project(self):
        return getattr(self, "_directory", None) is not None

    def _retry(self, trial):
        again = super()._retry(trial)
        if again:
            forget_results(trial)
        return again

    def save(self) -> None:
        """Save the state so that its file is never there in part."""
        if self._has_project():
            content = json.dumps(self.get_state(), allow_nan=False).encode()
            files.write(self._get_oracle_fname(), content, overwrite=True)
            self._content = content

    def is_outdated(self) -> bool:
        """Return whether another process has written the state since this one knew it."""
        return self._content_of_file() not in (None, self._content)

    def _content_of_file(self):
        if not self._has_project() or not os.path.exists(self._get_oracle_fname()):
            return None
        with open(self._get_oracle_fname(), "rb") as file:
            return file.read()

    def _save_trial(self, trial):
        if self._has_project():
            folder = self._get_trial_dir(trial.trial_id)
            content = json.dumps(trial.get_state())
            files.write(os.path.join(folder, "trial.json"), content.encode(), overwrite=True)
