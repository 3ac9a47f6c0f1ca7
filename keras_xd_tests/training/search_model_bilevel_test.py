"""`SearchModel.fit` in its bilevel modes: data, options, warm-up, files, wrong arguments."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd.core.searchable import architecture_variables
from keras_xd.training import bilevel
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import classification_data, gated_model, small_model

LOSS = "sparse_categorical_crossentropy"
FIT = {"batch_size": 4, "shuffle": False, "verbose": 0}


def search_model(mode="second_order", seed=4, make=gated_model, **options):
    keras.utils.set_random_seed(seed)
    search = SearchModel(make())
    options = {"metrics": ["accuracy"], "run_eagerly": True, **options}
    optimizers = (
        keras.optimizers.SGD(0.1, momentum=0.9),
        keras.optimizers.SGD(0.1, momentum=0.5),
    )
    search.compile(*optimizers, LOSS, mode=mode, **options)
    return search


def fit(search, **arguments):
    """Fit to 10 training and 6 architecture samples, in batches of 4."""
    x, y = classification_data(16)
    arguments = {"architecture_validation_data": (x[10:], y[10:]), **FIT, **arguments}
    return search.fit(x[:10], y[:10], **arguments).history


class Batches(keras.utils.PyDataset):
    def __init__(self, x, y, **kwargs):
        super().__init__(**kwargs)
        self.x, self.y = x, y

    @property
    def num_batches(self):
        return -(-len(self.x) // 8)

    def __getitem__(self, index):
        part = slice(8 * index, 8 * index + 8)
        return self.x[part], self.y[part]


def test_ways_to_give_the_data_agree():
    x, y = classification_data(16)
    options = {**FIT, "batch_size": 8}
    expected = fit(search_model("first_order", make=small_model), **options)
    assert set(expected) == {"loss", "accuracy", "architecture_loss", "architecture_change"}

    def dataset(x, y):
        return tf.data.Dataset.from_tensor_slices((x, y)).batch(8)

    held_out = x[10:], y[10:]
    for data, given in [
        ((x, y), {"architecture_validation_split": 0.375}),
        ((dataset(x[:10], y[:10]),), {"architecture_validation_data": dataset(*held_out)}),
        ((Batches(x[:10], y[:10]),), {"architecture_validation_data": list(held_out)}),
    ]:
        assert (
            search_model("first_order", make=small_model).fit(*data, **given, **options).history
            == expected
        )


def test_other_arguments_of_fit():
    x, y = classification_data(20)
    weights, options = np.linspace(0.5, 2.0, 20), {**FIT, "batch_size": 8}
    first = search_model("first_order", make=small_model).fit(
        x,
        y,
        sample_weight=weights,
        validation_split=0.2,
        architecture_validation_split=0.5,
        **options,
    )
    second = search_model("first_order", make=small_model).fit(
        x[:8],
        y[:8],
        sample_weight=weights[:8],
        validation_data=(x[16:], y[16:], weights[16:]),
        architecture_validation_data=(x[8:16], y[8:16], weights[8:16]),
        **options,
    )
    assert first.history == second.history
    assert "val_loss" in first.history and "val_architecture_loss" not in first.history
    by_class = {0: 0.5, 1: 2.0, 2: 1.0}
    third = search_model("first_order", make=small_model).fit(
        x[:16], y[:16], class_weight=by_class, architecture_validation_split=0.5, **options
    )
    weights = np.array([by_class[int(label)] for label in y[:16]], "float32")
    fourth = search_model("first_order", make=small_model).fit(
        x[:16], y[:16], sample_weight=weights, architecture_validation_split=0.5, **options
    )
    assert third.history == fourth.history


@pytest.mark.parametrize("mode", bilevel.MODES)
def test_warmup_trains_the_weights_alone(mode):
    search = search_model(mode, warmup_epochs=1)
    optimizer = search.search_optimizer.architecture_optimizer
    variables = [*architecture_variables(search), *optimizer.variables]
    before = [variable.numpy() for variable in variables]
    ours = fit(search, batch_size=5)
    for old, variable in zip(before, variables, strict=True):
        np.testing.assert_array_equal(variable.numpy(), old)
    keras.utils.set_random_seed(4)
    twin = gated_model()
    architecture_variables(twin)[0].trainable = False
    twin.compile(
        keras.optimizers.SGD(0.1, momentum=0.9), LOSS, metrics=["accuracy"], run_eagerly=True
    )
    x, y = classification_data(16)
    theirs = twin.fit(x[:10], y[:10], **{**FIT, "batch_size": 5}).history
    assert {name: ours[name] for name in theirs} == theirs
    assert len(ours["architecture_loss"]) == 1
    for a, b in zip(search.model.variables, twin.variables, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    fit(search, batch_size=5)
    assert int(optimizer.iterations.numpy()) == 2
    assert int(search.search_optimizer.iterations.numpy()) == 4
    assert not np.any(variables[0].numpy() == 1.0)


def test_bad_input():
    x, y = classification_data(8)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
    search = search_model()
    held_out = {"architecture_validation_data": (x, y)}
    for arguments, message in [
        (
            {"x": x, "y": y},
            "'second_order' needs either `architecture_validation_data` or.*neither",
        ),
        ({"x": x, "y": y, "architecture_validation_split": 0.5, **held_out}, "needs either.*both"),
        (
            {"x": data, "architecture_validation_split": 0.5},
            "`architecture_validation_split` divides arrays.*Dataset",
        ),
        ({"x": data, "validation_split": 0.5, **held_out}, "`validation_split` divides arrays"),
        ({"x": data, "y": y, **held_out}, "dataset must hold its targets"),
    ]:
        with pytest.raises(ValueError, match=message):
            search.fit(**arguments, verbose=0)
    for option in (held_out, {"architecture_validation_split": 0.5}):
        with pytest.raises(ValueError, match="are for the bilevel modes. Received: mode='joint'"):
            search_model("joint").fit(x, y, **option)


def test_what_several_devices_cannot_do_is_refused(monkeypatch):
    x, y = classification_data(8)
    searches = search_model(), search_model()
    searches[1].optimizer = keras.optimizers.LossScaleOptimizer(searches[1].optimizer)

    class Two:
        num_replicas_in_sync = 2

    monkeypatch.setattr(SearchModel, "distribute_strategy", Two())
    with pytest.raises(ValueError, match="multiple of the number of devices.*3 samples.*2 devices"):
        searches[0].fit(x, y, architecture_validation_split=0.5, batch_size=3)
    with pytest.raises(ValueError, match="without dynamic loss scaling.*2 devices, optimizer=Loss"):
        searches[1].fit(x, y, architecture_validation_split=0.5)
