"""Arguments of a search: which epochs are its cool-down, and what is refused.

What `compile` and `SearchModel` refuse otherwise is in `search_model_test.py`.
"""

import warnings

import keras
import keras_tuner
import numpy as np
import pytest

import keras_xd
from keras_xd.training import checks
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import GatedDense


def search_model(**options):
    search = SearchModel(keras.Sequential([keras.Input((4,)), GatedDense(1)]))
    search.compile("sgd", "sgd", "mse", **{"run_eagerly": True, **options})
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


def _classifier(activation, to=None):
    inputs = keras.Input((8, 8, 1))
    x = keras.layers.Conv2D(4, 3, name="conv")(inputs)
    x = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(3, 3)(x))
    outputs = keras.layers.Dense(3, activation=activation)(x)
    return keras_xd.rewrite(keras.Model(inputs, outputs), to or "xd")


@pytest.mark.parametrize(
    ("activation", "from_logits", "warns"),
    [
        ("softmax", True, True),
        ("softmax", False, False),
        (None, False, True),
        (None, True, False),
        ("relu", True, False),
    ],
)
def test_a_loss_fits_the_outputs(activation, from_logits, warns):
    search = keras_xd.SearchModel(_classifier(activation))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=from_logits)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        search.compile(loss=loss)
    assert sum("Outputs and loss must agree" in str(w.message) for w in found) == warns


def _masked(callbacks=()):
    search = keras_xd.SearchModel(_classifier("softmax", "masked"))
    search.compile("sgd", "sgd", "sparse_categorical_crossentropy", run_eagerly=True)
    search.fit(np.ones((2, 8, 8, 1)), np.zeros(2), verbose=0, callbacks=list(callbacks))


def _unadapted():
    layers = [keras_xd.layers.PointNormalization(name="encoding"), keras_xd.layers.XDConv1D(1, 3)]
    search = keras_xd.SearchModel(keras.Sequential([keras.Input((9, 1)), *layers]))
    search.compile("sgd", "sgd", "mse", run_eagerly=True)
    search.fit(np.ones((2, 9, 1)), np.ones((2, 7, 1)), verbose=0)


def _saved_within_epochs(folder):
    search = keras_xd.SearchModel(_classifier("softmax"))
    search.compile("sgd", "sgd", "sparse_categorical_crossentropy", run_eagerly=True)
    backup = keras.callbacks.BackupAndRestore(folder, save_freq=3)
    search.fit(np.ones((2, 8, 8, 1)), np.zeros(2), verbose=0, callbacks=[backup])


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (lambda folder: _masked(), "masks of a rewritten model begin at full size"),
        (lambda folder: _unadapted(), r"does nothing until.*\['encoding'\]"),
        (_saved_within_epochs, "goes on with the first batch.*save_freq=3"),
    ],
)
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of NumPy
def test_fit_warns_of_what_does_nothing(train, message, tmp_path):
    with pytest.warns(UserWarning, match=message):
        train(tmp_path / "backup")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda space: keras_xd.rewrite(space), "is a search space already, with 2 searchable"),
        (lambda space: space.quantize("int8"), "`keras_xd.finalize.model..quantize"),
        (lambda space: keras_xd.SearchModel(space).quantize("int8"), "the SearchModel"),
        (lambda space: keras_xd.SearchModel(space).save("m.h5"), "saved as a `.keras` file"),
        (lambda space: keras_xd.finalize(space).save("m.hdf5"), "saved as a `.keras` file"),
        (
            lambda space: keras_tuner.RandomSearch(keras_xd.SearchModel(space), "val_loss"),
            "SearchHyperModel",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Layer InputLayer does not have")  # what Keras says first
def test_dead_ends_lead_on(step, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        step(_classifier("softmax"))


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("x", "sample 2, channel 1"),
        ("y", "sample 2, channel 0"),
        ("sample_weight", "sample 2: "),
        ("validation_data", "sample 2, channel 1"),
        ("architecture_validation_data", "sample 2, channel 1"),
    ],
)
def test_data_that_are_not_finite_are_refused_before_training(name, place):
    search = search_model(mode="first_order")
    bad, good = np.ones((3, 4), "float32"), np.ones((3, 4), "float32")
    bad[2, 1] = np.nan
    pair = (good, good[:, :1])
    arguments = {"x": good, "y": good[:, :1], "architecture_validation_data": pair}
    faulty = {"x": bad, "y": bad[:, 1:2], "sample_weight": bad[:, 1]}.get(name, (bad, good[:, :1]))
    before = [variable.numpy() for variable in search.variables]
    with pytest.raises(ValueError, match=rf"`{name}.*must be finite.*nan in {place}"):
        search.fit(**{**arguments, name: faulty}, verbose=0)
    for variable, value in zip(search.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
