import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.layers import warm_starts
from keras_xd.testing import assert_close, check_layer, check_variant
from keras_xd_tests.layers.xd.drop_in_checks import assert_signature, assert_twin

TWINS = [
    (keras.layers.Conv1DTranspose, layers.XDConv1DTranspose, (9,)),
    (keras.layers.Conv2DTranspose, layers.XDConv2DTranspose, (5, 6)),
    (keras.layers.Conv3DTranspose, layers.XDConv3DTranspose, (3, 4, 5)),
]


@pytest.mark.parametrize("twin, layer_class, sizes", TWINS)
def test_every_argument_and_default_of_the_twin(twin, layer_class, sizes):
    assert_signature(twin, layer_class, 2, 3)


# Every two of a step, a kernel, a size and a padding together, not all four.
SIZES = [(1, "valid"), (7, "same"), (1, "same"), (7, "valid")]
STEPS = [(1, 1), (2, 1), (4, 1), (1, 3)]
PAIRWISE = [
    (*SIZES[(row + column) % 4], kernel, *steps)
    for row, kernel in enumerate((1, 2, 5))
    for column, steps in enumerate(STEPS)
]


@pytest.mark.parametrize("size, padding, kernel, strides, dilation", PAIRWISE)
def test_equals_conv1d_transpose(size, kernel, strides, dilation, padding, rng):
    arguments = dict(filters=3, kernel_size=kernel, strides=strides, padding=padding)
    twin = keras.layers.Conv1DTranspose(**arguments, dilation_rate=dilation)
    layer = layers.XDConv1DTranspose(**arguments, dilation_rate=dilation)
    x = rng.standard_normal((2, size, 2)).astype("float32")
    assert_twin(twin, layer, ["kernel"], x)


@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("kernel", [2, 3, 4])
@pytest.mark.parametrize("strides, extra", [(2, 0), (3, 2)])
def test_output_padding(kernel, strides, extra, padding, rng):
    if padding == "same" and kernel % 2 == extra == 0:
        extra = 1  # TensorFlow itself refuses the convolution with none
    arguments = dict(
        filters=3, kernel_size=kernel, strides=strides, padding=padding, output_padding=extra
    )
    twin = keras.layers.Conv1DTranspose(**arguments)
    layer = layers.XDConv1DTranspose(**arguments)
    x = rng.standard_normal((2, 6, 2)).astype("float32")
    assert_twin(twin, layer, ["kernel"], x)


@pytest.mark.parametrize("twin, layer_class, sizes", TWINS[1:])
@pytest.mark.parametrize("padding", ["valid", "same"])
def test_equals_the_twins_of_higher_rank(twin, layer_class, sizes, padding, rng):
    rank = len(sizes)
    arguments = dict(
        filters=4,
        kernel_size=(2, 3, 4)[:rank],
        strides=(3, 1, 2)[:rank],
        padding=padding,
        activation="relu",
    )
    x = rng.standard_normal((2, *sizes, 3)).astype("float32")
    layer = layer_class(**arguments, depth=(2, 1, 3))
    assert_twin(twin(**arguments), layer, ["kernel"], x)


def test_several_groups_of_blocks(rng):
    arguments = dict(filters=2, kernel_size=5, strides=3, padding="same")
    twin = keras.layers.Conv1DTranspose(**arguments)
    layer = layers.XDConv1DTranspose(**arguments, depth=3)
    x = rng.standard_normal((1, 400, 1)).astype("float32")
    assert_twin(twin, layer, ["kernel"], x)
    assert len(layer.plans[0].groups) > 1


def test_channels_first(rng):
    arguments = dict(filters=4, kernel_size=3, strides=2, padding="same")
    last = layers.XDConv2DTranspose(**arguments)
    first = layers.XDConv2DTranspose(**arguments, data_format="channels_first")
    x = rng.standard_normal((2, 5, 6, 3)).astype("float32")
    expected = last(x)
    moved = np.moveaxis(x, -1, 1)
    assert first.compute_output_shape(moved.shape) == (2, 4, 10, 12)
    first(moved)
    first.kernel.assign(last.kernel)
    assert_close(np.moveaxis(keras.ops.convert_to_numpy(first(moved)), 1, -1), expected)


