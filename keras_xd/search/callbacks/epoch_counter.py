"""The callback that tells a search its epochs."""

import keras


class EpochCounter(keras.callbacks.Callback):
    """Counts a `SearchModel`'s epochs, in a variable that is saved with its optimizer.

    It has to come before the callbacks that save the model at the end of an epoch, so that what
    they save includes the epoch.
    """

    def on_epoch_begin(self, epoch, logs=None):
        # Callbacks that restore a model have done so by now, so the count is final.
        self.model.begin_epoch(epoch)

    def on_epoch_end(self, epoch, logs=None):
        self.model.search_optimizer.epochs.assign_add(1)
