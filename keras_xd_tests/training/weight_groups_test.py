"""Groups of weights: each moves by its own optimizer, in every mode, and keeps it in a file."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd.training import bilevel
from keras_xd.training.optimizers import architecture_optimizer
from keras_xd.training.search_model import SearchModel
from keras_xd.training.weight_groups import found_shapes, joined
from keras_xd_tests.training.bilevel_test import float64, linear_data, linear_gradients  # noqa: F401
from keras_xd_tests.training.gated_dense import GatedDense, classification_data

SGD, AdamW, Multi = keras.optimizers.SGD, keras.optimizers.AdamW, keras.optimizers.MultiOptimizer
LOSS = "sparse_categorical_crossentropy"
MODES = ("joint", *bilevel.MODES)
INNER = ".*inner/.*"
FIT = {"batch_size": 5, "shuffle": False, "verbose": 0}


def grouped(default, others=None, **patterns):
    """Return a `MultiOptimizer`; `inner=…` is for the layer of this name."""
    patterns = {f".*{name}/.*": optimizer for name, optimizer in patterns.items()}
    return Multi(keras.optimizers.OptimizerMap(default, {**(others or {}), **patterns}))


def layered_model():
    return keras.Sequential(
        [
            keras.Input((4,)),
            GatedDense(5, name="searched"),
            keras.layers.Dense(3, activation="softmax", name="inner"),
        ]
    )


def search_model(weights, architecture=None, mode="joint", dtype=None, **options):
    keras.utils.set_random_seed(4)
    search = SearchModel(layered_model(), **({"dtype": dtype} if dtype else {}))
    options = {"run_eagerly": True, **options}
    search.compile(weights, architecture or SGD(0.1), LOSS, mode=mode, **options)
    return search


def fit(search, steps=2, **arguments):
    """Train by two steps in every epoch."""
    if search.mode != "joint":
        arguments["architecture_validation_split"] = 0.5
    samples = steps * (5 if search.mode == "joint" else 10)
    return search.fit(*classification_data(samples), **FIT, **arguments).history


def name_of(variable):
    """Return the names of layer and variable; those of models around them are numbered."""
    return "/".join(variable.path.split("/")[-2:])


def values(model):
    return {name_of(v): v.numpy().copy() for v in model.trainable_variables}


def group_of(name):
    """Return the group by names alone: the architecture, the layer `inner` or other weights."""
    if name == "searched/gates":
        return "architecture"
    return "inner" if name.startswith("inner/") else "rest"


def gradients(search, batch):
    """Return gradients of the loss by TensorFlow's tape, by names."""
    variables = search.trainable_variables
    with tf.GradientTape() as tape:
        losses = keras.losses.sparse_categorical_crossentropy(batch[1], search.model(batch[0]))
        loss = tf.reduce_mean(losses)
    found = tape.gradient(loss, [v.value for v in variables])
    return {name_of(v): g.numpy() for v, g in zip(variables, found, strict=True)}


@pytest.mark.parametrize(
    ("mode", "eager"),
    [*((mode, True) for mode in MODES), ("joint", False), ("second_order", False)],
)
def test_each_group_moves_by_its_rate_and_decay(mode, eager):
    rates = {"rest": (0.5, 0.0), "inner": (0.2, 0.3)}
    weights = grouped(SGD(0.5), inner=SGD(0.2, weight_decay=0.3))
    search = search_model(weights, SGD(0.05), mode, run_eagerly=eager)
    x, y = classification_data(8)
    before = values(search)
    search.train_on_batch(x, y)
    after = values(search)
    # The weights of a bilevel step move last, by the training half.
    batch = (x, y) if mode == "joint" else (x[::2], y[::2])
    for variable in search.trainable_variables:
        if mode == "joint" or group_of(name_of(variable)) != "architecture":
            variable.assign(before[name_of(variable)])
    slopes = gradients(search, batch)
    for name, old in before.items():
        if group_of(name) == "architecture":
            assert not np.array_equal(after[name], old)
            continue
        rate, decay = rates[group_of(name)]
        expected = old - rate * (slopes[name] + decay * old)
        np.testing.assert_allclose(after[name], expected, rtol=1e-5, atol=1e-6)
        assert not np.array_equal(after[name], old)


