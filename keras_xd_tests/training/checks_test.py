"""Arguments of a search: which epochs are its cool-down, and what is refused.

What `compile` and `SearchModel` refuse otherwise is in `search_model_test.py`.
"""

import keras
import pytest

from keras_xd.core.searchable import architecture_variables
from keras_xd.training import SearchModel, checks
from keras_xd.training.callbacks.epoch_counter import EpochCounter
from keras_xd_tests.training.gated_dense import GatedDense


def search_model(**options):
    search = SearchModel(keras.Sequential([keras.Input((4,)), GatedDense(1)]))
    search.compile("sgd", "sgd", "mse", **options)
    return search


@pytest.mark.parametrize(
    ("options", "trained", "epochs", "initial_epoch", "expected"),
    [
        ({}, 0, 1, 0, None),
        ({"warmup_epochs": 3}, 0, 2, 0, None),
        ({"cooldown_epochs": 2}, 0, 5, 0, 3),
        ({"cooldown_epochs": 2, "warmup_epochs": 2}, 0, 5, 0, 3),
        ({"cooldown_epochs": 2, "warmup_epochs": 2}, 2, 3, 0, 1),
        ({"cooldown_epochs": 2}, 4, 5, 4, 3),
        ({"cooldown_epochs": 2}, 0, 1, 1, -1),
    ],
)
def test_first_epoch_of_cooldown(options, trained, epochs, initial_epoch, expected):
    search = search_model(**options)
    search.search_optimizer.epochs.assign(trained)
    assert checks.first_cooldown_epoch(search, epochs, initial_epoch) == expected


@pytest.mark.parametrize(
    ("options", "trained", "epochs", "message"),
    [
        ({"cooldown_epochs": 2}, 0, 2, "epochs=2, cooldown_epochs=2, 0 epochs of warm-up"),
        ({"cooldown_epochs": 3}, 9, 1, "epochs=1, cooldown_epochs=3, 0 epochs of warm-up"),
        ({"cooldown_epochs": 1, "warmup_epochs": 3}, 1, 3, "epochs=3.*2 epochs of warm-up"),
    ],
)
def test_an_epoch_must_be_left_for_the_architecture(options, trained, epochs, message):
    search = search_model(**options)
    search.search_optimizer.epochs.assign(trained)
    with pytest.raises(ValueError, match=f"`epochs` must leave an epoch.*Received: {message}"):
        checks.first_cooldown_epoch(search, epochs, 0)
    architecture_variables(search)[0].trainable = False
    expected = epochs - options["cooldown_epochs"]
    assert checks.first_cooldown_epoch(search, epochs, 0) == expected


def test_the_cap_on_epochs_counts():
    search = search_model(cooldown_epochs=1)
    try:
        keras.config.set_max_epochs(3)
        assert checks.first_cooldown_epoch(search, 9, 0) == 2
        keras.config.set_max_epochs(1)
        with pytest.raises(ValueError, match="epochs=1, cooldown_epochs=1"):
            checks.first_cooldown_epoch(search, 9, 0)
    finally:
        keras.config.set_max_epochs(None)


@pytest.mark.parametrize("value", [-1, 0.5, True, None])
def test_numbers_of_epochs(value):
    for name in ("warmup_epochs", "cooldown_epochs"):
        with pytest.raises(ValueError, match=f"`{name}` must be an integer.*{name}={value}"):
            search_model(**{name: value})


def test_the_counter_comes_first():
    search = search_model()
    given = keras.callbacks.History()
    callbacks = checks.with_own_callbacks([given], search)
    assert isinstance(callbacks[0], EpochCounter) and callbacks[1:] == [given]
    listed = keras.callbacks.CallbackList([given])
    for _ in range(2):
        assert checks.with_own_callbacks(listed, search) is listed
        assert isinstance(listed.callbacks[0], EpochCounter) and listed.callbacks[1:] == [given]
    assert listed.callbacks[0].model is search
