"""`SearchModel`: arguments, warm-up, the complexity term, and what Keras' training gives."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd.core.searchable import architecture_variables, model_variables
from keras_xd.training.optimizers import architecture_optimizer
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import GatedDense, classification_data, gated_model

LOSS = "sparse_categorical_crossentropy"
FIT = {"batch_size": 8, "shuffle": False, "verbose": 0}


def search_model(seed=4, **compile_arguments):
    keras.utils.set_random_seed(seed)
    search = SearchModel(gated_model())
    arguments = {
        "optimizer": keras.optimizers.Adam(0.01),
        "architecture_optimizer": keras.optimizers.SGD(0.05, momentum=0.9),
        "loss": LOSS,
        **compile_arguments,
    }
    search.compile(**arguments)
    return search


def plain_model(seed=4):
    keras.utils.set_random_seed(seed)
    model = gated_model()
    optimizer = architecture_optimizer(
        model, keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.05, momentum=0.9)
    )
    model.compile(optimizer=optimizer, loss=LOSS)
    return model


def architecture_state(search):
    """Return copies of the architecture and of everything its optimizer keeps."""
    variables = architecture_variables(search)
    variables = variables + search.search_optimizer.architecture_optimizer.variables
    return [variable.numpy().copy() for variable in variables]


def equal(before, after):
    return [np.array_equal(b, a) for b, a in zip(before, after, strict=True)]


def test_equals_plain_fit_with_the_architecture_optimizer():
    x, y = classification_data()
    plain, search = plain_model(), search_model()
    expected = plain.fit(x, y, **FIT).history["loss"]
    assert search.fit(x, y, **FIT).history["loss"] == expected
    assert all(equal([v.numpy() for v in plain.weights], [v.numpy() for v in search.weights]))
    np.testing.assert_array_equal(search.predict(x, verbose=0), plain.predict(x, verbose=0))
    assert search.evaluate(x, y, verbose=0) == plain.evaluate(x, y, verbose=0)


@pytest.mark.parametrize(
    "options", [{"jit_compile": True, "steps_per_execution": 2}, {"run_eagerly": True}]
)
def test_warmup_keeps_the_architecture_and_its_optimizer_to_the_bit(options):
    x, y = classification_data(16)
    search = search_model(warmup_epochs=2, **options)
    before = architecture_state(search)
    weights = [variable.numpy() for variable in model_variables(search)]
    search.fit(x, y, epochs=1, **FIT)
    assert all(equal(before, architecture_state(search)))
    assert not any(equal(weights, [variable.numpy() for variable in model_variables(search)]))
    search.fit(x, y, epochs=1, **FIT)
    assert all(equal(before, architecture_state(search)))
    search.fit(x, y, epochs=1, **FIT)
    # Of what was fixed, only the learning rate is still the same.
    optimizer = search.search_optimizer.architecture_optimizer
    same = equal(before, architecture_state(search))
    assert same == [False] + [v.name == "learning_rate" for v in optimizer.variables]
    assert int(optimizer.iterations.numpy()) == 2
    assert int(search.search_optimizer.weights_optimizer.iterations.numpy()) == 6


def test_warmup_is_training_the_backbone_before_rewrite():
    x = np.random.default_rng(0).normal(size=(16, 6, 6, 2)).astype("float32")
    conv = keras.layers.Conv2D(3, 3, padding="same", activation="relu")
    layers = [keras.Input((6, 6, 2)), conv, keras.layers.Flatten(), keras.layers.Dense(2)]
    backbone = keras.Sequential(layers)
    searched, trained = keras_xd.rewrite(backbone), keras.models.clone_model(backbone)
    trained.set_weights(backbone.get_weights())
    search = SearchModel(searched)
    search.compile("sgd", "sgd", "mse", warmup_epochs=9, run_eagerly=True)
    trained.compile("sgd", "mse", run_eagerly=True)
    for model in (search, trained):
        model.fit(x, np.ones((16, 2)), **FIT)
    np.testing.assert_allclose(search(x), keras_xd.rewrite(trained)(x), atol=1e-5)
    np.testing.assert_allclose(searched.layers[0].kernel, trained.layers[0].kernel, atol=1e-5)


def test_joint_training_begins_after_warmup_with_the_first_rate_of_the_schedule():
    x, y = classification_data(16)
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([0], [0.5, 0.0])
    architecture = keras.optimizers.SGD(schedule)
    search = search_model(warmup_epochs=2, architecture_optimizer=architecture, run_eagerly=True)
    gates = architecture_variables(search)[0]
    seen = []
    search.fit(
        x,
        y,
        epochs=3,
        callbacks=keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: seen.append(gates.numpy())
        ),
        **FIT,
    )
    # Four steps of warm-up, then one step at rate 0.5, then none.
    steps = [i for i in range(1, len(seen)) if not np.array_equal(seen[i - 1], seen[i])]
    assert len(seen) == 6 and steps == [4]


def test_one_trace_a_phase():
    x, y = classification_data(16)
    search = search_model(warmup_epochs=2)
    layer = search.model.layers[0]
    layer.traces = 0
    traces = []
    for epochs in (3, 2):
        search.fit(
            x,
            y,
            epochs=epochs,
            callbacks=[
                keras.callbacks.LambdaCallback(
                    on_epoch_end=lambda epoch, logs: traces.append(layer.traces)
                )
            ],
            **FIT,
        )
    assert traces == [1, 1, 2, 2, 2]


def test_complexity_term_and_metric():
    x, y = classification_data()
    search = search_model(complexity_target=17.5, complexity_weight=2.0)
    # Four gates of one, each in front of five columns, and a Dense layer of 5 × 3: 35 is twice
    # the target.
    plain_loss = -np.mean(np.log(keras.ops.convert_to_numpy(search(x)))[np.arange(len(y)), y])
    logs = search.evaluate(x, y, verbose=0, return_dict=True)
    np.testing.assert_allclose(logs["loss"], plain_loss + 2.0 * 1.0, rtol=1e-6)
    assert logs["complexity"] == 2.0
    history = search.fit(x, y, epochs=20, validation_data=(x, y), validation_freq=20, **FIT).history
    assert history["complexity"][0] > 1.5
    assert abs(history["complexity"][-1] - 1.0) < 0.1
    assert {"complexity", "val_complexity"} <= set(history)


def test_gradient_of_the_complexity_term():
    search, plain = (
        search_model(
            architecture_optimizer=keras.optimizers.SGD(0.001), run_eagerly=True, **options
        )
        for options in ({"complexity_target": 5.0, "complexity_weight": 0.5}, {})
    )
    x, y = classification_data(8)
    search.fit(x, y, **FIT)
    plain.fit(x, y, **FIT)
    difference = architecture_variables(search)[0] - architecture_variables(plain)[0]
    # d/dg of 0.5 ((5 Σ g² + 15) / 5 - 1)² at g = 1 is 0.5 · 2 · 6 · 2.
    np.testing.assert_allclose(difference, -0.001 * 12.0 * np.ones(4), rtol=1e-3)


def test_frozen_architecture_trains_the_weights_only():
    x, y = classification_data()
    search = search_model(run_eagerly=True)
    gates = architecture_variables(search)[0]
    gates.trainable = False
    with pytest.raises(ValueError, match=r"Compile the model again after freezing.*gates"):
        search.fit(x, y, **FIT)
    search.compile(keras.optimizers.Adam(0.01), "sgd", LOSS, warmup_epochs=1, run_eagerly=True)
    weights = [variable.numpy() for variable in model_variables(search)]
    search.fit(x, y, epochs=2, **FIT)
    np.testing.assert_array_equal(gates.numpy(), np.ones(4))
    assert not any(equal(weights, [variable.numpy() for variable in model_variables(search)]))
    gates.trainable = True
    with pytest.raises(ValueError, match=r"Compile the model again after freezing.*gates"):
        search.fit(x, y, **FIT)


def test_bad_input():
    model = gated_model()
    search = SearchModel(model)
    good = {"optimizer": "adam", "architecture_optimizer": "adam", "loss": LOSS}
    for change, message in [
        ({"optimizer": "mse"}, "`optimizer` must be an optimizer, not a loss.*optimizer='mse'"),
        ({"architecture_optimizer": "mse"}, "not a loss.*architecture_optimizer='mse'"),
        ({"loss": None}, "`compile` needs `loss`.*loss=None"),
        ({"mode": "both"}, "`mode` must be one of 'joint'.*mode='both'"),
        ({"perturbation": 0}, "`perturbation` must be above 0.*perturbation=0"),
        ({"warmup_epochs": -1}, "`warmup_epochs` must be an integer.*warmup_epochs=-1"),
        ({"complexity_weight": 1}, "needs a `complexity_target`.*complexity_weight=1"),
    ]:
        with pytest.raises(ValueError, match=message):
            search.compile(**{**good, **change})
    adam = keras.optimizers.Adam()
    with pytest.raises(ValueError, match="the same object twice"):
        search.compile(adam, adam, LOSS)
    with pytest.raises(ValueError, match="You must call `compile"):
        search.fit(*classification_data())
    for wrong, message in [
        (keras.Sequential([GatedDense(2)]), "must be a built Keras model"),
        (None, "must be a built Keras model.*model=None"),
        (search, "must not be a SearchModel"),
        (keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]), "have searchable layers"),
    ]:
        with pytest.raises(ValueError, match=message):
            SearchModel(wrong)
