"""A diverged training stops, and leaves the model and its optimizers as they last were good."""

import keras
import numpy as np
import pytest

from keras_xd.training.callbacks import TerminateOnNonFinite
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import GatedDense, classification_data, gated_search

# `pytest.warns` also finds what Keras itself warns of when it reads a variable.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

FIT = {"batch_size": 2, "shuffle": False, "verbose": 0}


def data(samples=8):
    x, y = classification_data(samples)
    return x, y[:, None].astype("float32")


def state(search):
    return [v.numpy().copy() for v in [*search.variables, *search.optimizer.variables]]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


class Spoiler(keras.callbacks.Callback):
    """Sets the bias to NaN before one batch, and keeps the state at the end of every epoch."""

    def __init__(self, epoch, batch, value=np.nan):
        super().__init__()
        self.at, self.value, self.ends = (epoch, batch), value, []

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        if (self.epoch, batch) == self.at:
            self.model.model.layers[0].bias.assign([self.value])

    def on_epoch_end(self, epoch, logs=None):
        self.ends.append(state(self.model))


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({}, np.nan),
        ({}, 1e30),
        ({"steps_per_execution": 2}, np.nan),
        ({"mode": "second_order"}, np.nan),
    ],
)
def test_the_state_of_the_last_good_epoch_is_put_back(options, value):
    search = gated_search(**options)
    spoiler, guard = Spoiler(2, 2, value), TerminateOnNonFinite()
    arguments = {} if search.mode == "joint" else {"architecture_validation_split": 0.5}
    name = "loss" if search.mode == "joint" else "(architecture_loss|loss)"
    with pytest.warns(UserWarning, match=rf"epoch 3, batch [34]: .*{name} = (nan|inf).*put back"):
        samples = 8 if search.mode == "joint" else 16
        history = search.fit(
            *data(samples), epochs=9, callbacks=[spoiler, guard], **arguments, **FIT
        ).history
    assert len(history["loss"]) == 3 and guard.stopped_epoch == 2
    assert np.all(np.isfinite(history["loss"][:2])) and not np.isfinite(history["loss"][2])
    assert same(state(search), spoiler.ends[1])
    assert int(search.search_optimizer.epochs) == 2


def test_training_goes_on_with_the_epoch_that_was_cut_short():
    whole = gated_search()
    expected = whole.fit(*data(), epochs=4, **FIT).history["loss"]
    search = gated_search()
    with pytest.warns(UserWarning, match="epoch 3, batch 1"):
        guard = TerminateOnNonFinite()
        first = search.fit(*data(), epochs=4, callbacks=[Spoiler(2, 0), guard], **FIT)
    rest = search.fit(*data(), epochs=4, initial_epoch=2, callbacks=[guard], **FIT)
    assert first.history["loss"][:2] + rest.history["loss"] == expected
    assert guard.stopped_epoch is None
    assert same(state(search), state(whole))


def test_only_the_loss_of_the_architecture_data_is_not_finite():
    x, y = data(16)
    y[15] = 3e38  # its square overflows
    search = gated_search(mode="first_order", warmup_epochs=9)
    with pytest.warns(UserWarning, match="epoch 1, batch 4: architecture_loss = inf;"):
        search.fit(
            x, y, architecture_validation_split=0.5, callbacks=[TerminateOnNonFinite()], **FIT
        )
    guard = TerminateOnNonFinite(losses=["loss"])
    with pytest.warns(UserWarning, match="diverged in epoch 1: architecture_loss = inf"):
        search.fit(x, y, architecture_validation_split=0.5, callbacks=[guard], **FIT)
    assert guard.stopped_epoch is None


def test_variables_are_looked_at_where_no_loss_tells():
    """The step of the last batch spoils the bias, after that batch's loss was computed."""

    class Late(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 3:
                self.model.model.layers[0].bias.assign([np.inf])

    search = gated_search()
    start = state(search)
    with pytest.warns(UserWarning, match="in epoch 1: variables of the model are not finite; the"):
        search.fit(*data(), epochs=3, callbacks=[Late(), TerminateOnNonFinite()], **FIT)
    assert same(state(search), start)


def test_a_file_is_never_replaced_without_being_asked(tmp_path):
    path = tmp_path / "good.keras"
    path.write_text("precious")
    search = gated_search()
    with pytest.raises(ValueError, match="never overwrites unless `overwrite=True`.*good.keras"):
        search.fit(*data(), callbacks=[TerminateOnNonFinite(path)], **FIT)
    path.unlink()

    class Other(Spoiler):
        def on_train_begin(self, logs=None):
            path.write_text("precious")

    with pytest.warns(UserWarning, match="not saved to '.*', where there is a file by now"):
        search.fit(*data(), callbacks=[TerminateOnNonFinite(path), Other(0, 1)], **FIT)
    assert path.read_text() == "precious"
    with pytest.warns(UserWarning, match="saved to"):
        guard = TerminateOnNonFinite(path, overwrite=True)
        search.fit(*data(), callbacks=[guard, Spoiler(0, 1)], **FIT)
    assert isinstance(keras.saving.load_model(path), SearchModel)


def test_gradients_that_overflow_under_loss_scaling_do_not_stop():
    keras.utils.set_random_seed(4)
    search = SearchModel(
        keras.Sequential([keras.Input((4,)), GatedDense(1)]), dtype="mixed_float16"
    )
    search.compile("sgd", "sgd", "mse", jit_compile=False)
    search.optimizer.dynamic_scale.assign(3e38)
    guard = TerminateOnNonFinite()
    search.fit(*data(), epochs=2, callbacks=[guard], **FIT)
    assert guard.stopped_epoch is None
    assert float(search.optimizer.dynamic_scale) < 3e38


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "good.h5"}, "`path` must end in '.keras' or '.weights.h5'.*'good.h5'"),
        ({"overwrite": "yes"}, "`overwrite` must be one of True, False"),
        ({"losses": "loss"}, "`losses` must be a list of names.*'loss'"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        TerminateOnNonFinite(**arguments)
