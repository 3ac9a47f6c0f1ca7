"""Early stops in the phases of a search."""

import keras
import numpy as np
import pytest

from keras_xd.core.searchable import architecture_variables
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import classification_data, small_model

EPOCHS = 9


class Course(keras.callbacks.Callback):
    """Puts given values of a loss in the logs; records phases and weights."""

    def __init__(self, losses):
        super().__init__()
        self.losses, self.phases, self.weights = losses, "", []
        self.architectures = []

    def on_epoch_begin(self, epoch, logs=None):
        fixed = self.model.search_optimizer.architecture_fixed
        self.phases += "c" if self.model.cooling_down else "w" if fixed else "s"

    def on_epoch_end(self, epoch, logs=None):
        logs["course"] = self.losses[epoch]
        self.weights.append(self.model.get_weights())
        self.architectures.append(architecture_variables(self.model)[0].numpy())


def train(losses, warmup=0, cooldown=2, patience=1, callbacks=(), **options):
    """Train with one early stopping; return the course and the search."""
    keras.utils.set_random_seed(4)
    search = SearchModel(small_model())
    search.compile(
        "sgd",
        keras.optimizers.SGD(0.1),
        "sparse_categorical_crossentropy",
        warmup_epochs=warmup,
        cooldown_epochs=cooldown,
        run_eagerly=True,
    )
    course = Course(losses)
    stop = keras.callbacks.EarlyStopping("course", mode="min", patience=patience, **options)
    callbacks = [course, stop, *callbacks]
    search.fit(*classification_data(), epochs=EPOCHS, callbacks=callbacks, verbose=0)
    return course, search


STALE = [1.0] * EPOCHS
FALLING = [-float(epoch) for epoch in range(EPOCHS)]


@pytest.mark.parametrize(
    ("losses", "options", "phases"),
    [
        (FALLING, {}, "sssssss" + "cc"),
        (STALE, {"cooldown": 0}, "ss"),
        # Patience begins with the search.
        (STALE, {"warmup": 4}, "wwww" + "ss" + "cc"),
        (STALE, {"warmup": 2, "start_from_epoch": 4}, "ww" + "ssss" + "cc"),
        # A stop in the cool-down changes nothing, whether it began early or not.
        (STALE, {"patience": 3, "cooldown": 4}, "ssss" + "cccc"),
        (FALLING[:7] + [9, 9], {"patience": 1}, "sssssss" + "cc"),
    ],
)
def test_phases(losses, options, phases):
    assert train(losses, **options)[0].phases == phases


def test_cooldown_begins_with_the_best_weights_of_the_search():
    """And in the end the best of all epochs are restored, as Keras does."""

    class Begin(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            weights.append(self.model.get_weights())

    weights = []
    losses = [0, 3, 1, 2, 2, 0.5, 4]
    course, search = train(
        losses, warmup=1, patience=2, restore_best_weights=True, callbacks=[Begin()]
    )
    # The value of the warm-up, the lowest, is none of the search.
    assert course.phases == "w" + "ssss" + "cc"
    for begun, best in zip(weights[5], course.weights[2], strict=True):
        np.testing.assert_array_equal(begun, best)
    for final, best in zip(search.get_weights(), course.weights[5], strict=True):
        np.testing.assert_array_equal(final, best)
    np.testing.assert_array_equal(architecture_variables(search)[0], course.architectures[2])


def test_without_an_architecture_to_train_a_stop_is_a_stop():
    search = SearchModel(small_model())
    search.model.layers[0].gates.trainable = False
    search.compile(
        "sgd", "sgd", "sparse_categorical_crossentropy", warmup_epochs=3, cooldown_epochs=2
    )
    course = Course(STALE)
    stop = keras.callbacks.EarlyStopping("course", mode="min", patience=1)
    search.fit(*classification_data(), epochs=EPOCHS, callbacks=[course, stop], verbose=0)
    assert len(course.phases) == 2
