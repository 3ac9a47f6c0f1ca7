"""TensorBoard's event files, written by the package tensorboard alone, on any backend of Keras."""

import importlib
import numbers
import time

import numpy as np


class EventFile:
    """A new event file for one run."""

    def __init__(self, folder):
        self._writer = _tensorboard("summary.writer.event_file_writer").EventFileWriter(str(folder))

    def scalar(self, tag, value, step):
        """Write a number."""
        summary = _tensorboard("plugins.scalar.summary_v2").scalar_pb(tag, float(value))
        self._add(summary, step)

    def text(self, tag, text, step):
        """Write a text in Markdown."""
        self._add(_tensorboard("plugins.text.summary_v2").text_pb(tag, text), step)

    def image(self, tag, size, content, step):
        """Write an image."""
        summary = _tensorboard("compat.proto.summary_pb2").Summary()
        summary.value.add(
            tag=tag,
            metadata=_tensorboard("plugins.image.metadata").create_summary_metadata(
                display_name=None, description=None
            ),
            tensor=_tensorboard("util.tensor_util").make_tensor_proto(
                [*(str(length).encode() for length in size), content]
            ),
        )
        self._add(summary, step)

    def start_session(self, hparams):
        """Write the hyperparameters of the run, as `checked_hparams` returns them."""
        self._add(_tensorboard("plugins.hparams.summary_v2").hparams_pb(hparams), 0)

    def end_session(self):
        """Write that the run of `start_session` has come to its end."""
        metadata = _tensorboard("plugins.hparams.metadata")
        plugin_data = _tensorboard("plugins.hparams.plugin_data_pb2")
        status = _tensorboard("plugins.hparams.api_pb2").Status.Value("STATUS_SUCCESS")
        end = plugin_data.SessionEndInfo(status=status, end_time_secs=time.time())
        summary = _tensorboard("compat.proto.summary_pb2").Summary()
        summary.value.add(
            tag=metadata.SESSION_END_INFO_TAG,
            metadata=metadata.create_summary_metadata(
                plugin_data.HParamsPluginData(session_end_info=end)
            ),
            tensor=metadata.NULL_TENSOR,
        )
        self._add(summary, 0)

    def flush(self):
        """Wait until all is in the file."""
        self._writer.flush()

    def close(self):
        """Write what is left and close the file."""
        self._writer.close()

    def _add(self, summary, step):
        events = _tensorboard("compat.proto.event_pb2")
        self._writer.add_event(events.Event(wall_time=time.time(), step=step, summary=summary))


def check_tensorboard():
    """Raise `ImportError` if the package tensorboard is missing."""
    _tensorboard("summary.writer.event_file_writer")


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


def _tensorboard(module):
    try:
        return importlib.import_module(f"tensorboard.{module}")
    except ImportError as error:
        raise ImportError(
            "An `ArchitectureBoard` needs the package tensorboard, which the extra `tuner` of "
            "keras_xd installs."
        ) from error
