"""Searches whose layers compute by frozen forms, beside the same search without them.

The search without them runs eagerly, so that it is the same with all options of a compiled one.
"""

import functools
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd.core import frozen_forms
from keras_xd.core.searchable import architecture_variables
from keras_xd.layers import XDConv1D
from keras_xd.training import SearchModel

FIT = {"batch_size": 4, "shuffle": False, "verbose": 0}


class WithoutForms(SearchModel):
    """A search whose train step is somebody else's, so that all is computed from variables."""

    def train_step(self, *args):
        return super().train_step(*args)


@keras.saving.register_keras_serializable(package="frozen_steps_test")
class Spied(XDConv1D):
    """An XD-operation that notes the form of every call."""

    seen = []

    def call(self, inputs):
        form = frozen_forms.form_of(self)
        Spied.seen.append(None if form is None else getattr(form, "name", "folded"))
        return super().call(inputs)


@pytest.fixture(autouse=True)
def seen():
    Spied.seen.clear()
    return Spied.seen


def data(samples=8):
    generator = np.random.default_rng(5)
    x = generator.normal(size=(samples, 3, 2)).astype("float32")
    return x, generator.normal(size=(samples, 3)).astype("float32")


def search_model(kind=SearchModel, warm_start="convolution", policy=None, **options):
    keras.utils.set_random_seed(4)
    layers = [
        keras.Input((3, 2)),
        Spied(3, 2, padding="same", use_bias=False, warm_start=warm_start, seed=1, dtype=policy),
        keras.layers.BatchNormalization(dtype=policy),
        keras.layers.GlobalAveragePooling1D(dtype=policy),
    ]
    model = keras.Sequential(layers)
    search = kind(model)
    options = {"warmup_epochs": 2, "jit_compile": False, **options}
    if kind is WithoutForms:
        options = {**options, "jit_compile": False, "run_eagerly": True}
    optimizers = keras.optimizers.SGD(0.05, momentum=0.9), keras.optimizers.SGD(0.02)
    search.compile(*optimizers, "mse", **options)
    return search


def train(search, epochs=4, callbacks=(), *, steps=2, **arguments):
    """Train, by two steps in every epoch."""
    if search.mode != "joint":
        arguments["architecture_split"] = 0.5
    x, y = data((4 if search.mode == "joint" else 8) * steps)
    arguments = {"validation_data": (x, y), **FIT, **arguments}
    return search.fit(x, y, epochs=epochs, callbacks=list(callbacks), **arguments).history


def assert_same(history, other, tolerance=1e-5):
    assert history.keys() == other.keys()
    for name, values in other.items():
        np.testing.assert_allclose(history[name], values, rtol=tolerance, atol=1e-6, err_msg=name)


def assert_same_variables(search, other, tolerance=1e-5):
    for one, two in zip(search.model.variables, other.model.variables, strict=True):
        np.testing.assert_allclose(one, two, rtol=tolerance, atol=1e-5, err_msg=one.path)


@functools.cache
def from_the_variables(steps, epochs, **options):
    """Return the history of a search without forms, and its variables."""
    Spied.seen.clear()
    plain = search_model(WithoutForms, warmup_epochs=1, **options)
    history = train(plain, epochs, steps=steps)
    assert set(Spied.seen) == {None}
    return history, plain


@pytest.mark.parametrize(
    ("options", "compiled"),
    [
        ({}, {"jit_compile": True}),
        ({}, {"steps_per_execution": 2}),
        ({}, {"run_eagerly": True}),
        ({"mode": "second_order"}, {"run_eagerly": True}),
        ({"warm_start": "random_unitary"}, {"run_eagerly": True}),
    ],
)
def test_training_is_that_from_the_variables(options, compiled):
    steps = 1 if options else 2
    expected, plain = from_the_variables(steps, 1 if "warm_start" in options else 2, **options)
    Spied.seen.clear()
    search = search_model(warmup_epochs=1, **options, **compiled)
    # `search_model_test` compiles the step after warm-up by XLA.
    epochs = 1 if "jit_compile" in compiled or "warm_start" in options else 2
    validated = {} if "run_eagerly" in compiled else {"validation_data": None}
    found = train(search, epochs, steps=steps, **validated)
    assert Spied.seen[0] is not None
    assert_same(found, {name: expected[name][:epochs] for name in found})
    if "jit_compile" not in compiled:
        assert_same_variables(search, plain)


def test_each_phase_is_traced_once(seen):
    search = search_model(warmup_epochs=2, cooldown_epochs=2)
    train(search, 6, steps=1)
    # A train and a test function for each phase.
    assert seen == ["convolution"] * 2 + [None] * 2 + ["folded"] * 2
    seen.clear()
    search.evaluate(*data(), verbose=0)
    search.predict(data()[0], verbose=0)
    search.predict(data()[0], verbose=0)
    assert set(seen) == {"folded"}
    seen.clear()
    search.fit(*data(), epochs=9, initial_epoch=7, **FIT)
    assert seen == ["folded"]  # cool-down again, in a new fit