def test_second_order_looks_ahead_by_each_group(float64, rng):  # noqa: F811
    """The kernel's rate is 0.05, without decay; the bias has rate 0.2, momentum and decay."""
    search = SearchModel(keras.Sequential([keras.Input((3,)), GatedDense(1)]))
    layer = search.model.layers[0]
    layer.gates.assign([1.0, 0.5, -0.7])
    layer.kernel.assign([[0.3], [-0.8], [1.1]])
    layer.bias.assign([0.6])
    weights = grouped(SGD(0.05), {".*bias": SGD(0.2, momentum=0.8, weight_decay=0.3)})
    search.compile(weights, SGD(0.1), "mse", mode="second_order", run_eagerly=True)
    data = linear_data(rng)
    training, held_out = (tuple(array[start::2] for array in data) for start in (0, 1))
    rate, momentum, decay = (np.array([*[a] * 3, b]) for a, b in ((0.05, 0.2), (0, 0.8), (0, 0.3)))
    velocity = np.zeros(4)
    for _ in range(3):
        gates, w = layer.gates.numpy(), np.append(layer.kernel.numpy(), layer.bias.numpy())
        slopes = linear_gradients(training, gates, w)[2]
        ahead = w - rate * (momentum * velocity + slopes + decay * w)
        _, direct, u = linear_gradients(held_out, gates, ahead)
        # The slopes by the gates are quadratic in the weights: any step gives their derivative.
        plus, minus = (linear_gradients(training, gates, w + s * rate * u)[1] for s in (1, -1))
        expected = gates - 0.1 * (direct - (plus - minus) / 2)
        velocity = momentum * velocity + linear_gradients(training, expected, w)[2]
        search.train_on_batch(*data)
        np.testing.assert_allclose(layer.gates.numpy(), expected, rtol=1e-6)
        w = w - rate * (decay * w + velocity)
        np.testing.assert_allclose(layer.bias.numpy(), w[3:], rtol=1e-6)


@pytest.mark.parametrize("group", ["weights", "architecture"])
@pytest.mark.parametrize("known", [True, False])
def test_only_one_side_is_stepped(group, known):
    rates = {"rest": 0.5, "inner": 0.2, "architecture": 0.1}
    model = layered_model()
    weights = grouped(SGD(0.5), inner=SGD(0.2))
    optimizer = architecture_optimizer(model, weights, SGD(0.1))
    optimizer.build(model.trainable_variables)
    before = values(model)
    ones = [np.ones(v.shape, "float32") for v in model.trainable_variables]
    with optimizer.only(group):
        optimizer.apply(ones, model.trainable_variables if known else None)
    for name, value in values(model).items():
        moves = (group_of(name) == "architecture") == (group == "architecture")
        expected = before[name] - rates[group_of(name)] * moves
        np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-7)
    steps = [int(part.iterations) for part in optimizer.weights_optimizers]
    assert steps == [int(group == "weights")] * 2
    assert [part.name for part in optimizer.optimizers] == ["architecture", "weights_1", "weights"]


