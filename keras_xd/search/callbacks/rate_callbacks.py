"""Keras' callbacks of one learning rate, for the two of a search."""

import keras

from keras_xd.search import rates

ONE_RATE = (*rates.RATE_CALLBACKS, keras.callbacks.TensorBoard)


class OneRate(keras.callbacks.Callback):
    """Lets the callback behind it see a search as one optimizer with one learning rate.

    That is the rate of the weights; see `ArchitectureOptimizer.learning_rate`. The logs get
    `architecture_learning_rate` beside the `learning_rate` of the callback.
    """

    def on_epoch_begin(self, epoch, logs=None):
        self.model.search_optimizer.as_one = True

    def on_epoch_end(self, epoch, logs=None):
        optimizer = self.model.search_optimizer
        optimizer.as_one = True
        if logs is not None:
            logs["architecture_learning_rate"] = rates.value(optimizer.architecture_optimizer)


class TwoRates(keras.callbacks.Callback):
    """Ends what `OneRate` begins."""

    def on_epoch_begin(self, epoch, logs=None):
        self.model.search_optimizer.as_one = False

    def on_epoch_end(self, epoch, logs=None):
        self.model.search_optimizer.as_one = False
