"""Cool-down of a search: the architecture stays as it is, in whatever parts one trains."""

import keras
import numpy as np
import pytest

from keras_xd.core.searchable import architecture_variables, model_variables
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import GatedDense, classification_data

FIT = {"batch_size": 4, "shuffle": False, "verbose": 0}
EPOCHS = 5


def search_model(seed=4, mode="joint", average=False, **options):
    keras.utils.set_random_seed(seed)
    search = SearchModel(keras.Sequential([keras.Input((4,)), GatedDense(1)]))
    options = {"warmup_epochs": 1, "cooldown_epochs": 2, "run_eagerly": True, **options}
    search.compile(
        keras.optimizers.SGD(0.01, momentum=0.9),
        keras.optimizers.SGD(0.05, momentum=0.9, use_ema=average, ema_momentum=0.5),
        "mse",
        mode=mode,
        **options,
    )
    return search


class Recorder(keras.callbacks.Callback):
    """Keeps, at the end of every epoch, the architecture with its optimizer, and the weights."""

    def __init__(self):
        super().__init__()
        self.architectures, self.weights = [], []

    def on_epoch_end(self, epoch, logs=None):
        optimizer = self.model.search_optimizer.architecture_optimizer
        variables = architecture_variables(self.model) + optimizer.variables
        self.architectures.append(b"".join(v.numpy().tobytes() for v in variables))
        self.weights.append(b"".join(v.numpy().tobytes() for v in model_variables(self.model)))


def fit(search, epochs=EPOCHS, callbacks=(), **arguments):
    """Train; return what `Recorder` has seen."""
    recorder = Recorder()
    x, y = classification_data(8)
    if search.mode != "joint":
        arguments["architecture_validation_split"] = 0.5
    search.fit(x, y, epochs=epochs, callbacks=[recorder, *callbacks], **FIT, **arguments)
    return recorder.architectures, recorder.weights


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"run_eagerly": False, "steps_per_execution": 2},
        {"mode": "second_order"},
    ],
)
def test_architecture_and_its_optimizer_are_kept_to_the_bit(options):
    search = search_model(**options)
    untouched = fit(search_model(warmup_epochs=EPOCHS, cooldown_epochs=0, **options), 1)[0][0]
    architectures, weights = fit(search)
    # One epoch of warm-up, two of search, two of cool-down.
    assert architectures[0] == untouched
    assert len(set(architectures[:3])) == 3
    assert architectures[2] == architectures[3] == architectures[4]
    assert len(set(weights)) == EPOCHS
    batches = 2 if search.mode == "joint" else 1
    assert int(search.search_optimizer.architecture_optimizer.iterations) == 2 * batches
    assert int(search.search_optimizer.weights_optimizer.iterations) == EPOCHS * batches


def test_cooldown_trains_the_weights_as_a_frozen_architecture_does():
    search = search_model(cooldown_epochs=1, warmup_epochs=0)
    _, weights = fit(search, 3)
    twin = search_model(cooldown_epochs=0, warmup_epochs=0)
    fit(twin, 2)
    state = [v.numpy() for v in twin.search_optimizer.weights_optimizer.variables]
    architecture_variables(twin)[0].trainable = False
    twin.compile(keras.optimizers.SGD(0.01, momentum=0.9), "sgd", "mse", run_eagerly=True)
    twin.search_optimizer.weights_optimizer.set_weights(state)
    assert fit(twin, 1)[1][-1] == weights[-1]


def test_fit_refuses_epochs_without_a_search():
    search = search_model()
    x, y = classification_data(8)
    before = [v.numpy() for v in search.variables]
    with pytest.raises(ValueError, match="`epochs` must leave.*epochs=3.*1 epochs of warm-up"):
        search.fit(x, y, epochs=3, **FIT)
    for old, variable in zip(before, search.variables, strict=True):
        np.testing.assert_array_equal(variable.numpy(), old)
    architecture_variables(search)[0].trainable = False  # nothing is left to search
    search.compile("sgd", "sgd", "mse", warmup_epochs=1, cooldown_epochs=2, run_eagerly=True)
    search.fit(x, y, epochs=3, **FIT)
