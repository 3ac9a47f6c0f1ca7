"""Signatures of layers, and outputs of convolutions that TensorFlow with oneDNN leaves unset."""

import inspect

import numpy as np
import pytest

from keras_xd import layers
from keras_xd.core.convolutions import convolution
from keras_xd.layers.k.k_dense import KDense
from keras_xd.testing import assert_close


def expected(x, kernel, strides):
    """Return a convolution by NumPy, without padding and with channels last."""
    *window, _, _ = kernel.shape
    axes = tuple(range(1, 1 + len(window)))
    windows = np.lib.stride_tricks.sliding_window_view(x, window, axis=axes)
    windows = windows[(slice(None), *(slice(None, None, step) for step in strides))]
    windows = np.moveaxis(windows, 1 + len(window), -1)  # the channels
    return np.tensordot(windows, kernel, len(window) + 1)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(
    "sizes, window, strides",
    [
        ((9,), (4,), (3,)),
        ((6, 4), (4, 4), (1, 3)),
        ((16, 3), (3, 3), (1, 2)),
        ((9, 8), (3, 2), (1, 2)),
        ((4, 6, 4), (2, 4, 4), (1, 1, 3)),
        ((4, 6, 4), (2, 4, 4), (2, 1, 3)),
    ],
)
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_every_output_is_computed(sizes, window, strides, channels, data_format, rng):
    x = rng.standard_normal((2, *sizes, channels)).astype("float32")
    kernel = rng.standard_normal((*window, channels, 8)).astype("float32")
    given = x if data_format == "channels_last" else np.moveaxis(x, -1, 1)
    outputs = convolution(given, kernel, strides, "valid", data_format, (1,) * len(sizes))
    if data_format == "channels_first":
        outputs = np.moveaxis(np.asarray(outputs), 1, -1)
    assert_close(np.asarray(outputs), expected(x, kernel, strides))


@pytest.mark.parametrize("kind", ["masked", "discrete", "mixture"])
def test_layers_compute_every_output(kind, rng):
    options = {"kernel_size": 4, "strides": (1, 3), "use_bias": False}
    layer = {
        "masked": lambda: layers.MaskedConv2D(3, **options),
        "discrete": lambda: layers.DiscreteOperation(2, 3, "convolution", **options),
        "mixture": lambda: layers.MixedOperation2D(3, other_weight=0.0, **options),
    }[kind]()
    x = rng.standard_normal((2, 6, 4, 1)).astype("float32")
    outputs = np.asarray(layer(x))
    assert_close(outputs, expected(x, np.asarray(layer.kernel), (1, 3)))


@pytest.mark.parametrize(
    "layer",
    [
        layers.XDConv2D(2, 3),
        layers.XDSeparableConv2D(2, 3),
        layers.DashConv2D(2, 3, kernel_sizes=(3,), dilations=(1, 2)),
        layers.StructuredDense(4, "low_rank"),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_the_signature_of_a_layer_is_that_of_its_call(layer):
    """By which `tf.function(layer)` takes its arguments; that of a class is its constructor's."""
    assert inspect.signature(layer) == inspect.signature(layer.__call__)
    assert list(inspect.signature(type(layer)).parameters)[0] in {"filters", "units"}


@pytest.mark.parametrize(
    ("kind", "taken", "refused"),
    [
        (KDense, {"units", "warm_start", "bias_constraint", "activity_regularizer"}, set()),
        (layers.FlexConv1D, {"alias_penalty", "temperature", "convolution", "use_bias"}, {"rank"}),
        (layers.StaticKernelXD, {"axes", "kernel_size", "storage", "activation"}, {"pieces"}),
        (layers.MixedEinsumDense, {"equation", "densities", "bias_axes"}, {"density", "use_bias"}),
        (layers.XDCausalConv1D, {"dilation_rate", "depth", "bias_initializer"}, {"padding"}),
    ],
)
def test_a_class_shows_the_arguments_that_it_hands_on(kind, taken, refused):
    shown = inspect.signature(kind).parameters
    assert taken <= set(shown) and not refused & set(shown)
    assert list(shown)[-1] == "kwargs"  # name, dtype and the rest of Keras' layers
