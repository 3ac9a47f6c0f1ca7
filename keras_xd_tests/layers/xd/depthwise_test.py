import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.testing import assert_close


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
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.XDDepthwiseConv1D(**{"kernel_size": 3, **arguments}).build((None, 8, 2))
