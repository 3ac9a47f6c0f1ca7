import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd import layers
from keras_xd.layers.mixed.discrete_operation import DARTS_OPERATIONS
from keras_xd.layers.mixed.mixed_operation import MixedOperation
from keras_xd.testing import assert_close, check_layer
from keras_xd_tests.layers.cells.cell_references import softmax
from keras_xd_tests.layers.mixed.discrete_operation_test import built


def decide(layer, name):
    """Give one operation the whole probability."""
    logits = [150.0 * (other == name) for other in layer.operation_names]
    layer.logits.assign(logits)


@pytest.mark.parametrize(
    "arguments, own",
    [
        ({"kernel_size": 3}, "convolution_3"),
        ({"kernel_size": 5}, "convolution_5"),
        ({"kernel_size": 3, "dilation_rate": 2}, "dilated_convolution_3"),
        ({"kernel_size": 5, "dilation_rate": 2}, "dilated_convolution_5"),
        ({"kernel_size": 7}, "convolution"),
        ({"kernel_size": (3, 5)}, "convolution"),
        ({"kernel_size": 3, "candidates": ("skip", "zero")}, "convolution"),
    ],
)
def test_the_own_convolution_is_one_of_the_operations(arguments, own, rng):
    layer = layers.MixedOperation2D(3, **arguments, padding="same")
    x = rng.standard_normal((2, 6, 6, 2)).astype("float32")
    built(layer, rng, x.shape)
    names = arguments.get("candidates", DARTS_OPERATIONS)
    assert layer.operation_names == (("convolution", *names) if own == "convolution" else names)
    assert layer.own_convolution == own
    rate = arguments.get("dilation_rate", 1)
    twin = keras.layers.Conv2D(3, arguments["kernel_size"], dilation_rate=rate, padding="same")
    twin.build(x.shape)
    twin.set_weights([layer.kernel, layer.bias])
    decide(layer, own)
    assert_close(np.asarray(layer(x)), np.asarray(twin(x)))


@pytest.mark.parametrize("other_weight", [0.1, 0.875, 0.5, None, 0])
def test_perturb(other_weight):
    layer = layers.MixedOperation1D(2, 5, padding="same", other_weight=other_weight)
    layer.build((None, 8, 2))
    described = layer.describe()
    rest = 0.875 if other_weight is None else other_weight
    expected = {name: rest / 7 for name in DARTS_OPERATIONS} | {"convolution_5": 1 - rest}
    for name, probability in expected.items():
        np.testing.assert_allclose(described[f"probability/{name}"], probability, rtol=1e-6)
    terms = [probability * np.log(probability) for probability in expected.values() if probability]
    np.testing.assert_allclose(described["entropy"], -sum(terms), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(
        described["entropy/relative"], -sum(terms) / np.log(8), rtol=1e-6, atol=1e-12
    )


def test_without_perturbation_it_is_the_convolution_to_the_bit(rng):
    x = rng.standard_normal((2, 8, 7, 3)).astype("float32")
    for padding, stride in (("same", 1), ("same", 2), ("valid", 1)):
        layer = layers.MixedOperation2D(4, 5, stride, padding, other_weight=0, activation="relu")
        twin = keras.layers.Conv2D(4, 5, stride, padding, activation="relu")
        twin.build(x.shape)
        layer.build(x.shape)
        layer.kernel.assign(twin.kernel)
        np.testing.assert_array_equal(layer(x), twin(x))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x) ** 2)
        gradient = tape.gradient(loss, layer.logits.value)
        np.testing.assert_array_equal(gradient, np.zeros(8))


@pytest.mark.parametrize(
    "kernel_size, strides, padding", [(3, 1, "same"), (4, 1, "valid"), (7, 2, "same")]
)
def test_sums_of_kernels_are_sums_of_outputs(kernel_size, strides, padding, rng):
    layer = layers.MixedOperation2D(4, kernel_size, strides, padding, other_weight=None)
    x = tf.constant(np.maximum(rng.standard_normal((2, 9, 8, 3)), 0).astype("float32"))  # has ties
    layer.build(x.shape)
    layer.logits.assign(rng.standard_normal(len(layer.operations)))
    variables = [x, *(variable.value for variable in layer.trainable_variables)]

    def apart(x):
        pairs = zip(tf.unstack(layer.probabilities), layer.operations, strict=True)
        return sum(probability * operation(x) for probability, operation in pairs) + layer.bias

    found = []
    for function in (layer, apart):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
            loss = tf.reduce_sum(tf.sin(y))
        found.append([y, *tape.gradient(loss, variables)])
    for actual, expected in zip(*found, strict=True):
        assert_close(actual, expected, 2e-6)


@pytest.mark.parametrize("partial_channels", [1, 2])
@pytest.mark.parametrize(
    "arguments",
    [{"strides": 2, "padding": "same"}, {"kernel_size": 5}, {"padding": "causal"}],
)
def test_finalized_is_the_operation_that_has_the_whole_share(arguments, partial_channels, rng):
    layer = layers.MixedOperation1D(
        **{"filters": 6, "kernel_size": 3, **arguments},
        partial_channels=partial_channels,
        activation="tanh",
        name="mixture",
    )
    x = rng.standard_normal((2, 11, 4)).astype("float32")
    built(layer, rng, x.shape)
    in_keras = {
        "same": ("convolution_3", "convolution_5"),
        "valid": ("convolution_5", "dilated_convolution_3"),  # windows of 5 places
        "causal": DARTS_OPERATIONS[:4],
    }[layer.padding]
    for name in DARTS_OPERATIONS:
        decide(layer, name)
        plain = layer.finalize()
        assert plain.name == "mixture" and plain.built
        is_keras = name in in_keras and partial_channels == 1
        assert (type(plain) is keras.layers.Conv1D) == is_keras, name
        assert_close(np.asarray(plain(x)), np.asarray(layer(x)))


