"""Training that is stopped when its curve is worse than those of the trials before."""

import json
import os
import statistics
from collections.abc import Callable

from keras_xd.core import files, validation


class MedianStopping:
    """Keeps the curves of trials, and says which trial is to be stopped."""

    def __init__(
        self, folder: str | os.PathLike | Callable[[], str], direction: str = "min", trials: int = 5
    ):
        self._folder = folder if callable(folder) else lambda: os.fspath(folder)
        self.direction = validation.one_of(direction, ("min", "max"), "direction")
        self.trials = validation.positive_integer(trials, "trials")
        self._ended, self._curves = {}, {}

    def stops(self, trial_id: str, epoch: int, value: float) -> bool:
        """Take over the value of an epoch, from 0; return whether the trial is to be stopped."""
        curve = self._curves.get(trial_id, {})
        if any(known >= epoch for known in curve):
            curve = {}  # another execution, or one that runs again
        self._curves[trial_id] = {**curve, epoch: float(value)}
        others = [curve for name, curve in self._known().items() if name != trial_id]
        means = [
            statistics.fmean(v for e, v in curve.items() if e <= epoch)
            for curve in others
            if any(e <= epoch for e in curve)
        ]
        if len(means) < self.trials:
            return False
        own = self._curves[trial_id].values()
        if self.direction == "min":
            return not min(own) <= statistics.median(means)
        return not max(own) >= statistics.median(means)

    def end(self, trial_id: str) -> None:
        """Keep the curve of a trial that has ended."""
        curve = self._curves.pop(trial_id, None)
        if curve:
            os.makedirs(self._folder(), exist_ok=True)
            path = os.path.join(self._folder(), f"{trial_id}.json")
            files.write(path, json.dumps(sorted(curve.items())).encode(), overwrite=True)
            self._ended[trial_id] = curve

    def _known(self):
        """Curves of ended trials, read once each."""
        folder = self._folder()
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            trial_id, ending = os.path.splitext(name)
            if ending == ".json" and trial_id not in self._ended:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    self._ended[trial_id] = {epoch: value for epoch, value in json.load(file)}
        return self._ended