@pytest.mark.parametrize("strides, dilation", [(1, 1), (2, 1), (1, 2)])
def test_circular_padding_adds_at_the_other_end(strides, dilation, rng):
    layer = layers.XDConv1DTranspose(
        2, 3, strides, "circular", dilation_rate=dilation, use_bias=False
    )
    x = rng.standard_normal((2, 6, 3)).astype("float32")
    actual = layer(x)
    kernel = keras.ops.convert_to_numpy(layer.kernel)
    count, left = 6 * strides, max(dilation * 2 + 1 - strides, 0) // 2
    expected = np.zeros((2, count, 2))
    for s in range(6):
        for j in range(3):
            expected[:, (strides * s + dilation * j - left) % count] += x[:, s] @ kernel[j].T
    assert_close(actual, expected)


def test_zero_and_composed_starts(rng):
    x = rng.standard_normal((2, 6, 3)).astype("float32")
    zero = layers.XDConv1DTranspose(2, 3, 2, "same", warm_start="zero", use_bias=False)
    np.testing.assert_array_equal(zero(x), np.zeros((2, 12, 2)))
    before, after = rng.permutation(6), rng.permutation(12)
    start = warm_starts.Composed("convolution", input=before, output=after)
    layer = layers.XDConv1DTranspose(2, 3, 2, "same", depth=3, warm_start=start)
    twin = keras.layers.Conv1DTranspose(2, 3, 2, "same")
    layer(x)
    twin(x[:, before])
    twin.kernel.assign(layer.kernel)
    expected = keras.ops.convert_to_numpy(twin(x[:, before]))[:, after]
    assert_close(layer(x), expected)


@pytest.mark.parametrize("twin, layer_class, sizes", TWINS)
def test_layer_checks(twin, layer_class, sizes, rng):
    """All of one axis, and of more what names the layer; XLA compiles the same of `XDConv`."""
    arguments = {
        "filters": 3,
        "kernel_size": 3,
        "strides": 2,
        "padding": "same",
        "depth": (1, 2, 1),
    }
    shape = (3, *(3, 4, 2)[: len(sizes)], 2)
    if len(sizes) == 1:
        check_layer(layer_class, arguments, shape, run_jit=False)
    else:
        check_variant(layer_class, arguments, shape, rng)


def test_multiply_adds_by_hand():
    layer = layers.XDConv1DTranspose(5, 3, 2, "circular", use_bias=False, radix=16)
    layer.build((None, 8, 4))
    # 8 real inputs to 16 frequencies of 4 channels, the channel product, 16 real outputs.
    assert layer.complexity((None, 8, 4)) == 2 * 16 * 8 * 4 + 4 * 16 * 4 * 5 + 2 * 16 * 16 * 5


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"warm_start": "identity"}, "starts as 'convolution', 'zero' or 'random_unitary'"),
        ({"warm_start": "average_pooling"}, "starts as 'convolution'"),
        ({"strides": 2, "dilation_rate": 2}, "cannot be combined"),
        ({"strides": 2, "output_padding": 2}, r"less than the strides.*output_padding=2"),
        ({"output_padding": -1}, "less than the strides"),
        ({"strides": 2, "output_padding": 1, "padding": "circular"}, "must be None"),
        ({"padding": "causal"}, "padding"),
        ({"padding": "circular", "kernel_size": 9}, "at least as many as its kernel spans"),
        ({"radix": (2, 4)}, "multiply to at least 10"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        layer = layers.XDConv1DTranspose(**{"filters": 2, "kernel_size": 3, **arguments})
        layer.build((None, 8, 2))