def refused():
    model = layered_model()
    scaled = keras.optimizers.LossScaleOptimizer(SGD())
    nested, one, function = grouped(SGD()), SGD(), Multi(lambda variable: one)
    built = Multi(lambda variable: one)
    built.build(keras.layers.Dense(2).variables or [keras.Variable([1.0])])
    return model, {
        "typo": ({"iner": SGD()}, r"must find one at least.*'\.\*iner/\.\*'.*searched/kernel"),
        "architecture": ({"searched": SGD()}, r"architecture.*'\.\*searched/.*searched/gates"),
        "function": (function, "not of a function.*weights="),
        "built function": (built, "not of a function.*weights="),
        "nested": ({"inner": nested}, "not ones around others.*MultiOptimizer"),
        "scaled": ({"inner": scaled}, "not ones around others.*LossScaleOptimizer"),
        "the same twice": (grouped(one, inner=one), "an optimizer each.*more than once"),
        "two patterns": (
            grouped(SGD(), {".*inner/kernel": SGD()}, inner=SGD()),
            r"by one pattern at most.*inner/kernel",
        ),
        "no pattern": (grouped(SGD(), {"(": SGD()}), r"a regular expression.*Received: '\('"),
    }


@pytest.mark.parametrize("case", refused()[1])
def test_refused_groups(case):
    model, cases = refused()
    weights, message = cases[case]
    weights = grouped(SGD(), **weights) if isinstance(weights, dict) else weights
    with pytest.raises(ValueError, match=f"(?s){message}"):
        architecture_optimizer(model, weights, "adam")
    with pytest.raises(ValueError, match=f"(?s){message}"):
        SearchModel(model).compile(weights, "adam", LOSS)


def test_frozen_groups_are_no_typos_and_freezing_later_is_an_error():
    model = layered_model()
    optimizer = architecture_optimizer(model, grouped(SGD(), inner=SGD()), "sgd")
    model.get_layer("inner").trainable = False
    assert found_shapes(model, [INNER]) == [[]]
    with pytest.raises(ValueError, match=r"inner.*Make a new one after freezing"):
        optimizer.build(model.trainable_variables)
    search = SearchModel(model)
    search.compile(grouped(SGD(), inner=SGD()), "sgd", LOSS, run_eagerly=True)
    before = values(model)
    fit(search)
    assert set(before) == set(values(model)) and "inner/kernel" not in before
    optimizer_map = search.search_optimizer.optimizer_map
    with pytest.raises(ValueError, match="shapes for each of its patterns.*1 of 2 patterns"):
        keras_xd.optimizers.ArchitectureOptimizer(optimizer_map, [(4,)]).build(search.variables)


def test_variables_of_other_shapes_are_refused():
    optimizer = architecture_optimizer(layered_model(), "sgd", "adam")
    other = keras.Sequential([keras.Input((6,)), GatedDense(5, name="searched")])
    with pytest.raises(ValueError, match=r"variables of shapes \[\(4,\)\].*gates \(6,\)"):
        optimizer.build(other.trainable_variables)


def test_groups_joined_again_keep_the_factor_of_the_loss():
    groups = keras.optimizers.OptimizerMap(SGD(), {INNER: SGD()})
    weights = Multi(groups, loss_scale_factor=8.0)
    optimizer = architecture_optimizer(layered_model(), weights, SGD(loss_scale_factor=8.0))
    assert joined(optimizer).loss_scale_factor == 8.0


@pytest.mark.parametrize("mode", ["joint", "first_order"])
def test_a_file_resumes_to_the_bit(mode, tmp_path):
    weights = grouped(AdamW(0.01, weight_decay=0.1), inner=AdamW(0.003, weight_decay=0.0))
    search = search_model(weights, mode=mode)
    fit(search, 1)
    search.save(tmp_path / "search.keras")
    rest = fit(search, 1)
    loaded = keras.saving.load_model(tmp_path / "search.keras")
    optimizers = loaded.search_optimizer.weights_optimizers
    assert [part.weight_decay for part in optimizers] == [0.1, 0.0]
    assert [float(part.learning_rate) for part in optimizers] == pytest.approx([0.01, 0.003])
    assert fit(loaded, 1) == rest
    for one, other in zip(search.optimizer.variables, loaded.optimizer.variables, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    config = loaded.get_compile_config()
    assert json.loads(json.dumps(config)) == config == search.get_compile_config()
