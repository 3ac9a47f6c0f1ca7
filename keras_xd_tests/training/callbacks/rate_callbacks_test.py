"""Which callbacks see one rate, and when. What they do with it is in `rates_test.py`."""

import keras
import numpy as np
import pytest

from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import classification_data, small_model

# Keras reads a rate by `np.array(variable)`, of which NumPy 2 complains.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


class Watcher(keras.callbacks.Callback):
    """Records at both ends of an epoch how many optimizers there are to see."""

    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def look(self):
        self.seen.append(len(getattr(self.model.optimizer, "optimizers", ())))

    def on_epoch_begin(self, epoch, logs=None):
        self.look()

    def on_epoch_end(self, epoch, logs=None):
        self.look()


class WatchingScheduler(keras.callbacks.LearningRateScheduler):
    def __init__(self, seen):
        super().__init__(lambda epoch, rate: rate)
        self.watcher = Watcher(seen)

    def set_model(self, model):
        super().set_model(model)
        self.watcher.set_model(model)

    def on_epoch_begin(self, epoch, logs=None):
        self.watcher.look()
        super().on_epoch_begin(epoch, logs)

    def on_epoch_end(self, epoch, logs=None):
        self.watcher.look()
        super().on_epoch_end(epoch, logs)


@pytest.mark.parametrize("listed", [False, True])
def test_only_callbacks_of_one_rate_see_one(listed):
    search = SearchModel(small_model())
    search.compile("sgd", "sgd", "sparse_categorical_crossentropy")
    before, inside, behind = [], [], []
    callbacks = [Watcher(before), WatchingScheduler(inside), Watcher(behind)]
    if listed:
        callbacks = keras.callbacks.CallbackList(callbacks, add_history=True, model=search)
    for _ in range(2):
        history = search.fit(*classification_data(), callbacks=callbacks, verbose=0)
    assert (before, inside, behind) == ([2] * 4, [0] * 4, [2] * 4)
    np.testing.assert_allclose(history.history["architecture_learning_rate"], 0.01, rtol=1e-6)
