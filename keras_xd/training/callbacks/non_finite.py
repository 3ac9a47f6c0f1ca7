"""The end of a training that has diverged, with the last good state kept."""

import os
import pathlib
import warnings
from collections.abc import Sequence

import keras
import numpy as np

from keras_xd.core.searchable import listed_weights, non_finite_weights
from keras_xd.core.type_aliases import Logs
from keras_xd.core.validation import check_export_path, one_of
from keras_xd.training.callbacks import training_state

LOSSES = ("loss", "architecture_loss")
ENDINGS = (".keras", ".weights.h5")


def bad_losses(logs, names=LOSSES):
    """Return in words which of the losses in the logs are NaN or infinite; "" if none is."""
    values = {name: logs[name] for name in names if logs and name in logs}
    return ", ".join(
        f"{name} = {float(value)}" for name, value in values.items() if not np.isfinite(value)
    )


def divergence(model, losses):
    """Return a sentence on losses that are not finite and the layers that are not."""
    training_state.synchronize(model)
    found = non_finite_weights(model)
    spoilt = f", weights not finite in layers {listed_weights(found)}" if found else ""
    return (
        f"{losses}{spoilt}. Look for NaN or infinity in the data, then train with lower learning "
        "rates for weights and architecture, or with a smaller `clipnorm`"
    )


class RaiseOnNonFinite(keras.callbacks.Callback):
    """Raises `ValueError` after the first batch whose loss is NaN or infinite."""

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        losses = bad_losses(logs)
        if losses and not self.model.stop_training:  # a callback has dealt with it
            raise ValueError(
                f"The loss of a search must be finite. Received: in epoch {self._epoch + 1}, batch "
                f"{batch + 1}: {divergence(self.model, losses)}"
            )


class TerminateOnNonFinite(keras.callbacks.Callback):
    """Stops when a loss is NaN or infinite, and gives the model its last good state back.

    Looked at are the losses of training batches and of architecture batches (of the mean over the
    epoch so far, as Keras logs it), after every call of the compiled train step, that is, of
    `steps_per_execution` batches; and at the end of every epoch all variables of the model, as an
    update may spoil them without a further loss to tell.

    The last good state is that of the begin of training or of the end of the last epoch that left
    all of it finite. It is kept in memory and comprises the weights, the architecture, statistics,
    states of random generators, both optimizers with their slots and counts, and the count of
    epochs. It is put back before other callbacks see the end of the epoch if this callback stands
    before them, so that what they save is finite. Training that goes on with a smaller rate, say,
    thus begins with the epoch that was cut short. `UserWarning` tells what has happened.

    Gradients that overflow under loss scaling are no reason to stop: the optimizer skips them.

    Args:
        path: where to save the last good state, too, when training is stopped: a file ending in
            `.keras` (the model) or `.weights.h5`. `None`: it is only put back.
        overwrite: whether to write where there is a file already.
        losses: the names of the losses in the logs.

    Attributes:
        stopped_epoch: the epoch, counted from 0, that was stopped, or `None`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import warnings
    >>> import keras_xd
    >>> model = keras.Sequential([keras.Input((9, 1)), keras_xd.layers.XDConv1D(2, 3)])
    >>> search = keras_xd.SearchModel(model)
    >>> search.compile(keras.optimizers.SGD(1e30), "sgd", "mse")
    >>> guard = keras_xd.callbacks.TerminateOnNonFinite()
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     history = search.fit(
    ...         np.ones((8, 9, 1)),
    ...         np.zeros((8, 7, 2)),
    ...         1,
    ...         9,
    ...         callbacks=[guard],
    ...         verbose=0,
    ...     )
    >>> len(history.history["loss"]), guard.stopped_epoch
    (1, 0)
    >>> bool(np.isfinite(search.predict(np.ones((1, 9, 1)), verbose=0)).all())
    True
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        overwrite: bool = False,
        losses: Sequence[str] = LOSSES,
    ):
        super().__init__()
        if path is not None and not str(path).endswith(ENDINGS):
            raise ValueError(
                f"`path` must end in '.keras' or '.weights.h5'. Received: path={str(path)!r}"
            )
        if not isinstance(losses, (list, tuple)) or not all(
            isinstance(name, str) for name in losses
        ):
            raise ValueError(
                f"`losses` must be a list of names in the logs. Received: losses={losses!r}"
            )
        self.path = None if path is None else pathlib.Path(path)
        self.overwrite = one_of(overwrite, (True, False), "overwrite")
        self.losses = tuple(losses)
        self.stopped_epoch = None
        self._state, self._epoch = None, 0

    def on_train_begin(self, logs: Logs = None) -> None:
        if self.path is not None:
            check_export_path(self.path, self.overwrite)
        self.stopped_epoch, self._state = None, None

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._epoch = epoch
        if self._state is None:
            # Callbacks that restore a model have done so by now.
            self._keep()

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        bad = bad_losses(logs, self.losses)
        if bad and self.stopped_epoch is None:
            self._stop(f"epoch {self._epoch + 1}, batch {batch + 1}: {bad}")

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self.stopped_epoch is not None:
            self._put_back()  # the count of epochs, which has been raised at the end of this one
        elif not self._keep():
            self._stop(f"epoch {epoch + 1}: variables of the model are not finite")

    def on_train_end(self, logs: Logs = None) -> None:
        self._state = None

    def _training_state(self):
        """Return all variables that training changes, but those of the metrics."""
        optimizer = getattr(self.model, "optimizer", None)
        return [*self.model.variables, *(optimizer.variables if optimizer is not None else [])]

    def _keep(self):
        """Copy the state if it is finite; return whether it is."""
        tensors = [keras.ops.convert_to_tensor(variable) for variable in self._training_state()]
        # Some backends give views.
        state = [np.array(keras.ops.convert_to_numpy(tensor), copy=True) for tensor in tensors]
        if not all(np.all(np.isfinite(value)) for value in state):
            return False
        self._state = state
        return True

    def _put_back(self):
        training_state.synchronize(self.model)
        for variable, value in zip(self._training_state(), self._state or (), strict=False):
            variable.assign(value)

    def _stop(self, reason):
        self.stopped_epoch = self._epoch
        self.model.stop_training = True
        kept = "there was no finite state to put back"
        if self._state is not None:
            self._put_back()
            kept = "the last finite state has been put back"
            if self.path is not None:
                kept += self._save()
        warnings.warn(f"Training has been stopped in {reason}; {kept}.", UserWarning, stacklevel=2)

    def _save(self):
        """Save the model; return what to say of it."""
        if self.path.exists() and not self.overwrite:
            return f", but not saved to '{self.path}', where there is a file by now"
        os.makedirs(self.path.parent, exist_ok=True)
        if str(self.path).endswith(".weights.h5"):
            self.model.save_weights(self.path, overwrite=True)
        else:
            self.model.save(self.path, overwrite=True)
        return f" and saved to '{self.path}'"
