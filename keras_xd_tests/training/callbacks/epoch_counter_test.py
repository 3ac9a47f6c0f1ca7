"""Epochs are counted once each, before other callbacks see the end of the epoch."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd_tests.training.gated_dense import classification_data, small_search


def counts_seen(search, seen):
    return keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(int(search.search_optimizer.epochs.numpy()))
    )


def test_epochs_are_counted_over_calls_of_fit():
    search, seen = small_search(warmup_epochs=1), []
    for epochs in (2, 1):
        search.fit(
            *classification_data(), epochs=epochs, callbacks=[counts_seen(search, seen)], verbose=0
        )
    assert seen == [1, 2, 3]


# `pytest.warns` also finds what Keras itself warns of when it reads a variable.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_a_search_that_has_diverged_warns_once():
    search = small_search(warmup_epochs=1)
    x, y = classification_data()
    x[0, 0] = np.nan
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)  # `fit` looks at arrays only
    with pytest.warns(UserWarning) as caught:
        search.fit(batches, epochs=3, verbose=0)
    (message,) = [str(w.message) for w in caught if "diverged" in str(w.message)]
    assert message.startswith("The search has diverged in epoch 1: loss = nan, weights not finite")
    assert "gated" in message
