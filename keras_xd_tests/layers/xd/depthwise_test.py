import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.testing import assert_close, check_layer, check_variant
from keras_xd_tests.layers.xd.drop_in_checks import assert_signature, assert_twin

TWINS = [
    (keras.layers.DepthwiseConv1D, layers.XDDepthwiseConv1D, (9,)),
    (keras.layers.DepthwiseConv2D, layers.XDDepthwiseConv2D, (7, 8)),
]


@pytest.mark.parametrize("twin, layer_class, sizes", TWINS)
def test_every_argument_and_default_of_the_twin(twin, layer_class, sizes):
    assert_signature(twin, layer_class, 3)


# Any two of a kernel, steps and a padding together.
PAIRWISE = [
    (*kernel, *steps, ("valid", "same")[(row + column) % 2])
    for row, kernel in enumerate([(1, 3), (2, 1), (5, 3)])
    for column, steps in enumerate([(1, 1), (3, 1), (1, 2)])
]


@pytest.mark.parametrize("kernel, multiplier, strides, dilation, padding", PAIRWISE)
def test_equals_depthwise_conv1d(kernel, multiplier, strides, dilation, padding, rng):
    arguments = dict(
        kernel_size=kernel,
        strides=strides,
        padding=padding,
        dilation_rate=dilation,
        depth_multiplier=multiplier,
    )
    x = rng.standard_normal((2, 11, 4)).astype("float32")
    twin, layer = keras.layers.DepthwiseConv1D(**arguments), layers.XDDepthwiseConv1D(**arguments)
    assert_twin(twin, layer, ["kernel"], x)


@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel_size": 3, "padding": "same"},
        {"kernel_size": 3, "padding": "same", "strides": 2, "depth_multiplier": 2},
        {"kernel_size": (3, 2), "dilation_rate": 2, "use_bias": False, "activation": "relu"},
    ],
)
def test_equals_depthwise_conv2d(arguments, rng):
    x = rng.standard_normal((2, 9, 8, 3)).astype("float32")
    layer = layers.XDDepthwiseConv2D(**arguments, depth=3)
    assert_twin(keras.layers.DepthwiseConv2D(**arguments), layer, ["kernel"], x)


def test_channels_first(rng):
    arguments = dict(kernel_size=3, padding="same", depth_multiplier=2)
    last = layers.XDDepthwiseConv2D(**arguments)
    first = layers.XDDepthwiseConv2D(**arguments, data_format="channels_first")
    x = rng.standard_normal((2, 5, 6, 3)).astype("float32")
    expected = last(x)
    moved = np.moveaxis(x, -1, 1)
    assert first.compute_output_shape(moved.shape) == (2, 6, 5, 6)
    first(moved)
    first.kernel.assign(last.kernel)
    assert_close(np.moveaxis(keras.ops.convert_to_numpy(first(moved)), 1, -1), expected)


@pytest.mark.parametrize("start", ["identity", "average_pooling"])
def test_parameterless_starts(start, rng):
    x = rng.standard_normal((2, 8, 8, 3)).astype("float32")
    layer = layers.XDDepthwiseConv2D(2, strides=2, warm_start=start)
    expected = x[:, ::2, ::2] if start == "identity" else keras.layers.AveragePooling2D(2)(x)
    assert_close(layer(x), expected)
    with pytest.raises(ValueError, match="must be the number of input channels"):
        layers.XDDepthwiseConv2D(2, depth_multiplier=2, warm_start=start).build(x.shape)


def test_a_kernel_larger_than_its_window(rng):
    twin = keras.layers.DepthwiseConv2D(3, padding="same")
    layer = layers.XDDepthwiseConv2D(5, padding="same", window_size=3)
    x = rng.standard_normal((2, 8, 8, 3)).astype("float32")
    expected = twin(x)
    layer(x)
    layer.kernel.assign(np.pad(twin.kernel, ((1, 1), (1, 1), (0, 0), (0, 0))))
    assert_close(layer(x), expected)


@pytest.mark.parametrize("twin, layer_class, sizes", TWINS)
def test_layer_checks(twin, layer_class, sizes, rng):
    """All of one axis, and of two what names the layer."""
    arguments = {"kernel_size": 3, "padding": "same", "depth_multiplier": 2, "depth": (1, 2, 1)}
    shape = (3, *(3, 4)[: len(sizes)], 2)
    if len(sizes) == 1:
        check_layer(layer_class, arguments, shape)
    else:
        check_variant(layer_class, arguments, shape, rng)


def test_multiply_adds_by_hand():
    layer = layers.XDDepthwiseConv1D(3, padding="circular", depth_multiplier=2, radix=8)
    layer.build((None, 8, 4))
    assert layer.complexity((None, 8, 4)) == 2 * 8 * 8 * 4 + 4 * 8 * 8 + 2 * 8 * 8 * 8


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"depth_multiplier": 0}, "depth_multiplier"),
        ({"padding": "causal"}, "padding"),
        ({"kernel_size": 9}, "must not be larger than the padded input"),
        ({"strides": 2, "dilation_rate": 2}, "cannot be combined"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.XDDepthwiseConv1D(**{"kernel_size": 3, **arguments}).build((None, 8, 2))
