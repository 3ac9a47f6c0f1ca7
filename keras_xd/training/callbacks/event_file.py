"""TensorBoard's event files, on any backend of Keras."""

import importlib
import numbers

import numpy as np


class EventFile:
    """A new event file for one run."""

    def __init__(self, folder):
        import tensorflow as tf

        self._summary = tf.summary
        self._writer = tf.summary.create_file_writer(str(folder))

    def scalar(self, tag, value, step):
        """Write a number."""
        with self._writer.as_default(step):
            self._summary.scalar(tag, float(value))

    def text(self, tag, text, step):
        """Write a text in Markdown."""
        with self._writer.as_default(step):
            self._summary.text(tag, text)

    def image(self, tag, image, step):
        """Write an image, an array `(height, width, 3)`."""
        with self._writer.as_default(step):
            self._summary.image(tag, image[None])

    def start_session(self, hparams):
        """Write the hyperparameters of the run, as `checked_hparams` returns them."""
        self._write(_hparams().api.hparams_pb(hparams))

    def end_session(self):
        """Write that the run of `start_session` has come to its end."""
        hparams = _hparams()
        self._write(hparams.summary.session_end_pb(hparams.api_pb2.STATUS_SUCCESS))

    def flush(self):
        """Wait until all is in the file."""
        self._writer.flush()

    def close(self):
        """Write what is left and close the file."""
        self._writer.close()

    def _write(self, record):
        with self._writer.as_default(0):
            self._summary.experimental.write_raw_pb(record.SerializeToString())


def check_tensorboard():
    """Raise `ImportError` if the package tensorboard is missing."""
    _hparams()


def checked_hparams(hparams):
    """Return a copy of hyperparameters, NumPy's numbers as Python's."""
    if not isinstance(hparams, dict):
        raise ValueError(f"`hparams` must be a dictionary. Received: hparams={hparams!r}")
    found = {k: v.item() if isinstance(v, np.generic) else v for k, v in hparams.items()}
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, (numbers.Real, str)):
            raise ValueError(
                "`hparams` must hold booleans, numbers or texts, under names that are texts. "
                f"Received: {name!r}: {value!r}"
            )
    return found


def _hparams():
    """Return TensorBoard's package of hyperparameters."""
    try:
        for name in ("api", "api_pb2", "summary"):
            importlib.import_module(f"tensorboard.plugins.hparams.{name}")
        return importlib.import_module("tensorboard.plugins.hparams")
    except ImportError as error:
        raise ImportError(
            "An `ArchitectureBoard` needs the package tensorboard, which the extra `tuner` of "
            "keras_xd installs."
        ) from error
