"""The state of random generators in files of searches: training goes on to the bit with dropout."""

import keras
import numpy as np
import pytest
from keras import layers

from keras_xd.training.random_state import KEY, generator_states, load_random_state
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import GatedDense

EPOCHS = 2
GENERATORS = 4


def image_model():
    """A model with random generators in a nested model, in augmentation and in dropout."""
    inputs = keras.Input((4, 4, 1), name="images")
    nested = keras.Sequential(
        [keras.Input((4, 4, 1)), layers.RandomFlip(), layers.GaussianNoise(0.1), layers.Flatten()]
    )
    x = layers.Dropout(0.5)(layers.Dense(4)(nested(inputs)))
    return keras.Model(inputs, layers.AlphaDropout(0.5)(GatedDense(3)(x)))


def search_model(seed=4):
    keras.utils.set_random_seed(seed)
    search = SearchModel(image_model())
    optimizers = keras.optimizers.SGD(0.1, momentum=0.9), keras.optimizers.Adam(0.01)
    search.compile(*optimizers, "mse", run_eagerly=True)
    return search


def fit_arguments(epochs=EPOCHS):
    generator = np.random.default_rng(3)
    return {
        "x": generator.normal(size=(16, 4, 4, 1)).astype("float32"),
        "y": generator.normal(size=(16, 3)).astype("float32"),
        "batch_size": 8,
        "shuffle": False,
        "verbose": 0,
        "epochs": epochs,
    }


def values(search):
    variables = [*search.variables, *search.optimizer.variables]
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


@pytest.fixture(scope="module")
def whole():
    """The state after one uninterrupted run."""
    search = search_model()
    assert len(generator_states(search)) == GENERATORS
    search.fit(**fit_arguments())
    return values(search)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with the files of a search before its last epoch."""
    folder, search = tmp_path_factory.mktemp("files"), search_model()
    search.fit(**fit_arguments(EPOCHS - 1))
    search.save(folder / "search.keras")
    search.save_weights(folder / "search.weights.h5")
    return folder


@pytest.mark.parametrize("name", ["search.keras", "search.weights.h5"])
def test_training_goes_on_to_the_bit(name, whole, files):
    if name == "search.keras":
        search = keras.saving.load_model(files / name)
    else:
        search = search_model(seed=5)
        search.load_weights(files / name)
    search.fit(**fit_arguments(), initial_epoch=EPOCHS - 1)
    for now, then in zip(values(search), whole, strict=True):
        np.testing.assert_array_equal(now, then)


def test_files_without_a_random_state_leave_it_as_it_is():
    search = search_model()
    before = [state.numpy() for state in generator_states(search)]
    load_random_state(search, {"architecture": np.zeros(3)})
    for state, value in zip(generator_states(search), before, strict=True):
        np.testing.assert_array_equal(state.numpy(), value)


def test_another_number_of_generators_is_left_out(tmp_path):
    """Training may go on without dropout, but not unnoticed."""
    search = search_model()
    before = [state.numpy() for state in generator_states(search)]
    with pytest.warns(UserWarning, match="a file of 2, model 'search_model.*' of 4"):
        load_random_state(search, {KEY: np.ones((2, 2))})
    for state, value in zip(generator_states(search), before, strict=True):
        np.testing.assert_array_equal(state.numpy(), value)
