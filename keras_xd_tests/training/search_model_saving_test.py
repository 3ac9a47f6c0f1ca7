"""`SearchModel` saved, loaded and resumed: to the same losses, or refused."""

import keras
import numpy as np
import pytest

from keras_xd.core.searchable import architecture_variables
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import GatedDense, classification_data, small_model

LOSS = "sparse_categorical_crossentropy"
FIT = {"batch_size": 8, "shuffle": False, "verbose": 0}
EPOCHS = 4


def search_model(warmup_epochs=2, seed=4):
    """Return a search whose two groups have a schedule each, and slots to lose.

    Its steps run eagerly, which is faster than making a graph of each model.
    """
    keras.utils.set_random_seed(seed)
    search = SearchModel(small_model())
    schedules = keras.optimizers.schedules
    search.compile(
        keras.optimizers.Adam(schedules.ExponentialDecay(0.02, 2, 0.9)),
        keras.optimizers.SGD(schedules.CosineDecay(0.1, 12), momentum=0.9),
        LOSS,
        metrics=["accuracy"],
        warmup_epochs=warmup_epochs,
        complexity_target=10.0,
        complexity_weight=0.1,
        run_eagerly=True,
    )
    return search


@pytest.fixture(scope="module")
def whole():
    """The losses of one uninterrupted run, and the architecture it found."""
    search = search_model()
    found = losses(search, EPOCHS)
    return found, architecture_variables(search)[0].numpy()


class Interruption(keras.callbacks.Callback):
    """Stops training as a killed process would, before one epoch or one batch."""

    def __init__(self, epoch, batch=None):
        super().__init__()
        self.at = (epoch, batch)

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        if self.at == (epoch, None):
            raise KeyboardInterrupt

    def on_train_batch_begin(self, batch, logs=None):
        if self.at == (self.epoch, batch):
            raise KeyboardInterrupt


def losses(search, epochs, **arguments):
    return search.fit(*classification_data(16), epochs=epochs, **FIT, **arguments).history["loss"]


def test_keras_file_resumes_to_the_same_losses(whole, tmp_path):
    search = search_model()
    first = losses(search, 1)
    search.save(tmp_path / "search.keras")
    loaded = keras.saving.load_model(tmp_path / "search.keras")
    assert isinstance(loaded, SearchModel)
    assert first + losses(loaded, EPOCHS - 1) == whole[0]
    np.testing.assert_array_equal(architecture_variables(loaded)[0].numpy(), whole[1])


# In the warm-up, where it ends, and behind it; where a number follows, within the epoch.
@pytest.mark.parametrize("cut", [(2, None), (1, 1), (3, 1)])
def test_backup_and_restore_resumes_to_the_same_losses(cut, whole, tmp_path):
    epoch, _ = cut
    history = keras.callbacks.History()
    with pytest.raises(KeyboardInterrupt):
        losses(
            search_model(),
            EPOCHS,
            callbacks=[
                keras.callbacks.BackupAndRestore(tmp_path / "backup"),
                history,
                Interruption(*cut),
            ],
        )
    resumed = search_model(seed=5)
    rest = losses(
        resumed, EPOCHS, callbacks=[keras.callbacks.BackupAndRestore(tmp_path / "backup")]
    )
    assert history.history["loss"] == whole[0][:epoch]
    assert rest == whole[0][epoch:]
    np.testing.assert_array_equal(architecture_variables(resumed)[0].numpy(), whole[1])


def test_a_search_loads_where_training_differs(tmp_path):
    """A regularizer or another class of sequence in a configuration is no other architecture."""

    class Listed(GatedDense):
        sizes = ()

        def get_config(self):
            return {**super().get_config(), "sizes": self.sizes, "penalty": self.penalty}

    def search_model(sizes, penalty):
        layer = Listed(5)
        layer.sizes, layer.penalty = sizes, penalty
        return SearchModel(keras.Sequential([keras.Input((4,)), layer]))

    search_model((1, (2, 3)), None).save_weights(tmp_path / "search.weights.h5")
    search_model([1, [2, 3]], {"l2": 0.1}).load_weights(tmp_path / "search.weights.h5")
    with pytest.raises(ValueError, match=r"file \['sizes=\(1, \(2, 3\)\)'\], model"):
        search_model([1, [3, 2]], None).load_weights(tmp_path / "search.weights.h5")


def model_of(*layers):
    return keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(3, name="head")])


def gated(units=5, name="gated"):
    return GatedDense(units, name=name)


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ([gated(6)], r"'gated', file \['units=6', 'kernel: \(4, 6\)'.*model \['units=5', 'kernel"),
        ([gated(), gated(name="gated_again")], r"2 searchable layers, model 1"),
        ([keras.layers.Dense(5, name="gated")], r"no record of a search"),
    ],
)
def test_weights_of_another_architecture_are_refused(saved, message, tmp_path):
    """Also those with more layers, which Keras loads without a word."""
    model = model_of(*saved)
    if isinstance(saved[0], GatedDense):
        model = SearchModel(model)
    model.save_weights(tmp_path / "other.weights.h5")
    search = SearchModel(model_of(gated()))
    with pytest.raises(ValueError, match=f"(?s)could not be loaded.*{message}"):
        search.load_weights(tmp_path / "other.weights.h5")
