import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.graph.cost import complexity
from keras_xd.testing import assert_close, check_layer
from keras_xd_tests.layers.cells import cell_references
from keras_xd_tests.layers.cells.cell_references import randomized


def test_channel_attention_equals_numpy(rng):
    x = rng.standard_normal((3, 4, 5, 32)).astype("float32")
    layer = layers.ChannelAttention()
    layer.build(x.shape)
    randomized(layer, rng)
    y = keras.ops.convert_to_numpy(layer(x))
    assert y.shape == (3, 1, 1, 32)
    assert_close(y, cell_references.channel_attention(layer, x).astype("float32"))


@pytest.mark.parametrize("strides, affine", [(1, True), (2, False)])
def test_spatial_attention_equals_numpy(strides, affine, rng):
    x = rng.standard_normal((3, 5, 4, 32)).astype("float32")
    layer = layers.SpatialAttention(strides, affine=affine)
    layer.build(x.shape)
    randomized(layer, rng)
    y = keras.ops.convert_to_numpy(layer(x))
    assert y.shape == layer.compute_output_shape(x.shape) == (3, -(-5 // strides), 4 // strides, 1)
    assert_close(y, cell_references.spatial_attention(layer, x).astype("float32"))


def test_numbers_of_parameters_and_multiply_adds():
    shape = (None, 6, 7, 64)
    channel, spatial = layers.ChannelAttention(), layers.SpatialAttention(strides=2)
    for layer in (channel, spatial):
        layer.build(shape)
    count = [sum(int(np.prod(v.shape)) for v in m.trainable_variables) for m in (channel, spatial)]
    assert count == [2 * 64 * 4, 64 * 4 + 2 * 4 + 9 * 4]
    assert complexity(channel) == channel.multiply_adds(shape) == 2 * 64 * 4
    assert complexity(spatial) == spatial.multiply_adds(shape) == 12 * (64 * 4 + 9 * 4)


def test_few_channels_leave_one():
    assert layers.ChannelAttention()(np.ones((1, 2, 2, 3))).shape == (1, 1, 1, 3)
    assert layers.SpatialAttention()(np.ones((1, 2, 2, 3))).shape == (1, 2, 2, 1)


@pytest.mark.parametrize(
    "layer_class, arguments",
    [
        (layers.ChannelAttention, {"reduction": 2}),
        (layers.SpatialAttention, {"strides": 2, "reduction": 2, "affine": True}),
    ],
)
def test_is_a_keras_layer(layer_class, arguments):
    """XLA compiles spatial attention, which has all that the other one has, in a `DerivedCell`."""
    check_layer(layer_class, arguments, (4, 5, 4, 4), run_jit=False)


def test_bad_arguments_and_shapes():
    for layer_class in (layers.ChannelAttention, layers.SpatialAttention):
        with pytest.raises(ValueError, match="`reduction`"):
            layer_class(reduction=0)
        with pytest.raises(ValueError, match="batch, height, width, channels"):
            layer_class().build((None, 4, None, 4))
    with pytest.raises(ValueError, match="`strides`"):
        layers.SpatialAttention(strides=-1)
