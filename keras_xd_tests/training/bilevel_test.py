"""Bilevel steps against calculations by hand, in float64, and against exact derivatives."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd.training import bilevel
from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import GatedDense, classification_data, gated_model

LOSS = "sparse_categorical_crossentropy"
FIT = {"batch_size": 4, "shuffle": False, "verbose": 0}


@pytest.fixture
def float64():
    before = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_floatx(before[0])
    keras.config.set_dtype_policy(before[1])


def linear_search(mode, weights_optimizer, architecture_rate=0.1, **options):
    """Return the search for `x · diag(gates) · kernel + bias` under the squared error."""
    search = SearchModel(keras.Sequential([keras.Input((3,)), GatedDense(1)]))
    search.model.layers[0].gates.assign([1.0, 0.5, -0.7])
    search.model.layers[0].kernel.assign([[0.3], [-0.8], [1.1]])
    optimizers = weights_optimizer, keras.optimizers.SGD(architecture_rate)
    search.compile(*optimizers, "mse", mode=mode, run_eagerly=True, **options)
    return search


def linear_data(rng, count=8):
    return rng.normal(size=(count, 3)), rng.normal(size=(count, 1))


def linear_gradients(data, gates, weights):
    """Return loss and gradients of the squared error; weights are the kernel and the bias."""
    x, y = data
    residual = x @ (gates * weights[:3]) + weights[3] - y[:, 0]
    slopes = 2 * x.T @ residual / len(x)
    by_weights = np.append(slopes * gates, 2 * residual.mean())
    return np.mean(residual**2), slopes * weights[:3], by_weights


def second_order(training, held_out, gates, weights, velocity, rate, momentum, decay, length):
    """Return the held-out loss ahead and the gradient of the gates, as DARTS defines them."""
    slopes = linear_gradients(training, gates, weights)[2]
    ahead = weights - rate * (momentum * velocity + slopes + decay * weights)
    loss, direct, u = linear_gradients(held_out, gates, ahead)
    epsilon = length / np.linalg.norm(u)
    plus = linear_gradients(training, gates, weights + epsilon * u)[1]
    minus = linear_gradients(training, gates, weights - epsilon * u)[1]
    return loss, direct - rate * (plus - minus) / (2 * epsilon)


@pytest.mark.parametrize("mode", bilevel.MODES)
@pytest.mark.parametrize("momentum", [0.0, 0.8])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_steps_by_hand(mode, momentum, decay, float64, rng):
    rate, length = 0.05, 0.02
    optimizer = keras.optimizers.SGD(rate, momentum=momentum, weight_decay=decay or None)
    search = linear_search(mode, optimizer, perturbation=length)
    data = linear_data(rng)
    layer = search.model.layers[0]
    gates = layer.gates.numpy()
    weights = np.append(layer.kernel.numpy()[:, 0], 0.0)
    velocity = np.zeros(4)
    for _ in range(2):
        training = tuple(array[0::2] for array in data)
        held_out = tuple(array[1::2] for array in data)
        if mode == "second_order":
            held_out_loss, gradient = second_order(
                training, held_out, gates, weights, velocity, rate, momentum, decay, length
            )
        else:
            held_out_loss, gradient, _ = linear_gradients(held_out, gates, weights)
        gates = gates - 0.1 * gradient
        loss, _, slopes = linear_gradients(training, gates, weights)
        # Keras takes the decay off the weights, not off the velocity.
        velocity = momentum * velocity + slopes
        weights = weights - rate * (decay * weights + velocity)
        logs = search.train_on_batch(*data, return_dict=True)
        np.testing.assert_allclose(logs["loss"], loss, rtol=1e-6)
        np.testing.assert_allclose(logs["architecture_loss"], held_out_loss, rtol=1e-6)
        np.testing.assert_allclose(layer.gates.numpy(), gates, rtol=1e-6)
        np.testing.assert_allclose(layer.kernel.numpy()[:, 0], weights[:3], rtol=1e-6)
        np.testing.assert_allclose(layer.bias.numpy(), weights[3:], rtol=1e-6)


def smooth_loss(values, x, y):
    """The loss of `smooth_search` in plain TensorFlow."""
    gates, kernel, bias, head, head_bias = values
    hidden = tf.tanh(tf.matmul(x * gates, kernel) + bias)
    return tf.reduce_mean(tf.square(tf.matmul(hidden, head) + head_bias - y))


def smooth_search(mode, rate, perturbation):
    keras.utils.set_random_seed(8)
    search = SearchModel(
        keras.Sequential(
            [
                keras.Input((4,)),
                GatedDense(5),
                keras.layers.Activation("tanh"),
                keras.layers.Dense(2),
            ]
        )
    )
    optimizers = keras.optimizers.SGD(rate), keras.optimizers.SGD(1.0)
    search.compile(*optimizers, "mse", mode=mode, perturbation=perturbation, run_eagerly=True)
    return search


def test_second_order_is_close_to_the_exact_derivative(float64, rng):
    """At most 2e-5 away, where the first order misses a tenth or more."""
    rate = 0.3
    x, y = rng.normal(size=(12, 4)), rng.normal(size=(12, 2))
    search = smooth_search("second_order", rate, 3e-3)
    values = [tf.constant(v.numpy()) for v in search.trainable_variables]
    with tf.GradientTape() as outer:
        outer.watch(values)
        with tf.GradientTape() as inner:
            inner.watch(values)
            loss = smooth_loss(values, x[0::2], y[0::2])
        slopes = inner.gradient(loss, values)
        ahead = [values[0]] + [v - rate * s for v, s in zip(values[1:], slopes[1:], strict=True)]
        held_out_loss = smooth_loss(ahead, x[1::2], y[1::2])
    exact = outer.gradient(held_out_loss, values)[0].numpy()
    errors = {}
    for mode, length in (("second_order", 3e-3), ("second_order", 0.1), ("first_order", 0.01)):
        search = smooth_search(mode, rate, length)
        gates = search.model.layers[0].gates
        before = gates.numpy()
        search.train_on_batch(x, y)
        found = before - gates.numpy()
        errors[mode, length] = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    assert errors["second_order", 3e-3] < 2e-5
    assert errors["second_order", 3e-3] < errors["second_order", 0.1] / 100
    assert errors["first_order", 0.01] > 0.1


def stateful_model():
    """A model with all kinds of state: statistics, random state, and losses of its own."""
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.BatchNormalization(),
            GatedDense(5),
            keras.layers.ActivityRegularization(l2=0.1),
            keras.layers.Dropout(0.4, seed=1),
            keras.layers.Dense(3, activation="softmax", kernel_regularizer="l2"),
        ]
    )


@pytest.mark.parametrize("mode", ["first_order", "second_order"])
def test_measuring_the_architecture_leaves_no_trace(mode):
    """With an architecture that stays, training is to the bit that of the training data alone."""
    x, y = classification_data()
    weights = keras.optimizers.SGD(0.1, momentum=0.9)
    keras.utils.set_random_seed(4)
    search = SearchModel(stateful_model())
    search.compile(
        weights, keras.optimizers.SGD(0.0), LOSS, metrics=["accuracy"], mode=mode, run_eagerly=True
    )
    keras.utils.set_random_seed(4)
    twin = stateful_model()
    twin.layers[1].gates.trainable = False
    twin.compile(
        keras.optimizers.SGD(0.1, momentum=0.9), LOSS, metrics=["accuracy"], run_eagerly=True
    )
    ours = search.fit(x[:8], y[:8], architecture_validation_data=(x[12:], y[12:]), **FIT).history
    theirs = twin.fit(x[:8], y[:8], **FIT).history
    assert {name: ours[name] for name in theirs} == theirs
    assert set(ours) - set(theirs) == {"architecture_change", "architecture_loss"}
    for a, b in zip(search.model.variables, twin.variables, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_architecture_loss_has_every_term():
    """Regularizers, losses of layers and the complexity term, as in evaluation."""

    def make():
        inputs = keras.Input((4,))
        hidden = keras.layers.ActivityRegularization(l2=0.1)(GatedDense(3)(inputs))
        outputs = {
            "label": keras.layers.Dense(3, activation="softmax", name="label")(hidden),
            "value": keras.layers.Dense(1, kernel_regularizer="l2", name="value")(hidden),
        }
        return keras.Model(inputs, outputs)

    x, y = classification_data(16)
    targets = {"label": y, "value": x[:, :1]}
    search = SearchModel(make())
    search.compile(
        keras.optimizers.SGD(0.0),
        keras.optimizers.SGD(0.0),
        {"label": LOSS, "value": "mse"},
        mode="first_order",
        complexity_target=5.0,
        complexity_weight=0.5,
        run_eagerly=True,
    )
    data = x[8:], {name: values[8:] for name, values in targets.items()}
    first = x[:8], {name: values[:8] for name, values in targets.items()}
    logs = search.fit(*first, architecture_validation_data=data, **FIT).history
    for name, expected in (("loss", first), ("architecture_loss", data)):
        evaluated = search.evaluate(*expected, batch_size=4, return_dict=True, verbose=0)
        np.testing.assert_allclose(logs[name][0], evaluated["loss"], rtol=1e-6)
    assert "architecture_loss" not in evaluated


def test_without_weights_or_direction_there_is_a_gradient(float64, rng):
    """Weights that are all frozen, and held-out data that are fitted perfectly."""
    x, y = linear_data(rng)
    search = linear_search("second_order", keras.optimizers.SGD(0.0))
    y[1::2] = x[1::2] @ (search.model.layers[0].gates.numpy()[:, None] * [[0.3], [-0.8], [1.1]])
    search.train_on_batch(x, y)
    np.testing.assert_allclose(search.model.layers[0].gates.numpy(), [1.0, 0.5, -0.7], atol=1e-12)
    layer = search.model.layers[0]
    layer.kernel.trainable = layer.bias.trainable = False
    search.compile("sgd", keras.optimizers.SGD(0.1), "mse", mode="second_order", run_eagerly=True)
    _, gradient, _ = linear_gradients(
        (x[1::2], y[1::2] + 1), np.array([1.0, 0.5, -0.7]), np.array([0.3, -0.8, 1.1, 0])
    )
    y[1::2] += 1
    search.train_on_batch(x, y)
    expected = np.array([1.0, 0.5, -0.7]) - 0.1 * gradient
    np.testing.assert_allclose(layer.gates.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("mode", bilevel.MODES)
def test_backends_that_lack_the_modes_are_named(mode, monkeypatch):
    search = SearchModel(gated_model())
    monkeypatch.setattr(bilevel, "BACKENDS", ("jax",))
    with pytest.raises(ValueError, match=f"mode='{mode}', backend='tensorflow'"):
        search.compile("sgd", "sgd", LOSS, mode=mode)


def test_a_gradient_that_is_missing_is_that_of_the_correction():
    """Held-out data that do not meet a part of the architecture, which training data do."""
    found = bilevel._corrected([None, np.array(5.0), None], [np.array(2.0), None, None], 0.0)
    assert [None if gradient is None else float(gradient) for gradient in found] == [-2, 5, None]


@pytest.mark.parametrize("mode", ["first_order", "alternating"])
def test_both_halves_have_their_sample_weights(mode, float64, rng):
    search = linear_search(mode, keras.optimizers.SGD(0.05))
    layer = search.model.layers[0]
    (x, y), weight = linear_data(rng), rng.uniform(0.1, 2.0, 8)
    gates, weights = layer.gates.numpy(), np.append(layer.kernel.numpy()[:, 0], 0.0)
    # The bias is zero, so that the weight of a square is the square of a factor of both sides.
    root = np.sqrt(weight)[:, None]
    loss, gradient, _ = linear_gradients(
        (root[1::2] * x[1::2], root[1::2] * y[1::2]), gates, weights
    )
    logs = search.train_on_batch(x, y, sample_weight=weight, return_dict=True)
    np.testing.assert_allclose(layer.gates.numpy(), gates - 0.1 * gradient, rtol=1e-6)
    np.testing.assert_allclose(logs["architecture_loss"], loss, rtol=1e-6)


def test_the_mean_of_the_architecture_loss_is_one_over_samples(float64, rng):
    search = linear_search("first_order", keras.optimizers.SGD(0.0), architecture_rate=0.0)
    x, y = linear_data(rng, 12)
    data = x[6:], y[6:]
    logs = search.fit(x[:6], y[:6], architecture_validation_data=data, **FIT).history
    expected = search.evaluate(*data, batch_size=6, verbose=0)
    np.testing.assert_allclose(logs["architecture_loss"][0], expected, rtol=1e-6)
