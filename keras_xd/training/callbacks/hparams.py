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


def write_run(folder, hparams, scalars):
    """Write the hyperparameters of a run that has ended, and numbers by their names."""
    import tensorflow as tf

    writer = tf.summary.create_file_writer(folder)
    session = hparams_api().KerasCallback(writer, hparams)
    session.on_train_begin()
    with writer.as_default(0):
        for name, value in scalars.items():
            tf.summary.scalar(name, value)
    session.on_train_end()
    writer.close()


def hparams_api():
    """Return TensorBoard's package of hyperparameters, or raise `ImportError`."""
    try:
        return importlib.import_module("tensorboard.plugins.hparams.api")
    except ImportError as error:
        raise ImportError(
            "An `ArchitectureBoard` needs the package tensorboard, which the extra `tuner` of "
            "keras_xd installs."
        ) from error
