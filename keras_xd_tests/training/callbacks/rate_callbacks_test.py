"""Which callbacks see one rate, and when. What they do with it is in `rates_test.py`."""

import keras
import numpy as np
import pytest

from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import classification_data, small_model

# Keras reads a rate by `np.array(variable)`, of which NumPy 2 complains.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.mark.parametrize("listed", [False, True])
def test_only_callbacks_of_one_rate_see_one(listed):
    search = SearchModel(small_model())
    search.compile("sgd", "sgd", "sparse_categorical_crossentropy")
    before, inside, behind = [], [], []

    def look(seen):
        """Note how many optimizers there are to see."""
        seen.append(len(getattr(search.optimizer, "optimizers", ())))

    def watcher(seen):
        at_both_ends = ("on_epoch_begin", "on_epoch_end")
        return keras.callbacks.LambdaCallback(
            **dict.fromkeys(at_both_ends, lambda epoch, logs: look(seen))
        )

    def schedule(epoch, rate):
        look(inside)
        return rate

    scheduler = keras.callbacks.LearningRateScheduler(schedule)
    callbacks = [watcher(before), scheduler, watcher(behind)]
    if listed:
        callbacks = keras.callbacks.CallbackList(callbacks, add_history=True, model=search)
    for _ in range(2):
        history = search.fit(*classification_data(), callbacks=callbacks, verbose=0)
    assert (before, inside, behind) == ([2] * 4, [0] * 2, [2] * 4)
    np.testing.assert_allclose(history.history["architecture_learning_rate"], 0.01, rtol=1e-6)
