"""Training that is stopped when its curve is worse than those of the trials before."""

import json
import os
import statistics
from collections.abc import Callable

from keras_xd.core import files, validation


class MedianStopping:
    """Keeps the curves of trials, and says which trial is to be stopped.

    A trial is stopped after an epoch if its best value so far is worse than the median, over all
    trials that have ended, of the mean of their values up to that epoch. Curves are files, so
    that several workers know those of each other and a search goes on with them.

    Args:
        folder: where the curves are, or a function that returns it.
        direction: "min" if low values are good, otherwise "max".
        trials: number of ended trials before any is stopped.

    Raises:
        ValueError: `trials` is no positive integer.

    Example:

    >>> from tuner_integration.median_stopping import MedianStopping
    >>> curves = MedianStopping("curves", "min", trials=2)
    >>> for number, values in enumerate([(0.5, 0.3), (0.7, 0.5)]):
    ...     for epoch, value in enumerate(values):
    ...         stopped = curves.stops(str(number), epoch, value)
    ...     curves.end(str(number))
    >>> curves.stops("2", 0, 0.55), curves.stops("2", 1, 0.52)  # the medians are 0.6 and 0.5
    (False, True)

    Reference:
        Golovin et al., "Google Vizier: a service for black-box optimization", 2017, section 3.2.2.
    """

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
