import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.layers.mixed.discrete_operation import DARTS_OPERATIONS
from keras_xd.testing import assert_close, check_layer
from keras_xd_tests.layers.mixed import operation_references


def built(layer, rng, shape):
    """Return the layer with random weights."""
    layer.build(shape)
    for weight in layer.weights:
        weight.assign(rng.standard_normal(weight.shape))
    return layer


@pytest.mark.parametrize("name", ["convolution", *DARTS_OPERATIONS])
@pytest.mark.parametrize(
    "window, stride, padding, rate",
    [
        (3, 1, "same", 1),
        (3, 2, "same", 1),
        (5, 1, "valid", 1),
        (1, 2, "valid", 1),
        (4, 3, "valid", 1),
        (3, 1, "valid", 2),
        (3, 1, "causal", 1),
        (2, 2, "causal", 1),
    ],
)
def test_equals_numpy(name, window, stride, padding, rate, rng):
    # Each operation and each geometry with both ranks, their pairs in turn.
    number = ["convolution", *DARTS_OPERATIONS].index(name) + window + stride + rate
    rank = 1 if padding == "causal" else 1 + number % 2
    x = rng.standard_normal((2, *((9,), (6, 7))[rank - 1], 4)).astype("float32")
    arguments = {"strides": stride, "padding": padding, "dilation_rate": rate}
    layer = layers.DiscreteOperation(rank, 6, name, window, groups=2, **arguments)
    built(layer, rng, x.shape)
    y = keras.ops.convert_to_numpy(layer(x))
    assert y.shape == layer.compute_output_shape(x.shape)
    kernel = None if layer.kernel is None else np.asarray(layer.kernel)
    expected = operation_references.operation(
        name, x, 6, kernel, window=window, stride=stride, padding=padding, rate=rate
    )
    assert_close(y, expected + np.asarray(layer.bias))


def test_partial_channels(rng):
    x = rng.standard_normal((2, 7, 8)).astype("float32")
    arguments = {"strides": 2, "padding": "same", "partial_channels": 4}
    layer = built(layers.DiscreteOperation(1, 12, "convolution_5", **arguments), rng, x.shape)
    assert layer.kernel.shape == (5, 2, 3)
    y = keras.ops.convert_to_numpy(layer(x))
    convolved = operation_references.operation(
        "convolution_5", x[..., :2], 3, np.asarray(layer.kernel), stride=2, padding="same"
    )
    # "same" with windows of 2 for 7 inputs adds one place after them.
    passed = np.stack([x[:, 2 * t : 2 * t + 2, 2:].max(axis=1) for t in range(4)], axis=1)
    parts = np.concatenate([convolved, passed, np.zeros((2, 4, 3))], axis=-1)
    order = [3 * part + channel for channel in range(3) for part in range(4)]
    assert_close(y, parts[..., order] + np.asarray(layer.bias))


@pytest.mark.parametrize("name", ["dilated_convolution_3", "max_pooling_3", "average_pooling_3"])
def test_channels_first(name, rng):
    x = rng.standard_normal((2, 6, 5, 2)).astype("float32")
    arguments = {"strides": 2, "activation": "softmax"}
    last = built(layers.DiscreteOperation(2, 3, name, **arguments), rng, x.shape)
    first = layers.DiscreteOperation(2, 3, name, data_format="channels_first", **arguments)
    swapped = np.moveaxis(x, -1, 1)
    first.build(swapped.shape)
    first.set_weights(last.get_weights())
    assert first.compute_output_shape(swapped.shape) == first(swapped).shape
    # Keras' softmax acts on the last axis of a convolution's outputs, whatever that is.
    linear = layers.DiscreteOperation(2, 3, name, strides=2)
    linear.build(x.shape)
    linear.set_weights(last.get_weights())
    expected = keras.ops.softmax(keras.ops.moveaxis(linear(x), -1, 1))
    assert_close(np.asarray(first(swapped)), np.asarray(expected))


def test_multiply_adds():
    def count(name, **arguments):
        layer = layers.DiscreteOperation(2, 8, name, strides=2, padding="same", **arguments)
        return layer.multiply_adds((None, 9, 8, 4))

    assert count("convolution_3") == 5 * 4 * 9 * 4 * 8
    assert count("dilated_convolution_5", groups=4) == 5 * 4 * 25 * 1 * 8
    assert count("convolution_5", partial_channels=4) == 5 * 4 * 25 * 1 * 2
    assert [count(name) for name in DARTS_OPERATIONS[4:]] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "arguments, shape",
    [
        (
            {"rank": 2, "filters": 4, "operation": "dilated_convolution_3", "strides": 2},
            (2, 6, 5, 4),
        ),
        ({"rank": 1, "filters": 4, "operation": "average_pooling_3", "kernel_size": 5}, (2, 7, 2)),
        ({"rank": 1, "filters": 4, "operation": "zero", "partial_channels": 2}, (3, 7, 2)),
    ],
)
def test_layer_checks(arguments, shape):
    check_layer(layers.DiscreteOperation, arguments, shape, run_jit=arguments["rank"] == 2)


@pytest.mark.parametrize(
    "arguments, shape, message",
    [
        ({"operation": "convolution_0"}, None, "`operation` must be one of 'convolution'"),
        ({"rank": 4}, None, "`rank` must be one of 1, 2, 3. Received: rank=4"),
        ({"padding": "causal"}, None, "`padding` must be one of 'valid', 'same'"),
        ({"strides": 2, "dilation_rate": 2}, None, "cannot be combined"),
        ({"partial_channels": 4}, None, "divide `filters`. Received: partial_channels=4"),
        ({"groups": 4}, None, "`groups` must divide `filters`"),
        ({"groups": 2}, (None, 8, 8, 3), "must divide the number of input channels"),
        ({"partial_channels": 2}, (None, 8, 8, 3), "`partial_channels` must divide the number of"),
        ({"kernel_size": 9}, (None, 9, 8, 3), "must fit its input"),
        ({}, (None, None, 8, 3), "every spatial size to be known"),
        ({}, (None, 8, 3), "needs inputs of 4 axes"),
    ],
)
def test_bad_input(arguments, shape, message):
    arguments = {"rank": 2, "filters": 6, "operation": "skip", **arguments}
    with pytest.raises(ValueError, match=message):
        layers.DiscreteOperation(**arguments).build(shape)
