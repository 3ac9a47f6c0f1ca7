"""Callbacks see the values of training on every backend."""

import keras
import numpy as np

from keras_xd.training.callbacks import training_state
from keras_xd_tests.training.gated_dense import classification_data, gated_model


class Seen(keras.callbacks.Callback):
    """Notes a weight after every batch, and how often the state was asked for."""

    def __init__(self):
        super().__init__()
        self.kernels = []

    def on_train_batch_end(self, batch, logs=None):
        training_state.synchronize(self.model)
        self.kernels.append(keras.ops.convert_to_numpy(self.model.layers[0].kernel))


def test_the_weights_are_those_after_the_batch():
    x, y = classification_data()
    model, seen = gated_model(), Seen()
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=len(x) // 2, verbose=0, callbacks=[seen])
    first, second = seen.kernels
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(second, keras.ops.convert_to_numpy(model.layers[0].kernel))
