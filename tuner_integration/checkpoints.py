"""Weights of the best epoch of a trial, in files that are complete or not there; full disks."""

import functools

from keras_tuner import errors

from keras_xd.core import saving


class FullDiskError(errors.FatalError, OSError):
    """Ends a search that has no room for a file: its trial runs again when there is.

    Args:
        trial_id: the trial that was running.
        error: what was raised in it.

    Example:

    >>> from tuner_integration.checkpoints import FullDiskError
    >>> raise FullDiskError("0003", OSError(28, "No space left on device"))
    Traceback (most recent call last):
    ...
    tuner_integration.checkpoints.FullDiskError: There is no room for a file of the search: make ...
    """

    def __init__(self, trial_id: str, error: BaseException):
        super().__init__(
            "There is no room for a file of the search: make space, then run the same program "
            "again, which goes on with the trial that was running. "
            f"Received: trial {trial_id} with {type(error).__name__}: {error}"
        )


def write_whole(callbacks: list) -> None:
    """Let KerasTuner's callback that keeps the best epoch replace its file as a whole.

    KerasTuner writes it in place: a process that is killed, or a full disk, leaves a part of it.

    Args:
        callbacks: the callbacks of a trial, of which that one is changed.

    Example:

    >>> import keras
    >>> from keras_tuner import Objective
    >>> from keras_tuner.src.engine.tuner_utils import SaveBestEpoch
    >>> from tuner_integration.checkpoints import write_whole
    >>> best = SaveBestEpoch(Objective("loss", "min"), "best.weights.h5")
    >>> write_whole([best])
    >>> best.set_model(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))
    >>> best.on_epoch_end(0, {"loss": 0.5})
    """
    for callback in callbacks:
        # KerasTuner makes one for all executions of a trial, which knows the best value.
        if type(callback).__name__ == "SaveBestEpoch":
            callback.set_model = functools.partial(_set_whole_model, callback)


def _set_whole_model(callback, model):
    """Give a callback a model; where it writes KerasTuner says, which depends on the worker."""
    type(callback).set_model(callback, _Whole(model))


class _Whole:
    """A model whose weights are written as a whole."""

    def __init__(self, model):
        self._whole_model = model

    def __getattr__(self, name):
        return getattr(self._whole_model, name)

    def save_weights(self, path):
        saving.write_weights(self._whole_model, path)