@pytest.mark.parametrize(
    ("policy", "tolerance", "eager"),
    [("mixed_bfloat16", 3e-2, True), ("mixed_float16", 1e-2, False)],
)
def test_half_precision_with_loss_scaling(policy, tolerance, eager, seen):
    search, plain = (
        search_model(kind, policy=policy, run_eagerly=eager) for kind in (SearchModel, WithoutForms)
    )
    found = train(search, 1, steps=1)
    assert set(seen) == {"convolution"}
    assert_same(found, train(plain, 1, steps=1), tolerance)


def test_a_frozen_architecture_has_forms_in_every_function(seen):
    options = {"warmup_epochs": 0, "run_eagerly": True}
    search, plain = (search_model(kind, **options) for kind in (SearchModel, WithoutForms))
    for one in (search, plain):
        train(one, 1, steps=1, validation_data=None)
        keras_xd.freeze_architecture(one)
        one.compile("sgd", "sgd", "mse", jit_compile=False, run_eagerly=one is plain)
        seen.clear()
        history = train(one, 1, steps=1)
        outputs = one.predict(data()[0], verbose=0)
        if one is search:
            assert set(seen) == {"folded"}
            found = history, outputs
    assert_same(found[0], history)
    np.testing.assert_allclose(found[1], outputs, atol=1e-5)


def test_a_thawed_architecture_has_none(seen):
    search = keras_xd.freeze_architecture(search_model(warmup_epochs=0))
    search.predict(data()[0], verbose=0)
    assert set(seen) == {"convolution"}
    seen.clear()
    for variable in architecture_variables(search):
        variable.trainable = True
    search.predict(data()[0], verbose=0)
    assert set(seen) == {None}


def moved(search, amount=0.3, seed=7):
    """Change the architecture by assignment."""
    generator = np.random.default_rng(seed)
    for variable in architecture_variables(search):
        variable.assign_add(amount * generator.normal(size=variable.shape))


def loaded(search, tmp_path):
    other = search_model()
    moved(other)
    other.model.save_weights(tmp_path / "other.weights.h5")
    search.model.load_weights(tmp_path / "other.weights.h5")


