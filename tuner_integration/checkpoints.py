"""Weights of the best epoch of a trial, in files that are complete or not there; full disks."""

import functools

from keras_tuner import errors

from keras_xd.core import saving


class FullDiskError(errors.FatalError, OSError):
    """Ends a search that has no room for a file: its trial runs again when there is."""

    def __init__(self, trial_id: str, error: BaseException):
        super().__init__(
            "There is no room for a file of the search: make space, then run the same program "
            "again, which goes on with the trial that was running. "
            f"Received: trial {trial_id} with {type(error).__name__}: {error}"
        )


def write_whole(callbacks: list) -> None:
    """Let KerasTuner's callback that keeps the best epoch replace its file as a whole."""
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
