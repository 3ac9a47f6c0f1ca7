"""Hyperparameters of a run, for TensorBoard."""

import importlib
import numbers

import numpy as np


def checked_hparams(hparams):
    """Return a copy of hyperparameters, or raise `ValueError`."""
    if not isinstance(hparams, dict):
        raise ValueError(f"`hparams` must be a dictionary. Received: hparams={hparams!r}")
    for name, value in hparams.items():
        if not isinstance(name, str) or not isinstance(value, (numbers.Real, np.bool_, str)):
            raise ValueError(
                "`hparams` must hold booleans, numbers or texts, under names that are texts. "
                f"Received: {name!r}: {value!r}"
            )
    return dict(hparams)


def hparams_callback(writer, hparams):
    """Return TensorBoard's own callback, which writes that a run begins and ends."""
    return hparams_api().KerasCallback(writer, hparams)


def hparams_api():
    """Return TensorBoard's package of hyperparameters, or raise `ImportError`."""
    try:
        return importlib.import_module("tensorboard.plugins.hparams.api")
    except ImportError as error:
        raise ImportError(
            "An `ArchitectureBoard` needs the package tensorboard, which the extra `tuner` of "
            "keras_xd installs."
        ) from error
