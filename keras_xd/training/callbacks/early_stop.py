"""Phases of early stopping."""

import keras

from keras_xd.core.searchable import architecture_variables


class StopRecorder(keras.callbacks.Callback):
    """Records, in front of an `EarlyStopping`, whether another callback has asked to stop."""

    asked = False

    def on_epoch_end(self, epoch, logs=None):
        self.asked = bool(self.model.stop_training)


class EarlyStop(keras.callbacks.Callback):
    """Lets a `SearchModel` cool down where a `keras.callbacks.EarlyStopping` before it stops."""

    def __init__(self, early_stopping, recorder):
        super().__init__()
        self.early_stopping = early_stopping
        self.recorder = recorder
        self._warming_up, self._last_epoch, self._in_phases = False, None, False

    def on_train_begin(self, logs=None):
        self._warming_up, self._last_epoch = False, None
        self._in_phases = any(v.trainable for v in architecture_variables(self.model))

    def on_epoch_begin(self, epoch, logs=None):
        search = self.model
        before = self._warming_up
        fixed = search.search_optimizer.architecture_fixed
        self._warming_up = self._in_phases and fixed and not search.cooling_down
        if before and not self._warming_up:
            self.early_stopping.on_train_begin()

    def on_epoch_end(self, epoch, logs=None):
        search = self.model
        if epoch == self._last_epoch:
            search.stop_training = True
        elif not self._in_phases or not search.stop_training or self.recorder.asked:
            return
        elif self._warming_up:
            search.stop_training = False
        elif search.cooldown_epochs:
            search.stop_training = False
            if not search.cooling_down:
                self._last_epoch = epoch + search.cooldown_epochs
                search.cooldown_begins = epoch + 1
                if self.early_stopping.best_weights is not None:
                    search.set_weights(self.early_stopping.best_weights)
