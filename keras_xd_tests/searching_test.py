"""A whole search in one call."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd.searching import SearchReport, SearchReportRow
from keras_xd.training.search_model import SearchModel

EAGER = {"run_eagerly": True}
LOSS = "sparse_categorical_crossentropy"


def backbone():
    return keras.Sequential(
        [
            keras.Input((9, 1), name="signal"),
            keras.layers.Conv1D(4, 3, activation="relu", name="conv"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(3, activation="softmax"),
        ],
        name="backbone",
    )


def data(rng, samples=12):
    return rng.normal(size=(samples, 9, 1)).astype("float32"), rng.integers(3, size=samples)


def test_one_call_is_the_long_road(rng):
    x, y = data(rng)
    model = backbone()
    model.compile("adam", LOSS, metrics=["accuracy"])
    weights = [weight.numpy() for weight in model.weights]
    keras.utils.set_random_seed(1)
    result = keras_xd.search(model, x, y, epochs=2, batch_size=4, verbose=0)
    keras.utils.set_random_seed(1)
    long = SearchModel(keras_xd.rewrite(model))
    long.compile("adam", keras.optimizers.Adam(1e-3), LOSS, ["accuracy"], **EAGER)
    history = long.fit(x, y, epochs=2, batch_size=4, verbose=0)
    np.testing.assert_allclose(result.history.history["loss"], history.history["loss"], rtol=1e-5)
    np.testing.assert_allclose(
        result.model.predict(x, verbose=0), long.predict(x, verbose=0), rtol=1e-3, atol=1e-5
    )
    # What was given is as it was.
    assert all(np.array_equal(w, v.numpy()) for w, v in zip(weights, model.weights, strict=True))
    assert isinstance(result.search, SearchModel)
    assert not keras_xd.architecture_variables(result.model)


def test_report_compares_the_three(rng, capsys):
    x, y = data(rng)
    model = backbone()
    model.compile("adam", LOSS, metrics=["accuracy"], run_eagerly=True)
    result = keras_xd.search(
        model, x, y, epochs=1, validation_data=(x, y), verbose=2, compile_options=EAGER
    )
    before, searched, plain = result.report.rows
    assert [row.model for row in result.report.rows] == ["backbone", "search", "finalized"]
    loss, accuracy = model.evaluate(x, y, verbose=0)
    assert before.metrics == pytest.approx({"loss": loss, "accuracy": accuracy}, rel=1e-5)
    assert before.parameters == model.count_params()
    assert before.multiply_adds == keras_xd.complexity(model)
    assert searched.parameters == result.search.model.count_params()
    assert searched.multiply_adds == plain.multiply_adds == keras_xd.complexity(result.search)
    assert plain.metrics == pytest.approx(searched.metrics, rel=1e-4)
    assert plain.metrics == pytest.approx(
        result.model.evaluate(x, y, verbose=0, return_dict=True), rel=1e-5
    )
    assert str(result.report) in capsys.readouterr().out
    assert result.report.to_dict()["rows"][0]["model"] == "backbone"


def test_losses_are_compared_without_the_penalties_of_weights(rng):
    x, y = data(rng)
    signal = keras.Input((9, 1))
    hidden = keras.layers.Conv1D(4, 3, kernel_regularizer=keras.regularizers.L2(5.0))(signal)
    model = keras.Model(signal, keras.layers.GlobalAveragePooling1D()(hidden))
    names = ("optimizer", "architecture_optimizer")
    optimizers = {name: keras.optimizers.SGD(0.0) for name in names}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    target = 2 * keras_xd.complexity(keras_xd.rewrite(model))
    result = keras_xd.search(
        model,
        x,
        y,
        epochs=1,
        validation_data=(x, y),
        loss=loss,
        verbose=0,
        compile_options={"complexity_target": target, "complexity_weight": 1.0},
        **optimizers,
    )
    expected = float(loss(y, model(x)))
    for row in result.report.rows:
        assert row.metrics["loss"] == pytest.approx(expected, rel=1e-4)


def test_data_sets_options_and_modes(rng):
    x, y = data(rng)
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(6)
    result = keras_xd.search(
        backbone(),
        batches,
        epochs=1,
        to="darts",
        loss=LOSS,
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="hits")],
        mode="first_order",
        architecture_validation_data=batches,
        validation_data=batches,
        rewrite_options={"other_weight": 0.2},
        compile_options={**EAGER, "cooldown_epochs": 0},
        verbose=0,
    )
    assert result.search.mode == "first_order"
    assert set(result.report.rows[0].metrics) == {"loss", "hits"}
    assert type(result.search.get_layer("conv")).__name__ == "MixedOperation1D"


def test_a_search_space_is_searched_as_it_is(rng):
    x, y = data(rng)
    space = keras_xd.rewrite(backbone())
    result = keras_xd.search(space, x, y, epochs=1, loss=LOSS, verbose=0, compile_options=EAGER)
    assert result.search.model is space
    with pytest.raises(ValueError, match="not rewritten. Received: to='xd', rewrite_options="):
        keras_xd.search(space, x, y, epochs=1, loss=LOSS, rewrite_options={"depth": 2})


def test_subclassed_models_are_searched_too(rng):
    class Model(keras.Model):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.convolution = keras.layers.Conv1D(3, 9, activation="softmax", name="conv")

        def call(self, inputs):
            return self.convolution(inputs)[:, 0]

    x, y = data(rng)
    model = Model()
    model(x)
    result = keras_xd.search(
        model, x, y, epochs=1, loss=LOSS, validation_data=(x, y), verbose=0, compile_options=EAGER
    )
    assert type(result.model).__name__ == "SubclassedModelWrapper"
    rows = result.report.rows
    assert rows[2].metrics == pytest.approx(rows[1].metrics, rel=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": None}, "`model` must be a Keras model. Received: model=None"),
        ({"epochs": 0}, "`epochs` must be an integer of at least 1. Received: epochs=0"),
        ({"loss": None}, "`compile` needs `loss`"),
        ({"to": "nowhere"}, "`to` must be one of"),
        ({"mode": "nothing"}, "`mode` must be one of"),
        ({"rewrite_options": 3}, "`rewrite_options` must be.*rewrite_options=3"),
        ({"rewrite_options": {"to": "xd"}}, r"must not have.*Received: rewrite_options with \['to"),
        ({"compile_options": {"loss": "mse"}}, r"Received: compile_options with \['loss'\]"),
        ({"compile_options": {"warmup_epochs": 2}}, "leave an epoch.*Received: epochs=2"),
        ({"compile_options": {"cooldown_epochs": -1}}, "`cooldown_epochs` must be an integer"),
        ({"validation_data": iter(())}, "must be able to be read several times"),
    ],
)
def test_wrong_arguments(arguments, message, rng):
    x, y = data(rng)
    arguments = {"model": backbone(), "epochs": 2, "loss": LOSS, "verbose": 0, **arguments}
    with pytest.raises(ValueError, match=message):
        keras_xd.search(arguments.pop("model"), x, y, **arguments)


def test_table():
    rows = (
        SearchReportRow("backbone", 1234, None, {"loss": 1.23456}),
        SearchReportRow("search", 5, 60, {"loss": 1.0, "complexity": 0.5}),
    )
    assert str(SearchReport(rows)).splitlines() == [
        "model     parameters  multiply–adds  val_loss  val_complexity",
        "--------  ----------  -------------  --------  --------------",
        "backbone  1,234       ?              1.235",
        "search    5           60             1         0.5",
    ]


@pytest.mark.parametrize("steps", [1, 2])
def test_a_search_ends_at_the_first_loss_that_is_not_finite(rng, steps):
    x, y = data(rng)
    x[4:8] = 3e38  # sums of it overflow
    model, seen = backbone(), []
    model.compile("sgd", LOSS)
    with pytest.raises(ValueError, match="epoch 1, batch 2: loss = nan, .*layers 'conv'.*rates"):
        keras_xd.search(
            model,
            x,
            y,
            epochs=3,
            batch_size=4,
            shuffle=False,
            verbose=0,
            callbacks=keras.callbacks.LambdaCallback(
                on_train_batch_end=lambda batch, logs: seen.append(batch)
            ),
            compile_options={"steps_per_execution": steps},
        )
    assert seen[-1] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 3}, r"give it as rewrite_options=\{'depth': 3\}"),
        ({"warmup_epochs": 1}, r"give it as compile_options=\{'warmup_epochs': 1\}"),
        ({"snap": 0.1}, r"give it as finalize_options=\{'snap': 0.1\}"),
        ({"finalize_options": {"depth": 3}}, r"Received: finalize_options=\{'depth': 3\}"),
        ({"finalize_options": {"form": "all"}}, "`form` must be one of"),
        ({"to": "masked"}, "A search of masks needs a `complexity_target`"),
    ],
)
def test_options_are_checked_before_training(options, message, rng):
    x, y = data(rng)
    with pytest.raises(ValueError, match=message):
        keras_xd.search(backbone(), x, y, epochs=1, loss=LOSS, **options)
