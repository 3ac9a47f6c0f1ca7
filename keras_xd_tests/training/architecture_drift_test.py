"""How far the architecture has moved: by hand, in training, after loading."""

import keras
import numpy as np
import pytest

from keras_xd.core.searchable import architecture_variables
from keras_xd.training.architecture_drift import ArchitectureDrift
from keras_xd_tests.training.gated_dense import classification_data, small_model, small_search

FIT = {"batch_size": 10, "shuffle": False, "verbose": 0}
NAME = "architecture_change"


def search_model(**options):
    return small_search(architecture_optimizer=keras.optimizers.SGD(0.1), **options)


def by_hand(search, start):
    moved = architecture_variables(search)[0].numpy() - start
    return np.linalg.norm(moved) / np.linalg.norm(start)


def test_distance_is_relative_and_absolute_from_zero():
    model = keras.Sequential([keras.Input((4,)), *small_model().layers[:1]])
    (gates,) = architecture_variables(model)
    drift = ArchitectureDrift(model)
    assert drift.distance() is None
    drift.begin()
    assert drift.distance() == 0.0
    gates.assign(np.array([1.0, 1.0, 1.0, 3.0]))
    assert drift.distance() == pytest.approx(1.0)
    drift.begin()
    assert drift.distance() == pytest.approx(1.0)
    drift.forget()
    gates.assign(np.zeros(4))
    drift.begin()
    gates.assign(np.array([0.0, 3.0, 4.0, 0.0]))
    assert drift.distance() == pytest.approx(5.0)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "second_order"},
        {"steps_per_execution": 2},
    ],
)
def test_history_has_the_distance_at_the_end_of_each_epoch(options):
    search = search_model(warmup_epochs=1, **options)
    start = architecture_variables(search)[0].numpy()
    seen = []
    record = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(by_hand(search, start))
    )
    data = {"architecture_validation_split": 0.5} if search.mode != "joint" else {}
    x, y = classification_data(20)
    history = search.fit(x, y, epochs=3, callbacks=[record], **FIT, **data).history
    assert history[NAME] == pytest.approx(seen, rel=1e-6)
    assert history[NAME][0] == 0.0 and history[NAME][2] > history[NAME][1] > 0.0


@pytest.fixture(scope="module")
def whole():
    """The distances of one uninterrupted run."""
    return search_model().fit(*classification_data(), epochs=3, **FIT).history[NAME]


@pytest.mark.parametrize("name", ["search.keras", "search.weights.h5"])
def test_resumed_training_measures_from_the_first_start(name, whole, tmp_path):
    x, y = classification_data()
    search = search_model()
    search.fit(x, y, epochs=1, **FIT)
    if name.endswith(".keras"):
        search.save(tmp_path / name)
        loaded = keras.saving.load_model(tmp_path / name)
    else:
        search.save_weights(tmp_path / name)
        loaded = search_model()
        loaded.load_weights(tmp_path / name)
    rest = loaded.fit(x, y, epochs=3, initial_epoch=1, **FIT).history[NAME]
    assert rest == pytest.approx(whole[1:], rel=1e-5)
    start = architecture_variables(loaded)[0].numpy()
    loaded.compile("sgd", "sgd", "sparse_categorical_crossentropy")
    again = loaded.fit(x, y, **FIT).history[NAME]
    assert again == pytest.approx([by_hand(loaded, start)], rel=1e-6)
