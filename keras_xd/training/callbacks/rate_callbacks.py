"""Keras' callbacks of one learning rate, for the several of a search."""

import keras

from keras_xd.training import rates

ONE_RATE = (*rates.RATE_CALLBACKS, keras.callbacks.TensorBoard)


class OneRate(keras.callbacks.Callback):
    """Lets the callback behind it see a search as one optimizer with one learning rate."""

    def on_epoch_begin(self, epoch, logs=None):
        self.model.search_optimizer.as_one = True

    def on_epoch_end(self, epoch, logs=None):
        optimizer = self.model.search_optimizer
        optimizer.as_one = True
        if logs is not None:
            others = [optimizer.architecture_optimizer, *optimizer.weights_optimizers[1:]]
            for group in others:
                logs["_".join((group.name, "learning_rate"))] = rates.value(group)


class TwoRates(keras.callbacks.Callback):
    """Ends what `OneRate` begins."""

    def on_epoch_begin(self, epoch, logs=None):
        self.model.search_optimizer.as_one = False

    def on_epoch_end(self, epoch, logs=None):
        self.model.search_optimizer.as_one = False
