"""`keras_xd.compress`: importance, budgets, training, reports and wrong arguments."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import keras_xd
from keras_xd.compressing import allocation, importance, training
from keras_xd.compressing.latency import LatencyTable
from keras_xd.graph.channel_units import ChannelUnits, unfolded
from keras_xd.graph.size_counts import count_parameters
from keras_xd_tests.graph.channel_units_test import Places, randomized, residual

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def data(count=48):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(count, 8, 8, 3)).astype("float32"), rng.integers(0, 2, count)
    x[y == 1] += 0.5
    return x, y


def dense(units=(16, 16), inputs=8, classes=3):
    keras.utils.set_random_seed(0)
    hidden = [layers.Dense(count, "tanh", name=f"hidden{n}") for n, count in enumerate(units)]
    model = keras.Sequential([keras.Input((inputs,)), *hidden, layers.Dense(classes, name="head")])
    model.compile("adam", "mse", metrics=["mae"], jit_compile=False)
    return model


def vectors(count=32, inputs=8, outputs=3):
    rng = np.random.default_rng(3)
    return (rng.normal(size=(count, size)).astype("float32") for size in (inputs, outputs))


def test_importance_is_the_squared_change_of_the_loss_of_each_sample():
    model, (x, y) = dense((4,)), vectors(5)
    units = ChannelUnits(model)
    scores, of_blocks = importance.taylor(model, units, x, y, "mse")
    hidden, head = model.layers
    values = np.tanh(x @ hidden.kernel.numpy() + hidden.bias.numpy())
    error = values @ head.kernel.numpy() + head.bias.numpy() - y
    gates = 2 / 3 * (error @ head.kernel.numpy().T) * values
    np.testing.assert_allclose(scores[units.groups[0].units], (gates**2).mean(0), rtol=1e-4)
    assert of_blocks.size == 0


def test_importance_of_a_block_is_twice_the_loss_without_it_and_ignores_regularizers():
    model, (x, _) = randomized(residual()), data(6)
    y = ops.convert_to_numpy(model(x)).argmax(-1)
    model.get_layer("head").kernel.regularizer = keras.regularizers.L2(10.0)
    model.get_layer("stem").trainable = False
    state = [(variable.trainable, variable.numpy()) for variable in model.variables]
    units = ChannelUnits(model)
    _, of_blocks = importance.taylor(model, units, x, y, LOSS)
    for variable, (trainable, value) in zip(model.variables, state, strict=True):
        assert variable.trainable == trainable and np.array_equal(variable.numpy(), value)
    before, expected = float(LOSS(y, model(x))), []
    for block in units.blocks:
        none = np.ones(units.count, bool)
        expected.append(2 * max(float(LOSS(y, units.cut(none, [block])(x))) - before, 0))
    assert max(expected) > 0.01
    np.testing.assert_allclose(of_blocks, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("measure", ["multiply_adds", "parameters"])
@pytest.mark.parametrize("share", [0.8, 0.31])
def test_costs_are_those_of_the_model_that_is_cut(measure, share):
    count = {"multiply_adds": keras_xd.complexity, "parameters": count_parameters}[measure]
    model = keras_xd.models.resnet20((8, 8, 1), 3, width=8)
    result = keras_xd.compress(
        model, target={measure: share}, importance="magnitude", epochs=0, verbose=0
    )
    reached = count(result.model) / count(model)
    assert reached == pytest.approx(result.report.reached) == pytest.approx(share, rel=0.02)
    assert reached <= share
    assert sum(row.parameters_after for row in result.report.rows) < result.model.count_params()
    assert result.report.left["classifier"] == "its channels are outputs of the model"


def test_what_is_left_of_a_group_matters_more():
    x = keras.Input((4,))
    two = [layers.Dense(4)(layers.Dense(12)(x)) for _ in range(2)]
    units = ChannelUnits(keras.Model(x, layers.add(two)))
    terms = [allocation.Term(s.layer, 1.0, (s,)) for s in units.slots.values() if s.reads]
    scores = np.ones(units.count)
    scores[units.groups[1].units] = 2
    costs = allocation.Costs(units, terms, 24.0)
    alive, _ = allocation.allocate(units, costs, scores, np.zeros(0), 12.0, np.ones(2, int), True)
    assert [int(alive[group.units].sum()) for group in units.groups] == [4, 8]


class Encoder(layers.Layer):
    """A layer of layers, for which there is no rule."""

    def build(self, shape):
        self.dense = layers.Dense(shape[-1], name="dense")
        self.dense.build(shape)
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones")

    def call(self, inputs):
        return inputs + self.scale * self.dense(inputs)


class Feedforward(layers.Layer):
    """A layer of layers without weights of its own."""

    def build(self, shape):
        self.attention = layers.MultiHeadAttention(4, 3)
        self.attention.build(shape, shape)
        self.inner = keras.Sequential([keras.Input(shape[1:]), layers.Dense(16, "gelu")])
        self.dropout, self.outer = layers.Dropout(0.1), layers.Dense(shape[-1], name="outer")
        self.outer.build((*shape[:-1], 16))

    def call(self, inputs, training=None):
        x = inputs + self.dropout(self.attention(inputs, inputs), training=training)
        return x + self.outer(self.inner(x))


@pytest.mark.filterwarnings("ignore:The multiply–adds are without those of 'places'")
def test_layers_of_layers_are_cut_inside():
    first = keras.Input((5, 12))
    x = Places(name="places")(layers.Dense(12, name="stem")(first))
    x = Feedforward(name="two")(Feedforward(name="one")(x))
    model = randomized(keras.Model(first, layers.Dense(3)(x)))
    x = np.random.default_rng(0).normal(size=(2, 5, 12)).astype("float32")
    np.testing.assert_allclose(unfolded(model)(x), model(x), rtol=1e-5)
    options = {"importance": "magnitude", "epochs": 0, "verbose": 0}
    result = keras_xd.compress(model, target={"parameters": 0.3}, **options)
    small = result.model
    assert count_parameters(small) == pytest.approx(0.3 * model.count_params(), rel=0.02)
    assert {"one_outer", "two_outer"} <= {layer.name for layer in small.layers}
    assert [*result.report.left.values()] == ["its channels are outputs of the model"]
    heads = [layer.num_heads for layer in small.layers if hasattr(layer, "num_heads")]
    assert small.get_layer("stem").units < 12 and max(heads) < 4, heads
    structured = keras_xd.rewrite(small, to="structured", family="low_rank", density=0.7)
    assert count_parameters(structured) < count_parameters(small)
    with pytest.raises(ValueError, match="can be reached: 1.0 .* no rule for a Structured"):
        keras_xd.compress(structured, target={"multiply_adds": 0.9}, **options)


class Doubled(Feedforward):
    """Whose outputs for arrays are not those of its graph."""

    def call(self, inputs, training=None):
        outputs = super().call(inputs, training)
        return outputs if isinstance(inputs, keras.KerasTensor) else 2 * outputs


def test_layers_of_layers_whose_outputs_would_change_stay():
    first = keras.Input((5, 12))
    x = layers.Dense(12)(layers.Dense(32)(first))
    model = randomized(keras.Model(first, layers.Dense(3)(Doubled(name="double")(x))))
    x = np.random.default_rng(0).normal(size=(2, 5, 12)).astype("float32")
    options = {"importance": "magnitude", "epochs": 0, "verbose": 0}
    result = keras_xd.compress(model, x, target={"parameters": 0.9}, **options)
    assert type(result.model.get_layer("double")) is Doubled


@pytest.mark.filterwarnings("ignore:The multiply–adds are without those of 'encoder'")
@pytest.mark.parametrize("measure", ["multiply_adds", "parameters"])
def test_heads_that_nothing_depends_on_go_first(measure):
    """The other layers stay, with a reason."""
    x = inputs = keras.Input((5, 12))
    x = Encoder(name="encoder")(layers.Dense(12, name="stem")(x))
    y = layers.MultiHeadAttention(6, 4, 2, name="heads")(layers.LayerNormalization()(x), x)
    x = layers.GlobalAveragePooling1D()(x + y)
    model = randomized(keras.Model(inputs, layers.Dense(3, name="head")(x)))
    model.compile("sgd", "mse")
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(6, *shape)).astype("float32") for shape in ((5, 12), (3,)))
    kernel = model.get_layer("heads").output_dense.kernel
    kernel.assign(kernel * np.array([1, 0, 0, 1, 0, 1])[:, None, None])
    count = {"multiply_adds": keras_xd.complexity, "parameters": count_parameters}[measure]
    # Three heads: projections to 4 + 4 + 2 numbers, back from 2, and 5 * 5 products of 4 + 2.
    saved = 3 * (5 * 12 * 12 + 25 * 6 if measure == "multiply_adds" else 12 * 12 + 10)
    whole = count(model)
    target = {measure: (whole - saved) / whole + 1e-6}
    result = keras_xd.compress(model, x, y, target=target, epochs=0, verbose=0)
    assert count(result.model) == whole - saved
    np.testing.assert_allclose(result.model(x), model(x), rtol=1e-4, atol=1e-5)
    assert result.model.get_layer("heads").num_heads == 3
    (row,) = [row for row in result.report.rows if row.name == "heads"]
    assert (row.heads_before, row.heads_after, row.left_because) == (6, 3, None)
    assert "6 → 3 heads" in str(result.report)
    assert result.report.left["encoder/dense"] == "it is inside 'encoder' (Encoder)"
    assert result.report.left["stem"] == "its channels go into 'encoder' (Encoder)"


def test_channels_and_blocks_that_nothing_depends_on_go_first():
    model, (x, y) = randomized(residual()), data()
    model.compile("sgd", LOSS)
    units = ChannelUnits(model)
    for weight in units.blocks[0].ends:
        weight.assign(0 * weight)
    slot = next(s for s in units.slots.values() if s.layer.name == "b_outer" and s.reads)
    kept = np.array([1, 0, 1, 0, 0, 1])
    slot.weight.assign(slot.weight * kept[None, None, :, None])
    for layer in model.layers:  # whose statistics are to stay
        layer.trainable = not isinstance(layer, layers.BatchNormalization)
    whole = keras_xd.complexity(model)
    left = whole - 64 * 9 * 2 * 4 * 6 - 16 * 9 * 3 * (4 + 8)
    result = keras_xd.compress(
        model, x, y, target={"multiply_adds": left / whole + 1e-6}, epochs=0, verbose=0, samples=8
    )
    np.testing.assert_allclose(result.model(x), model(x), rtol=1e-4, atol=1e-4)
    assert result.report.removed_blocks == ("a",)
    assert keras_xd.complexity(result.model) == left
    assert result.history.history == {}


def test_statistics_of_normalizations_are_those_of_the_samples():
    inputs = keras.Input((4,))
    x = layers.BatchNormalization(name="normalization")(layers.Dropout(0.9)(inputs))
    model = keras.Model(inputs, x)
    x = np.random.default_rng(0).normal(3, 2, (64, 4)).astype("float32")
    training.recalibrate(model, x, 16)
    normalization = model.get_layer("normalization")
    np.testing.assert_allclose(normalization.moving_mean, x.mean(0), rtol=1e-5)
    assert normalization.momentum == 0.99 and model.layers[1].rate == 0.9


def test_training_on_labels_and_outputs(tmp_path):
    model, (x, y) = residual(16), data(64)
    model.compile(keras.optimizers.Adam(1e-3), LOSS, metrics=["accuracy"], jit_compile=False)
    before = [keras.ops.convert_to_numpy(weight) for weight in model.weights]
    result = keras_xd.compress(
        model,
        x[:48],
        y[:48],
        target={"multiply_adds": 0.5},
        epochs=4,
        rounds=2,
        samples=8,
        validation_data=(x[48:], y[48:]),
        max_loss=1.0,
        batch_size=16,
        callbacks=[keras.callbacks.BackupAndRestore(tmp_path)],
        verbose=0,
    )
    assert all(map(np.array_equal, before, [w.numpy() for w in model.weights]))
    assert len(result.history.history["loss"]) == 4
    names = [row.model for row in result.report.models.rows]
    assert names == ["given", "cut to 0.707", "trained, 0.707", "cut to 0.5", "trained, 0.5"]
    accuracy = result.report.models.rows[-1].metrics["accuracy"]
    found = result.model.evaluate(x[48:], y[48:], verbose=0, return_dict=True)["accuracy"]
    assert found == pytest.approx(accuracy)
    assert result.report.models.kept == "trained, 0.5"
    assert result.report.reached == pytest.approx(0.5, rel=0.02)
    assert "0.5" in str(result.report) and result.report.to_dict()["target"] == 0.5


@pytest.mark.parametrize("classes", ["logits", "probabilities", None])
def test_the_loss_of_a_student(classes):
    rng = np.random.default_rng(0)
    own, taught = (np.exp(rng.normal(size=(4, 3))) for _ in range(2))
    if classes != "logits":
        own, taught = (value / value.sum(1, keepdims=True) for value in (own, taught))
    student = training.Student(dense(), lambda x, training: taught, 0.25, 2.0, classes)
    student.compile("sgd", "mse")
    y = np.zeros((4, 3))
    loss = float(student.compute_loss(None, y, own, training=True))
    soft = [value if classes == "logits" else np.log(value) for value in (taught, own)]
    p, q = (np.exp(v / 2) / np.exp(v / 2).sum(1, keepdims=True) for v in soft)
    distance = 4 * (p * np.log(p / q)).sum(1).mean() if classes else ((own - taught) ** 2).mean()
    assert loss == pytest.approx(0.75 * (own**2).mean() + 0.25 * distance, rel=1e-4)
    assert float(student.compute_loss(None, y, own, training=False)) == pytest.approx(
        (own**2).mean(), rel=1e-4
    )


# Which `pytest.warns` shows again as if it were of this module.
of_keras = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@of_keras
def test_what_loses_too_much_is_not_returned():
    model, (x, _) = dense((64, 64)), vectors()
    with pytest.warns(UserWarning, match="max_loss=0"):
        result = keras_xd.compress(
            model,
            x,
            model.predict(x, verbose=0),
            target={"parameters": 0.3},
            epochs=0,
            validation_data=(-x, model.predict(-x, verbose=0)),
            max_loss=0.0,
            metric="mae",
            verbose=0,
        )
    np.testing.assert_allclose(result.model(x), model(x), rtol=1e-6)
    assert result.report.models.kept == "given" and result.report.reached == 1


@pytest.mark.parametrize("runtime", ["tensorflow", "onnx", "litert", "cubic"])
def test_latency_is_measured_in_the_runtime(runtime, monkeypatch):
    if runtime == "cubic":  # what is fitted to it is below 0 for few channels

        def cubes(_, x, *models):
            return [(1e-7 * keras_xd.complexity(model)) ** 3 for model in models]

        monkeypatch.setattr(LatencyTable, "_milliseconds", cubes)
    convolutions = [layers.Conv2D(64, 5, padding="same") for _ in range(2)]
    parts = [keras.Input((32, 32, 3)), *convolutions, layers.GlobalAveragePooling2D()]
    model = keras.Sequential(parts)
    table = LatencyTable(runtime, np.zeros((1, 32, 32, 3), "float32"))
    units = ChannelUnits(model)
    terms, found = table.terms(model, units)
    costs = allocation.Costs(units, terms, table.whole(model))
    none = np.zeros(0, bool)
    assert set(found) == {id(layer) for layer in convolutions}
    assert 0 < costs.total(costs.sizes // 4, none) < costs.total(costs.sizes, none)
    measured = len(table.known)
    table.terms(model, units)
    assert len(table.known) == measured


@pytest.mark.parametrize("of_whole", [1.0, 0.0])
def test_a_latency_target(monkeypatch, of_whole):
    def milliseconds(self, x, *models):
        scales = [of_whole or float(len(model.layers) < 3) for model in models]
        costs = [keras_xd.complexity(model) / 1e5 for model in models]
        return [1 + scale * cost for scale, cost in zip(scales, costs, strict=True)]

    monkeypatch.setattr(LatencyTable, "_milliseconds", milliseconds)
    model, (x, y) = dense((512, 512), 512), vectors(4, 512)
    options = {"target": {"latency": 0.7}, "epochs": 0, "verbose": 0}
    if not of_whole:
        with pytest.raises(ValueError, match=r"0\.7 of the latency, beside .* \[1\.0, 1\.0, 1\.0"):
            keras_xd.compress(model, x, y, **options)
        return
    result = keras_xd.compress(model, x, y, **options)
    given, small = (row.milliseconds for row in result.report.models.rows)
    assert 0.98 * 0.7 <= small / given <= 1.02 * 0.7
    assert small == pytest.approx(1 + keras_xd.complexity(result.model) / 1e5)
    assert all(row.milliseconds_before is not None for row in result.report.rows)


@pytest.mark.parametrize(
    "layer", [layers.MultiHeadAttention(8, 16), layers.GroupQueryAttention(16, 8, 4)]
)
def test_latency_of_heads(monkeypatch, layer):
    """Latencies that are multiply–adds have no term that the table leaves out."""
    monkeypatch.setattr(
        LatencyTable, "_milliseconds", lambda self, x, *models: [*map(keras_xd.complexity, models)]
    )
    x = inputs = keras.Input((16, 32))
    x = layers.LayerNormalization()(x + layer(x, x))
    x = layers.Dense(32, "relu")(layers.GlobalAveragePooling1D()(x))
    model = randomized(keras.Model(inputs, layers.Dense(3)(x)))
    model.compile("sgd", "mse")
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(4, *shape)).astype("float32") for shape in ((16, 32), (3,)))
    result = keras_xd.compress(model, x, y, target={"latency": 0.5}, epochs=0, verbose=0)
    given, small = (row.milliseconds for row in result.report.models.rows)
    assert 0.4 < small / given <= 0.51
    assert small == keras_xd.complexity(result.model)
    (row,) = [row for row in result.report.rows if row.heads_before]
    assert row.milliseconds_before == given - 32 * 32 - 3 * 32
    assert row.heads_after in (2, 4) and row.milliseconds_after < 0.55 * row.milliseconds_before


def unknown_sizes():
    x = inputs = keras.Input((None, None, 3))
    x = layers.GlobalAveragePooling2D()(layers.Conv2D(8, 3)(layers.Conv2D(8, 3)(x)))
    return keras.Model(inputs, x)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": {"multiply_adds": 1.5}}, "above 0 and below 1"),
        (
            {"target": {"parameters": 0.001}},
            r"what can be reached: 0\.\d+ or more.*'head .its chan",
        ),
        ({"target": {"parameters": 0.5, "latency": 0.5}}, "a share of one of"),
        ({"target": {"size": 0.5}}, "a share of one of"),
        ({"target": {"parameters": 0.9}, "multiple_of": 32}, "multiples of channels do not"),
        ({"target": {"latency": 0.5}, "x": None, "y": None}, "an example input"),
        ({"x": None, "y": None}, "need samples"),
        ({"y": None}, "need samples"),
        ({"model": unknown_sizes(), "importance": "magnitude"}, "shapes known"),
        ({"metric": "auc"}, "'mae'"),
        ({"max_loss": 0.1, "validation_data": None}, "need `validation_data`"),
        ({"importance": "norm"}, "'taylor', 'magnitude'"),
        ({"runtime": "tvm"}, "'litert'"),
        ({"steps": 3}, "fit_options"),
    ],
)
def test_wrong_arguments(changes, message):
    x, y = vectors()
    given = {"model": dense((64, 64)), "x": x, "y": y, "target": {"parameters": 0.5}, "epochs": 0}
    given |= {"validation_data": (-x, y), **changes}
    if "model" in changes:
        given |= {"x": None, "y": None, "validation_data": None, "target": {"multiply_adds": 0.5}}
    with pytest.raises(ValueError, match=message):
        keras_xd.compress(given.pop("model"), given.pop("x"), given.pop("y"), verbose=0, **given)


@pytest.mark.parametrize("measure", ["multiply_adds", "parameters"])
def test_forecasts_of_targets_are_what_is_left(measure):
    model, target = randomized(residual()), {measure: 0.5}
    found = keras_xd.forecast(model, target=target)
    small = keras_xd.compress(model, target=target, importance="magnitude", epochs=0, verbose=0)
    assert found.parameters_after == small.model.count_params() < model.count_params()
    assert found.multiply_adds_after == keras_xd.complexity(small.model)
    rows = {row.name: row for row in found.rows}
    assert {name for name, row in rows.items() if row.left_because} == set(small.report.left)
    assert "head" in small.report.left and "left: " in str(found)
    outputs = sum(np.prod(small.model.get_layer(name).output.shape[1:]) for name in rows)
    assert found.memory_after == 4 * (small.model.count_params() + outputs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": {"parameters": 0.5}, "depth": 2}, "nothing beside .*depth=2"),
        ({"target": {"parameters": 0.5}, "channel_gates": True}, "beside .*channel_gates=True"),
        ({"target": {"latency": 0.5}}, "example input"),
        ({"target": {"parameters": 1e-6}}, "what can be reached"),
    ],
)
def test_forecasts_of_wrong_targets(arguments, message):
    with pytest.raises(ValueError, match=message):
        keras_xd.forecast(residual(), **arguments)


@of_keras
def test_training_samples_that_validate_are_told_of():
    model, (x, y) = dense(), vectors()
    with pytest.warns(UserWarning, match="other samples than those of training"):
        keras_xd.compress(
            model,
            x,
            y,
            target={"parameters": 0.5},
            epochs=0,
            validation_data=(x.copy(), y),
            verbose=0,
        )
