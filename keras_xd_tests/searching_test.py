"""A whole search in one call."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd import auto
from keras_xd.finalizing.report import SearchReport, SearchReportRow
from keras_xd.training import checks
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


def data(rng, samples=32):
    x = rng.normal(size=(samples, 9, 1)).astype("float32")
    return x, np.arange(samples) % 3


def test_one_call_is_the_long_road(rng):
    x, y = data(rng)
    model = backbone()
    model.compile("adam", LOSS, metrics=["accuracy"])
    weights = [weight.numpy() for weight in model.weights]
    keras.utils.set_random_seed(1)
    result = keras_xd.search(model, x, y, epochs=2, to="xd", batch_size=4, verbose=0)
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
        model,
        x,
        y,
        epochs=1,
        to="xd",
        validation_data=(x, y),
        verbose=2,
        compile_options=EAGER,
        finalize_options={"form": "spectrum"},
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
        to="xd",
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
    with pytest.raises(ValueError, match="not rewritten. Received: to='auto', rewrite_options="):
        keras_xd.search(space, x, y, epochs=1, loss=LOSS, rewrite_options={"depth": 2})


@pytest.mark.parametrize("to", ["xd", "k_operation"])
def test_a_mask_of_keras_is_refused_with_the_way_to_go(to):
    inputs = keras.Input((9, 1))
    with pytest.warns(UserWarning, match="does not support masking"):
        outputs = keras.layers.Conv1D(2, 3, name="conv")(keras.layers.Masking()(inputs))
    with pytest.raises(ValueError, match="second input.*Received: layer 'conv' with a mask"):
        keras_xd.rewrite(keras.Model(inputs, outputs), to=to)
    layer = keras_xd.layers.XDConv1D(2, 3)
    with pytest.raises(ValueError, match="second input"):
        layer(keras.layers.Masking()(inputs))
    with pytest.warns(UserWarning, match="does not support masking"):  # as files of version 0.2
        type(layer).from_config(layer.get_config())(keras.layers.Masking()(inputs))


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
        model, x, y, epochs=1, to="xd", loss=LOSS, validation_split=0.5, verbose=0, batch_size=16
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
    defaults = {"model": backbone(), "epochs": 2, "to": "xd", "loss": LOSS, "verbose": 0}
    arguments = {**defaults, **arguments}
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


@pytest.mark.parametrize("kept", [None, "xd"])
def test_a_model_that_grows_more_than_four_times_says_so(kept):
    def text(parameters):
        rows = ("backbone", 10), (kept or "finalized", parameters)
        rows = tuple(SearchReportRow(name, count, None, {}) for name, count in rows)
        return str(SearchReport(rows, kept, None))

    assert "4.1 times the parameters" in text(41) and '{"form": "low_rank"}' in text(41)
    assert "times" not in text(40)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_search_ends_at_the_first_loss_that_is_not_finite(rng, steps):
    x, y = data(rng)
    x[4:8] = np.nan
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
    model, seen = backbone(), []
    model.compile("sgd", LOSS)
    with pytest.raises(ValueError, match="epoch 1, batch 2: loss = nan, .*layers 'conv'.*rates"):
        keras_xd.search(
            model,
            batches,
            epochs=3,
            to="xd",
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
        ({"budget": 3.0}, "`budget` are for to='auto'. Received: to='xd'"),
        ({"to": "auto", "rewrite_options": {"depth": 3}}, r"name the space.*\{'depth': 3\}"),
        ({"to": "auto", "mode": "alternating"}, "name the space.*{'mode': 'alternating'}"),
        ({"to": "auto", "compile_options": {"complexity_target": 9}}, "name the space"),
        (
            {"to": "auto", "budget": 1.5, "validation_split": 0.5, "batch_size": 8},
            r"`budget` must pay for .* 3.2 plain trainings",
        ),
    ],
)
def test_options_are_checked_before_training(options, message, rng):
    x, y = data(rng)
    with pytest.raises(ValueError, match=message):
        keras_xd.search(backbone(), x, y, **{"epochs": 1, "to": "xd", "loss": LOSS, **options})


def dense_backbone():
    return keras.Sequential(
        [
            keras.Input((9, 1)),
            keras.layers.Conv1D(4, 3, activation="relu", name="conv"),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )


class Interruption(keras.callbacks.Callback):
    """Ends a search in an epoch, counted over all its trainings."""

    def __init__(self, last=None):
        super().__init__()
        self.last, self.epochs = last, 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epochs += 1
        if self.epochs == self.last:
            raise KeyboardInterrupt


def test_auto_resumes_to_the_same_result(rng, tmp_path, capsys, monkeypatch):
    options = {"kernel_sizes": (3,), "dilations": (1, 3)}
    dash = auto.Candidate("dash", "dash", 0.1, 3.0, options, mixes=True)
    monkeypatch.setattr(auto, "SPACES", (dash,))
    x, y = data(rng, 48)
    model = dense_backbone()
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), LOSS, metrics=["accuracy"])
    weights = [weight.numpy() for weight in model.weights]

    def search(folder=None, last=None, **options):
        counter = Interruption(last)
        options = {"epochs": 2, "budget": 8, "seed": 3, "batch_size": 19, "verbose": 1, **options}
        result = keras_xd.search(
            model, x, y, folder=folder, callbacks=[counter], compile_options=EAGER, **options
        )
        return result, counter.epochs

    whole, epochs = search()
    text = capsys.readouterr().out
    assert all(np.array_equal(w, v.numpy()) for w, v in zip(weights, model.weights, strict=True))
    report = whole.report
    assert [row.model for row in report.rows] == ["backbone", "dash"]
    assert "trains the backbone for 2 epochs and the search spaces dash" in text.splitlines()[0]
    assert "6 plain trainings of the backbone, budget 8." in text.splitlines()[0]
    assert "12/12" in text and "s/epoch" in text and str(report) in text
    assert report.kept in report.reason and (whole.search is None) == (report.kept == "backbone")
    kept = next(row for row in report.rows if row.model == report.kept)
    assert kept.parameters == whole.model.count_params()
    for row in report.rows:
        assert (row.epochs, row.seeds, row.failed) == (2, 2, None)
        assert set(row.metrics) == {"loss", "accuracy"}
        assert row.milliseconds > 0 and row.seconds > 0
    folder = tmp_path / "search"
    with pytest.raises(KeyboardInterrupt):
        search(folder, last=4)  # where the plain model of the mixture is trained
    resumed, left = search(folder)
    assert left == epochs - 3
    for row, other in zip(report.rows, resumed.report.rows, strict=True):
        assert row.metrics == pytest.approx(other.metrics, rel=1e-5)
    expected = whole.model.predict(x, verbose=0)
    np.testing.assert_allclose(resumed.model.predict(x, verbose=0), expected, rtol=1e-4, atol=1e-6)
    again, none = search(folder)
    assert none == 0
    np.testing.assert_allclose(again.model.predict(x, verbose=0), expected, rtol=1e-4, atol=1e-6)
    assert again.history.history == resumed.history.history
    with pytest.raises(ValueError, match=r"other settings.*these differ: \['data', 'search'\]"):
        search(folder, seed=4)
    model.weights[0].assign(model.weights[0] + 1.0)
    with pytest.raises(ValueError, match=r"these differ: \['weights'\]"):
        search(folder)
    x[0] += 1.0
    with pytest.raises(ValueError, match=r"these differ: \['weights', 'data'\]"):
        search(folder)
    with pytest.raises(ValueError, match="`folder` must be new.*which has other files"):
        search(tmp_path)


def test_auto_knows_the_spaces_of_a_model(rng):
    def names(model):
        return [candidate.to for candidate in auto.candidates_for(model)]

    dense = keras.Sequential([keras.Input((9,)), keras.layers.Dense(16), keras.layers.Dense(2)])
    spaces = [*2 * ["xd"], *2 * ["k_operation"], "xd", "dash"]
    assert names(backbone()) == names(dense_backbone()) == spaces
    assert names(dense) == ["structured"]  # which is for models without convolutions
    (structured,) = auto.candidates_for(dense)
    kinds = [type(layer).__name__ for layer in structured.rewrite(dense).layers]
    assert kinds == ["MixedDense", "Dense"]  # outputs stay what they are
    pooling = keras.Sequential([keras.Input((9, 1)), keras.layers.GlobalAveragePooling1D()])
    with pytest.raises(ValueError, match="`model` must have a convolution"):
        keras_xd.search(pooling, *data(rng), epochs=1, loss=LOSS, batch_size=8)


@pytest.mark.parametrize("number", [6, 4, 1])
@pytest.mark.parametrize("epochs", [1, 2, 3, 7, 30, 200])
def test_schedules_keep_to_the_budget(number, epochs):
    spaces = auto.SPACES[:number]
    for budget in (4.0, 6.0, 8.0, 12.0):
        plan = auto.schedule(spaces, epochs, budget)
        assert plan.trainings <= budget
        assert 1 <= plan.spaces <= number and 1 <= plan.first <= max(1, epochs // 2)
        # What it costs, counted epoch by epoch, if the costliest space is the one that goes on.
        tried, spent = spaces[: plan.spaces], epochs
        for epoch in range(1, epochs + 1):
            mixing = 3 * (epoch - 1) < epochs  # the plain network of a mixture is trained later
            costs = [space.cost if mixing or not space.mixes else 1 for space in tried]
            spent += sum(costs) if epoch <= plan.first else max(costs)
            spent += (plan.seeds - 1) * (1 + max(space.cost for space in tried))
        assert plan.trainings == pytest.approx(spent / epochs)
        if epochs == 30:  # two spaces by default; then more of them or seeds
            count, seeds = {4.0: (2, 1), 6.0: (5, 1), 8.0: (3, 2), 12.0: (4, 3)}[budget]
            assert (plan.spaces, plan.seeds) == (min(count, number), seeds)
            assert 4 * plan.first >= epochs


def measured(values, accuracy):
    blocks = {"loss": values, "accuracy": accuracy}
    metrics = {name: float(np.mean(values)) for name, values in blocks.items()}
    return {"epochs": 8, "metrics": metrics, "blocks": blocks}


def run_of(record, seed=0, name="xd"):
    """Return a `Run` with a made-up record: a run that was read from a folder."""
    found = {"trained": [8], "history": {}, "seconds": 1.0, "failed": None, "measured": record}

    class Records:
        def read(self, name):
            return found

    return auto.Run(None, auto.Candidate(name), seed, Records(), None)


def test_a_space_is_kept_if_it_beats_the_backbone_by_two_standard_errors(rng):
    base, noise = rng.normal(size=20), rng.normal(size=20)
    backbones = [run_of(measured(base, np.ones(20)), seed) for seed in range(2)]

    def runs(*shifts):
        blocks = (base - shift + 0.1 * noise for shift in shifts)
        return [run_of(measured(part, np.ones(20)), n) for n, part in enumerate(blocks)]

    loss = auto.LOSS
    # The error is that of the differences on the same samples, not of the losses.
    gain, error = loss.gain(backbones, runs(0.3, 0.3))
    assert gain == pytest.approx(0.3 - 0.1 * noise.mean())
    assert error == pytest.approx(0.1 * noise.std(ddof=1) / np.sqrt(20))
    # The spread over seeds adds to it: two gains that lie 0.8 apart.
    gain, error = loss.gain(backbones, runs(0.7, -0.1))
    assert gain == pytest.approx(0.3 - 0.1 * noise.mean())
    assert error == pytest.approx(np.hypot(0.1 * noise.std(ddof=1) / np.sqrt(20), 0.4))
    assert loss.gain(backbones, runs(-0.3, -0.3))[0] < 0
    failed = runs(1.0, 1.0)
    failed[1].record["failed"] = "ValueError"
    assert loss.gain(backbones, failed)[0] == -np.inf
    accuracy = auto.Objective("accuracy", -1)
    better, worse = (run_of(measured(base, np.full(20, value))) for value in (0.9, 0.8))
    assert accuracy.error(better) < accuracy.error(worse) < accuracy.error(failed[1]) == np.inf
    gain, error = accuracy.gain([worse], [better])
    assert gain == pytest.approx(0.1) and error == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("gain", "loss", "decides", "kept"),
    [
        (0.5, -1.0, "accuracy", True),
        (0.01, 1.0, "loss", True),  # accuracies are alike, losses are not
        (0.01, 0.0, "loss", False),
        (-0.1, 1.0, "accuracy", False),
    ],
)
def test_the_loss_decides_where_accuracies_are_alike(gain, loss, decides, kept, rng):
    noise = 0.1 * rng.normal(size=20)
    noise -= noise.mean()
    backbones = [run_of(measured(np.full(20, 2.0), np.full(20, 0.4)))]
    best = [run_of(measured(2.0 - loss + noise, 0.4 + gain + noise))]
    objective, *difference = auto.decided(backbones, best)
    assert objective.name == decides and (difference[0] > 2 * difference[1]) == kept


def test_rates_fall_to_0_in_the_epochs_of_a_training(rng, monkeypatch):
    factor = 0.5
    spaces = [one for one in auto.SPACES if one.to == "xd" and one.factor == factor][:1]
    monkeypatch.setattr(auto, "SPACES", spaces)
    x, y = data(rng)
    model, rates = backbone(), []
    schedule = keras.optimizers.schedules.CosineDecay(0.1, 4 * 2)
    model.compile(keras.optimizers.SGD(schedule), LOSS)

    def note(epoch, logs):
        optimizers = getattr(callback.model.optimizer, "optimizers", [callback.model.optimizer])
        rates.append([float(optimizer.learning_rate) for optimizer in optimizers])

    callback = keras.callbacks.LambdaCallback(on_epoch_end=note)
    options = {"validation_data": (x, y), "callbacks": [callback], "compile_options": EAGER}
    options["class_weight"] = {label: 1.0 for label in np.unique(y)}  # keys of NumPy
    keras_xd.search(model, x, y, epochs=4, batch_size=16, verbose=0, **options)
    shares = [float(schedule(2 * n)) / 0.1 for n in (1, 2, 3, 4)]
    expected = [[0.1 * s] for s in shares] + [[0.005 * s, factor * 0.1 * s] for s in shares]
    assert [sorted(found) for found in rates] == [pytest.approx(e, abs=1e-7) for e in expected]


def test_rates_are_slowed_in_all_groups():
    sgd, adam = keras.optimizers.SGD(0.2), keras.optimizers.Adam(0.4)
    groups = keras.optimizers.OptimizerMap(sgd, {".*conv.*": adam})
    config = keras.optimizers.serialize(keras.optimizers.MultiOptimizer(groups))
    slowed = keras.optimizers.deserialize(auto.slowed(config, 0.5)).optimizers
    rates = [float(optimizer.learning_rate) for optimizer in slowed]
    assert sorted(rates) == pytest.approx([0.1, 0.2])
    steps = keras.optimizers.schedules.PiecewiseConstantDecay([2], [0.4, 0.2])
    config = auto.slowed(keras.optimizers.serialize(keras.optimizers.SGD(steps)), 0.5)
    steps = keras.optimizers.schedules.deserialize(config["config"]["learning_rate"])
    assert [float(steps(step)) for step in (0, 3)] == pytest.approx([0.2, 0.1])


def test_arrays_are_in_another_order_in_each_epoch(rng):
    x, y = rng.normal(size=(11, 3)), np.arange(11)

    def epochs(seed):
        batches = auto.ShuffledArrays(({"x": x}, y), 4, seed)
        assert [len(rows) for _, rows in batches] == [4, 4, 3]
        found = [list(batches) for _ in range(2)]
        for batch, rows in (pair for epoch in found for pair in epoch):
            np.testing.assert_array_equal(batch["x"], x[rows])
        return [np.concatenate([rows for _, rows in epoch]).tolist() for epoch in found]

    first, second = epochs(0)
    assert sorted(first) == sorted(second) == list(range(11)) and first != second
    assert epochs(0) == [first, second] != epochs(1)


def test_auto_finds_what_a_backbone_cannot(rng, monkeypatch):
    monkeypatch.setattr(auto, "SPACES", auto.SPACES[:1])
    # A class is which half of the signal is louder: for a convolution and a mean both are alike.
    x = rng.normal(size=(192, 8, 1)).astype("float32")
    y = (np.abs(x[:, :4]).sum(axis=(1, 2)) > np.abs(x[:, 4:]).sum(axis=(1, 2))).astype("int32")
    model = keras.Sequential(
        [
            keras.Input((8, 1)),
            keras.layers.Conv1D(8, 3, padding="same", activation="relu"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.03), LOSS)
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(48)
    result = keras_xd.search(
        model,
        batches,
        epochs=12,
        validation_data=batches,
        seed=1,
        verbose=0,
        shuffle=False,
        compile_options={"jit_compile": False},
        finalize_options={"form": "spectrum"},
    )
    assert result.report.kept.startswith("xd") and result.search is not None
    loss = result.model.evaluate(batches, verbose=0)
    kept = next(row for row in result.report.rows if row.model == result.report.kept)
    assert kept.metrics["loss"] == pytest.approx(loss, rel=1e-4)
    assert kept.metrics["loss"] < result.report.rows[0].metrics["loss"]
    assert "form" in str(result.report).splitlines()[-1]  # it has grown
    assert len(result.history.history["loss"]) == kept.epochs


def one_hot(labels):
    return keras.utils.to_categorical(labels, 3)


@pytest.mark.parametrize("to", ["auto", "xd"])
@pytest.mark.parametrize(
    ("change", "loss", "message"),
    [
        ({"x": (7, np.nan)}, LOSS, r"Received: nan in sample 7, channel 0: x\[7, 0, 0\]"),
        ({"held_x": (5, -np.inf)}, LOSS, r"Received: -inf in .*: validation_data\[0\]\[5, 0, 0\]"),
        (
            {"y": one_hot},
            LOSS,
            "takes integer ones: use the loss categorical_crossentropy.*one-hot",
        ),
        (
            {},
            keras.losses.CategoricalCrossentropy(),
            r"takes one-hot ones: use the loss sparse_categorical_crossentropy.*integer.*\(32,\)",
        ),
        (
            {"y": lambda y: y[:, None]},
            "categorical_crossentropy",
            r"integer labels of shape \(32, 1\)",
        ),
        ({"y": lambda y: y + 1}, LOSS, "from 0 to 2, .*3 outputs. Received: 3 at index 2"),
        ({"y": lambda y: 0 * y + 2}, LOSS, "two classes at least. Received: class 2 only"),
        ({"y": lambda y: one_hot(0 * y)}, "categorical_crossentropy", "Received: class 0 only"),
    ],
)
def test_samples_are_checked_before_training(to, change, loss, message, rng):
    (x, y), (held_x, held_y) = data(rng), data(rng)
    parts = {"x": x, "y": y, "held_x": held_x, "held_y": held_y}
    for name, new in change.items():
        if callable(new):
            parts[name] = new(parts[name])
            parts["held_y"] = new(parts["held_y"])
        else:
            parts[name][new[0]] = new[1]
    with pytest.raises(ValueError, match=message):
        keras_xd.search(
            backbone(),
            parts["x"],
            parts["y"],
            epochs=1,
            to=to,
            loss=loss,
            validation_data=(parts["held_x"], parts["held_y"]),
        )


@pytest.mark.parametrize("split", [None, 0.5])
def test_samples_are_named_by_their_places_before_a_split(split, rng):
    x, y = data(rng)
    options = {"epochs": 1, "loss": LOSS, "validation_split": split}
    with pytest.raises(ValueError, match="Received: 7 at index 30"):
        keras_xd.search(backbone(), x, np.where(np.arange(len(y)) == 30, 7, y), **options)
    x[29, 4] = np.nan
    with pytest.raises(ValueError, match=r"Received: nan in sample 29, .*: x\[29, 4, 0\]"):
        keras_xd.search(backbone(), x, y, **options)


def checked(rng, outputs=3, samples=32, loss=LOSS, held=None, labels=None, **given):
    inputs = keras.Input((9, 1))
    model = keras.Model(inputs, keras.layers.Dense(outputs)(keras.layers.Flatten()(inputs)))
    x, y = data(rng, samples)
    y = y if labels is None else labels(y)
    if held is not None:
        given["validation_data"] = (x[: len(held)], np.asarray(held))
    checks.check_samples(model, x, y, loss, given)
    checks.check_parts(model, y, loss, given)


def test_samples_that_only_warn(rng):
    with pytest.warns(UserWarning, match="one step. Received: 32 training samples, batch_size=40"):
        checked(rng, batch_size=40)
    with pytest.warns(UserWarning, match=r"Received: the validation part lacks \[1, 2\]"):
        checked(rng, held=[0, 0])
    with pytest.warns(UserWarning, match=r"Received: the training part lacks \[3\]"):
        checked(rng, outputs=4, held=[0, 1, 2, 3])
    with pytest.raises(ValueError, match="class 0.0 only"):
        checked(rng, 1, loss="binary_crossentropy", labels=lambda y: 0.0 * y)
    # What is left alone: numbers to predict, labels of pixels, integers, losses of one's own.
    checked(rng, 1, loss="mse", labels=lambda y: 0.0 * y, held=[1.0])
    checked(rng, 4, loss="mse", labels=lambda y: np.zeros((len(y), 4)))
    checked(rng, loss=lambda y, outputs: y)
    tokens = keras.Sequential([keras.Input((9, 1)), keras.layers.Dense(3)])
    labels = np.zeros((32, 9), int)
    checks.check_samples(tokens, np.zeros((32, 9, 1), int), labels, LOSS, {})
    checks.check_parts(tokens, labels, LOSS, {})


def test_a_split_of_arrays_is_that_of_keras(rng):
    x, y = data(rng)
    model = backbone()
    model.compile("adam", LOSS, metrics=["accuracy"])
    options = {"sample_weight": rng.random(32), "validation_split": 0.25, "batch_size": 8}
    options["compile_options"] = EAGER
    result = keras_xd.search(model, x, y, epochs=1, to="xd", verbose=0, **options)
    expected = model.evaluate(x[24:], y[24:], verbose=0, return_dict=True)
    assert result.report.rows[0].metrics["accuracy"] == pytest.approx(expected["accuracy"])
    held = model.evaluate(x[24:], y[24:], sample_weight=options["sample_weight"][24:], verbose=0)
    assert result.report.rows[0].metrics["loss"] == pytest.approx(held[0], rel=1e-5)
    with pytest.raises(ValueError, match="Received: 32 samples, validation_split=0.99"):
        keras_xd.search(model, x, y, epochs=1, **{**options, "validation_split": 0.99})


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (tf.data.Dataset.from_tensors(np.ones((2, 9, 1))), "needs `validation_data` with a data"),
        (iter([np.ones((2, 9, 1))]), "reads the samples several times"),
    ],
)
def test_auto_needs_samples_to_read_again(x, message):
    with pytest.raises(ValueError, match=message):
        keras_xd.search(backbone(), x, epochs=1, loss=LOSS)


def test_auto_with_several_inputs_and_a_class_of_ones_own(rng):
    class Model(keras.Model):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.conv = keras.layers.Conv1D(3, 3, name="conv")

        def call(self, inputs):
            return keras.ops.mean(self.conv(inputs["signal"]), axis=1) + inputs["offset"]

    x, y = data(rng)
    inputs = {"signal": x, "offset": rng.normal(size=(32, 3)).astype("float32")}
    model = Model()
    model(inputs)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    options = {"sample_weight": np.ones(32), "batch_size": 8, "compile_options": EAGER}
    options |= {"epochs": 2, "budget": 5, "seed": 3, "verbose": 0}
    result = keras_xd.search(model, inputs, y, **options)
    base, *spaces = result.report.rows
    assert [row.failed for row in result.report.rows] == [None] * 3
    assert [row.model for row in spaces] == ["xd, depth 1", "xd, depth 1, half the rate"]
    # The one with the lower loss goes on; error and latency are measured in the end only.
    dropped, best = sorted(spaces, key=lambda row: row.epochs)
    assert (dropped.epochs, dropped.standard_errors, dropped.milliseconds) == (1, {}, None)
    assert (best.epochs, base.epochs) == (2, 2) and best.milliseconds and base.milliseconds
    assert result.model.predict(inputs, verbose=0).shape == (32, 3)
