import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.layers import warm_starts
from keras_xd.testing import assert_close
from keras_xd_tests.layers.xd.drop_in_checks import assert_twin


@pytest.mark.parametrize(
    "size, padding, kernel, strides, dilation",
    [
        (1, "valid", 1, 2, 1),
        (7, "same", 2, 4, 1),
        (1, "same", 5, 2, 1),
        (7, "valid", 5, 1, 3),
        (7, "same", 1, 4, 1),
        (7, "valid", 2, 4, 1),
    ],
)
def test_equals_conv1d_transpose(size, kernel, strides, dilation, padding, rng):
    arguments = dict(filters=3, kernel_size=kernel, strides=strides, padding=padding)
    twin = keras.layers.Conv1DTranspose(**arguments, dilation_rate=dilation)
    layer = layers.XDConv1DTranspose(**arguments, dilation_rate=dilation)
    assert_twin(twin, layer, rng.standard_normal((2, size, 2)).astype("float32"))


@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("kernel, strides, extra", [(2, 3, 2), (3, 2, 0), (4, 2, 0), (4, 3, 2)])
def test_output_padding(kernel, strides, extra, padding, rng):
    if padding == "same" and kernel % 2 == extra == 0:
        extra = 1  # TensorFlow itself refuses the convolution with none
    arguments = dict(
        filters=3, kernel_size=kernel, strides=strides, padding=padding, output_padding=extra
    )
    twin = keras.layers.Conv1DTranspose(**arguments)
    layer = layers.XDConv1DTranspose(**arguments)
    x = rng.standard_normal((2, 6, 2)).astype("float32")
    assert_twin(twin, layer, x)


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