@pytest.mark.parametrize("update", ["softmax", "exponentiated_gradient"])
def test_complexity_by_hand(update, rng):
    layer = layers.MixedOperation2D(8, 3, 2, padding="same", groups=2, update=update)
    built(layer, rng, (None, 7, 6, 4))
    counts = np.array([9, 25, 9, 25, 0, 0, 0, 0]) * (4 * 3) * (4 // 2) * 8
    probabilities = softmax(layer.logits)
    with tf.GradientTape() as tape:
        value = layer.complexity((None, 7, 6, 4))
    np.testing.assert_allclose(value, probabilities @ counts, rtol=1e-6)
    gradient = tape.gradient(value, layer.logits.value)
    expected = probabilities * (counts - probabilities @ counts) if update == "softmax" else counts
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-3)


def test_gradient_descent_on_logits_is_an_exponentiated_gradient_step(rng):
    """θ ← θ exp(-η g), clamped and normalised, g the gradient with respect to the probabilities."""
    layer = layers.MixedOperation1D(
        1, 3, padding="same", update="exponentiated_gradient", use_bias=False, other_weight=None
    )
    model = keras.Sequential([keras.Input((8, 1)), layer])
    x = rng.standard_normal((4, 8, 1)).astype("float32")
    y = rng.standard_normal((4, 8, 1)).astype("float32")
    rate = 5.0  # so large that some probabilities fall below the smallest
    model.compile(
        keras_xd.optimizers.architecture_optimizer(
            model, keras.optimizers.SGD(0.0), keras.optimizers.SGD(rate)
        ),
        "mse",
        run_eagerly=True,
    )
    outputs = [
        np.asarray(inner.operate(keras.ops.convert_to_tensor(x))) for inner in layer.operations
    ]
    theta = np.full(8, 1 / 8)
    for _ in range(3):
        residual = sum(t * o for t, o in zip(theta, outputs, strict=True)) - y
        gradient = np.array([np.mean(2 * residual * o) for o in outputs])
        model.train_on_batch(x, y)
        theta = theta * np.exp(-rate * gradient)
        theta = np.maximum(theta / theta.sum(), 1e-5)
        theta /= theta.sum()
        np.testing.assert_allclose(layer.probabilities, theta, rtol=2e-4)
    assert theta.min() < 1.01e-5


@pytest.mark.parametrize("update", ["softmax", "exponentiated_gradient"])
def test_search_finds_the_operation_of_the_data(update, rng):
    """Each output is the largest of three neighbours; no convolution computes that."""
    x = rng.standard_normal((256, 12, 1)).astype("float32")
    y = np.asarray(keras.layers.MaxPooling1D(3, 1, "same")(x))
    keras.utils.set_random_seed(1)
    backbone = keras.Sequential(
        [keras.Input((12, 1)), keras.layers.Conv1D(1, 3, padding="same", name="layer")]
    )
    space = keras_xd.rewrite(backbone, to="darts", update=update)
    search = keras_xd.SearchModel(space)
    rule = keras.optimizers.Adam(0.2) if update == "softmax" else keras.optimizers.SGD(0.5)
    search.compile(keras.optimizers.Adam(0.01), rule, "mse", jit_compile=False)
    search.fit(x, y, batch_size=32, epochs=15, verbose=0)
    layer = space.get_layer("layer")
    described = layer.describe()
    assert layer.largest == "max_pooling_3", described
    assert described["probability/max_pooling_3"] > 0.9, described
    found = keras_xd.finalize(search)
    bias = np.asarray(found.get_layer("layer").bias)
    np.testing.assert_allclose(np.asarray(found(x)), y + bias, rtol=1e-5, atol=1e-6)


SEARCHED = {"update": "exponentiated_gradient", "other_weight": 0.5, "partial_channels": 4}
SEARCHED |= {"candidates": ("max_pooling_3", "average_pooling_3", "skip"), "padding": "causal"}


@pytest.mark.parametrize(
    "layer_class, arguments, shape, settled",
    [
        (MixedOperation, {"rank": 2, "padding": "same"}, (2, 6, 5, 2), "convolution_3"),
        (layers.MixedOperation1D, SEARCHED, (2, 7, 4), "convolution"),
    ],
)
def test_layer_checks(layer_class, arguments, shape, settled):
    """XLA compiles the mixtures of `dash_conv_test`."""
    arguments = {"filters": 8, "kernel_size": 3, **arguments}
    settle = functools.partial(decide, name=settled)
    check_layer(layer_class, arguments, shape, run_jit=False, settle=settle)


@pytest.mark.parametrize(
    "arguments, shape, message",
    [
        ({"candidates": ("convolution_07",)}, None, "different names of"),
        ({"candidates": ("skip", "skip")}, None, "different names of"),
        ({"candidates": ("convolution_3",)}, None, "an operation beside the convolution"),
        ({"other_weight": 1}, None, r"a number in \[0, 1\)\. Received: other_weight=1"),
        ({"update": "sgd"}, None, "`update` must be one of 'softmax', 'exponentiated_gradient'"),
        ({"partial_channels": 4}, None, "must divide `filters`"),
        ({"partial_channels": 0}, None, "must be an integer of at least 1"),
        ({"padding": "circular"}, None, "`padding` must be one of 'valid', 'same'"),
        ({}, (None, 8, None, 3), "to be known"),
    ],
)
def test_bad_input(arguments, shape, message):
    arguments = {"filters": 6, "kernel_size": 3, **arguments}
    with pytest.raises(ValueError, match=message):
        layers.MixedOperation2D(**arguments).build(shape)
