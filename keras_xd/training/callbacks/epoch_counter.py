"""The callback that tells a search its epochs."""

import warnings

import keras

from keras_xd.training.callbacks.non_finite import bad_losses, divergence


class EpochCounter(keras.callbacks.Callback):
    """Counts a `SearchModel`'s epochs, in a variable that is saved with its optimizer."""

    _warned = False

    def on_epoch_begin(self, epoch, logs=None):
        # Callbacks that restore a model have done so by now, so the count is final.
        self.model.architecture_drift.begin()
        begins = self.model.cooldown_begins
        self.model.cooling_down = begins is not None and epoch >= begins
        self.model.make_train_function()

    def on_epoch_end(self, epoch, logs=None):
        self.model.search_optimizer.epochs.assign_add(1)
        change = self.model.architecture_drift.distance()
        if logs is not None and change is not None:
            logs["architecture_change"] = change
        losses = bad_losses(logs)
        if losses and not self._warned and not self.model.stop_training:
            self._warned = True
            warnings.warn(
                f"The search has diverged in epoch {epoch + 1}: {divergence(self.model, losses)}. "
                "`keras_xd.callbacks.TerminateOnNonFinite` stops and keeps the last finite state.",
                stacklevel=2,
            )
        epochs = self.params.get("epochs") or 0
        if epoch + 1 < epochs and any(batches.ended() for batches in self.model.generators):
            self.model.stop_training = True
            warnings.warn(
                f"Training ends after epoch {epoch + 1} of {epochs}, as a generator has no more "
                "batches.",
                stacklevel=2,
            )
