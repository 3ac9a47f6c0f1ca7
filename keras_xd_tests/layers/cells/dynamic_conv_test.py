import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.graph.cost import complexity
from keras_xd.layers.cells.dynamic_conv import WAYS, DynamicKernel, dynamic_depthwise_conv, widened
from keras_xd.testing import assert_close, check_config, check_layer
from keras_xd_tests.layers.cells import cell_references
from keras_xd_tests.layers.cells.cell_references import randomized


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sizes", [(5, 6), (7, 4)])
@pytest.mark.parametrize("size, strides", [(3, 1), (5, 1), (3, 2), (5, 3), (1, 2)])
def test_convolution_equals_numpy(way, sizes, size, strides, rng):
    x = rng.standard_normal((3, *sizes, 2)).astype("float32")
    kernels = rng.standard_normal((3, size, size, 2)).astype("float32")
    y = keras.ops.convert_to_numpy(
        dynamic_depthwise_conv(x, keras.ops.array(kernels), strides, way)
    )
    assert_close(y, cell_references.dynamic(x, kernels, strides).astype("float32"))


@pytest.mark.parametrize("size, strides", [(3, 1), (5, 1), (7, 1), (5, 2)])
def test_gradients_of_both_ways_are_those_of_numpy(size, strides, rng):
    import tensorflow as tf

    outputs = (2, 4 // strides, -(-3 // strides), 2)
    x, kernels, seen = (
        rng.standard_normal(shape) for shape in ((2, 4, 3, 2), (2, size, size, 2), outputs)
    )
    direction = [rng.standard_normal(value.shape) for value in (x, kernels)]

    def loss(step):
        moved = (value + step * d for value, d in zip((x, kernels), direction, strict=True))
        return np.sum(seen * cell_references.dynamic(*moved, stride=strides))

    expected = (loss(1e-4) - loss(-1e-4)) / 2e-4
    for way in WAYS:
        inputs = [tf.constant(value) for value in (x, kernels)]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y = tf.reduce_sum(seen * dynamic_depthwise_conv(*inputs, strides, way))
        found = sum(
            np.sum(gradient * d)
            for gradient, d in zip(tape.gradient(y, inputs), direction, strict=True)
        )
        assert found == pytest.approx(expected, rel=1e-6)


def test_kernels_are_summed_before_the_convolution(rng):
    x = rng.standard_normal((2, 5, 4, 3)).astype("float32")
    three, five = (rng.standard_normal((2, k, k, 3)).astype("float32") for k in (3, 5))
    together = widened(keras.ops.array(three), 5) + five
    expected = cell_references.dynamic(x, three) + cell_references.dynamic(x, five)
    y = keras.ops.convert_to_numpy(dynamic_depthwise_conv(x, together))
    assert_close(y, expected.astype("float32"))
    # The same with the channels before the taps.
    moved = widened(keras.ops.transpose(three, (0, 3, 1, 2)), 5, axes=(2, 3))
    moved = keras.ops.convert_to_numpy(keras.ops.transpose(moved, (0, 2, 3, 1)))
    np.testing.assert_array_equal(moved, keras.ops.convert_to_numpy(widened(three, 5)))


@pytest.mark.parametrize("kernel_size, affine", [(3, True), (5, False)])
def test_kernel_equals_numpy(kernel_size, affine, rng):
    x = rng.standard_normal((3, 4, 5, 16)).astype("float32")
    layer = DynamicKernel(kernel_size, affine=affine)
    layer.build(x.shape)
    randomized(layer, rng)
    kernel = keras.ops.convert_to_numpy(layer(x))
    assert_close(kernel, cell_references.dynamic_kernel(layer, x).astype("float32"))
    np.testing.assert_allclose(kernel.sum((1, 2)), 1, rtol=1e-5)
    assert kernel.min() > 0


def test_convolution_layer_equals_numpy(rng):
    x = rng.standard_normal((3, 5, 4, 16)).astype("float32")
    layer = layers.DynamicConv2D(3, strides=2)
    layer.build(x.shape)
    randomized(layer, rng)
    expected = cell_references.dynamic(
        x, cell_references.dynamic_kernel(layer.dynamic_kernel, x), stride=2
    )
    assert_close(keras.ops.convert_to_numpy(layer(x)), expected.astype("float32"))


def test_number_of_parameters_is_the_papers():
    counts = []
    for channels in (64, 128, 256):
        layer = layers.DynamicConv2D(3)
        layer.build((None, 8, 8, channels))
        counts.append(sum(int(np.prod(v.shape)) for v in layer.trainable_variables))
        assert counts[-1] == channels**2 // 4 + channels // 4 + 9 * channels
    assert sum(counts) == 25_648  # 0.03 M in table 1


def test_multiply_adds():
    layer = layers.DynamicConv2D(5, strides=2)
    layer.build((None, 7, 6, 16))
    # Bottleneck, transform, context and decode, then the convolution.
    expected = 42 * 16 * 2 + 42 * 16 * 25 + 42 * 2 * 25 + 25 * 2 * 16 + 4 * 3 * 16 * 25
    assert layer.multiply_adds((None, 7, 6, 16)) == complexity(layer) == expected


def test_is_a_keras_layer():
    """XLA compiles it as part of a `SelfCalibration`."""
    arguments = {"kernel_size": 3, "reduction": 2, "affine": True}
    check_config(DynamicKernel, arguments)
    check_layer(layers.DynamicConv2D, {**arguments, "strides": 1}, (4, 5, 4, 4), run_jit=False)


def test_few_channels_leave_one():
    assert DynamicKernel()(np.ones((1, 2, 2, 3))).shape == (1, 3, 3, 3)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"kernel_size": 4}, "odd"),
        ({"kernel_size": 0}, "`kernel_size`"),
        ({"strides": 0}, "`strides`"),
        ({"reduction": 1.5}, "`reduction`"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.DynamicConv2D(**arguments)


@pytest.mark.parametrize("shape", [(None, 4, 4), (None, None, 4, 4), (None, 4, 4, 4, 4)])
def test_bad_shapes(shape):
    with pytest.raises(ValueError, match="batch, height, width, channels"):
        layers.DynamicConv2D().build(shape)
    with pytest.raises(ValueError, match="`way`"):
        dynamic_depthwise_conv(np.ones((1, 2, 2, 1)), np.ones((1, 1, 1, 1)), way="loop")