def checkpointed(search, tmp_path):
    other = search_model()
    moved(other)
    path = tf.train.Checkpoint(model=other.model).write(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(model=search.model).restore(path).expect_partial()


CHANGES = {
    "assign": lambda search, _: moved(search),
    "set_weights": lambda search, _: search.set_weights([w * 1.1 for w in search.get_weights()]),
    "load_weights": loaded,
    "randomize": lambda search, _: keras_xd.randomize_architecture(search, seed=1),
    "checkpoint": checkpointed,
}


@pytest.mark.parametrize("change", CHANGES)
def test_no_prediction_uses_forms_of_another_architecture(change, tmp_path, seen):
    search, (x, _) = keras_xd.freeze_architecture(search_model()), data()
    before = search.predict_on_batch(x)
    assert set(seen) == {"convolution"}
    CHANGES[change](search, tmp_path)
    bare = keras.ops.convert_to_numpy(search(x))
    assert np.abs(bare - before).max() > 1e-2
    np.testing.assert_allclose(search.predict_on_batch(x), bare, atol=1e-5)


def test_no_function_uses_forms_of_another_architecture():
    """After changes in warm-up predictions, losses and training are those of the variables."""
    x, y = data()
    found = []
    for kind in (SearchModel, WithoutForms):
        search = search_model(kind, warmup_epochs=99)
        train(search, 1, steps=1, validation_data=None)
        moved(search)
        bare = keras.ops.convert_to_numpy(search(x))
        loss = search.evaluate(x, y, verbose=0)
        assert loss == pytest.approx(np.mean((bare - y) ** 2), rel=1e-4)
        losses = [search.train_on_batch(x[:4], y[:4])]
        moved(search)
        losses.append(search.train_on_batch(x[:4], y[:4]))
        found.append([losses, train(search, 1, steps=1)])
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    assert_same(found[0][1], found[1][1])


@pytest.mark.parametrize(
    ("mode", "when"),
    [
        ("joint", "train_batch_begin"),
        ("joint", "train_batch_end"),  # the last of an epoch too, before validation
        ("joint", "epoch_begin"),
        ("first_order", "train_batch_begin"),
    ],
)
def test_callbacks_may_change_the_architecture_at_any_time(mode, when):
    found, eager = [], when != "train_batch_end"
    for kind in (SearchModel, WithoutForms):
        search, times = search_model(kind, warmup_epochs=9, mode=mode, run_eagerly=eager), []

        def change(index, logs=None, search=search, times=times):
            if len(times) in (1, 3):
                moved(search, seed=len(times))
            times.append(index)

        # After the last batch of an epoch there is a validation.
        validation = {} if when == "train_batch_end" else {"validation_data": None}
        callback = keras.callbacks.LambdaCallback(**{f"on_{when}": change})
        if when != "epoch_begin":
            callback = keras.callbacks.Callback()
            setattr(callback, f"on_{when}", change)
        epochs, steps = (4, 1) if when == "epoch_begin" else (2, 2)
        found.append((train(search, epochs, [callback], steps=steps, **validation), search))
        assert len(times) == 4
    assert_same(found[0][0], found[1][0])
    assert_same_variables(found[0][1], found[1][1])


def test_a_layer_that_does_not_keep_still_is_retraced_once_in_a_fit(seen):
    search = search_model(warmup_epochs=9)
    callback = keras.callbacks.Callback()
    callback.on_train_batch_end = lambda batch, logs=None: moved(search, 0.01, batch)
    train(search, 4, [callback], validation_data=None)
    assert seen == ["convolution", None]


def test_evaluations_of_many_architectures_are_retraced_once(seen):
    search = search_model(warmup_epochs=9, run_eagerly=True)
    train(search, 1, steps=1)
    search.run_eagerly = False  # predictions are traced
    seen.clear()
    for seed in range(4):
        moved(search, 0.1, seed)
        bare = keras.ops.convert_to_numpy(search.model(data()[0]))
        seen.remove(None)
        np.testing.assert_allclose(search.predict(data()[0], verbose=0), bare, atol=1e-5)
    assert set(seen) == {None} and len(seen) <= 2


def test_numbers_that_are_not_finite_have_no_form(seen):
    search = search_model(warmup_epochs=9, run_eagerly=True)
    architecture_variables(search)[0].assign_add(np.nan)
    train(search, 1, steps=1, validation_data=None)
    assert set(seen) == {None}


def test_calls_outside_of_the_functions_of_keras_use_the_variables(seen):
    """A step that is compiled by its user has nobody to look after it."""
    search, (x, y) = search_model(warmup_epochs=9, run_eagerly=True), data()
    train(search, 1, steps=1)
    assert set(seen) == {"convolution"}
    seen.clear()
    search(x)
    search.test_step((x, y))
    step = tf.function(search.test_step)
    before = step((x, y))["loss"]
    assert set(seen) == {None}
    moved(search)
    search.reset_metrics()
    assert step((x, y))["loss"] != before


def test_a_step_of_a_subclass_may_change_the_architecture():
    class Pulled(SearchModel):
        def train_step(self, data):
            for variable in architecture_variables(self):
                variable.assign(0.9 * variable)
            return super().train_step(data)

    search = search_model(Pulled, warmup_epochs=9)
    eager = search_model(Pulled, warmup_epochs=9, run_eagerly=True)
    assert_same(*(train(one, 1, validation_data=None) for one in (search, eager)))


def test_warm_up_resumes_to_the_same_losses(tmp_path, seen):
    search = search_model(run_eagerly=True)
    train(search, 1, steps=1, validation_data=None)
    search.save(tmp_path / "search.keras")
    rest = train(search, 2, steps=1, validation_data=None)
    seen.clear()
    again = keras.saving.load_model(tmp_path / "search.keras")
    assert set(seen) <= {None}
    assert train(again, 2, steps=1, validation_data=None) == rest
    assert {"convolution", None} <= set(seen)


def test_a_backup_is_restored_after_the_functions_are_made(tmp_path, seen, cut=2):
    """`BackupAndRestore` loads the weights of a cool-down when the train function exists."""
    options = {"warmup_epochs": 0, "cooldown_epochs": 2, "run_eagerly": True}

    def copy(epoch, logs=None):
        if epoch == cut:  # what a process that is killed now would leave
            shutil.copytree(tmp_path / "backup", tmp_path / "left")

    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    copying = keras.callbacks.LambdaCallback(on_epoch_begin=copy)
    whole = train(search_model(**options), 3, [backup, copying], steps=1, validation_data=None)
    seen.clear()
    backup = keras.callbacks.BackupAndRestore(tmp_path / "left")
    rest = train(search_model(**options), 3, [backup], steps=1)
    assert set(seen) == {"folded"}
    assert rest["loss"] == whole["loss"][cut:]


def test_callbacks_of_the_package_work_in_warm_up(tmp_path, monkeypatch):
    monkeypatch.setattr(keras_xd.visualization, "spectra", lambda *arguments: None)
    callbacks = [
        keras_xd.callbacks.TerminateOnNonFinite(),
        keras_xd.callbacks.CollapseGuard(),
        keras_xd.callbacks.WarmRestarts(1, learning_rate=0.01, seed=0),
        keras_xd.callbacks.ArchitectureBoard(tmp_path),
    ]
    search, plain = (
        search_model(kind, warmup_epochs=1, run_eagerly=True)
        for kind in (SearchModel, WithoutForms)
    )
    assert_same(*(train(one, 2, callbacks[:n], steps=1) for one, n in ((search, 4), (plain, 3))))


@pytest.mark.backends
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_forms_on_all_backends(backend, on_backends):
    found = on_backends[backend]["frozen"]
    if backend == "tensorflow":
        assert found["forms"] == ["convolution"]
        np.testing.assert_allclose(*found["mirrored"], rtol=1e-4, atol=1e-5)
        return
    assert found["forms"] == ["convolution", "folded"]
    assert len(found["kinds"]) == 8 and max(found["kinds"].values()) < 1e-5
    for name in ("losses", "outputs"):
        ours, theirs = found[name]
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5, err_msg=name)
