import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd import kmatrix, layers
from keras_xd.layers.xd import axis_layout, placed_kernel
from keras_xd.testing import assert_close


def with_form(layer, direct):
    """Let every axis of a built layer apply `L` directly, or by its columns."""
    axes = [dataclasses.replace(axis, direct=direct) for axis in layer._kernel_axes]
    layer._kernel_axes = tuple(axes)


def forms(layer):
    return [axis.direct for axis in layer._kernel_axes]


KERNEL_ALONE = {"frequency_bias": False, "channel_gates": False}
LAYERS = {
    "long": (
        lambda: layers.XDConv1D(3, 200, padding="circular", depth=(1, 3, 1), **KERNEL_ALONE),
        (2, 400, 2),
    ),
    "dilated": (lambda: layers.XDConv1D(4, 20, padding="same", dilation_rate=3, groups=2), (40, 4)),
    "window": (lambda: layers.XDConv1D(2, 40, padding="same", window_size=3), (2, 50, 1)),
    "2d": (lambda: layers.XDConv2D(3, (5, 18), padding="same"), (2, 20, 18, 2)),
    "causal": (lambda: layers.XDCausalConv1D(4, 6), (2, 20, 3)),
    "transposed": (lambda: layers.XDConv1DTranspose(3, 31, strides=2), (2, 30, 2)),
    "identity": (lambda: layers.XDConv1D(2, 9, padding="same", warm_start="identity"), (2, 30, 2)),
    "dilation": (
        lambda: layers.XDConv1D(
            2, 5, depth=3, dilation_rate=2, warm_start=layers.warm_starts.Convolution(True)
        ),
        (2, 30, 2),
    ),
    "composed": (
        lambda: layers.XDConv1D(
            2, 20, depth=3, warm_start=layers.warm_starts.Composed("zero", input=np.arange(30))
        ),
        (2, 30, 2),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_both_forms_have_the_same_outputs_and_gradients(name, rng):
    make, shape = LAYERS[name]
    layer = make()
    shape = shape if len(shape) > 2 else (2, *shape)
    layer.build(shape)
    for variable in layer.architecture_variables:
        value = keras.ops.convert_to_numpy(variable)
        size = np.abs(value).max() or 1.0
        variable.assign_add(0.1 * size * rng.standard_normal(value.shape).astype("float32"))
    x = tf.constant(rng.standard_normal(shape), "float32")
    weights = tf.constant(rng.standard_normal(layer.compute_output_shape(shape)), "float32")
    found = []
    for direct in (False, True):
        with_form(layer, direct)
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x)
            loss = tf.reduce_sum(outputs * weights)
        variables = [variable.value for variable in layer.trainable_variables]
        found.append([outputs, *tape.gradient(loss, [x, *variables])])
    assert all(np.any(gradient) for gradient in found[0])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_less(np.linalg.norm(one - other), 1e-6 * np.linalg.norm(one))
    assert_close(layer.finalize("kernel")(x), outputs)


def test_only_long_kernels_are_transformed_whole():
    short = layers.XDConv1D(16, 5, padding="circular")
    long = layers.XDConv1D(2, 512, padding="circular")
    by_channel = layers.XDDepthwiseConv1D(512, padding="circular")
    many = layers.XDConv1D(64, 31, padding="circular")
    dense = layers.XDConv1D(2, 64, padding="circular")
    for layer, *shape in (
        (short, None, 1024, 16),
        (long, None, 1024, 2),
        (by_channel, None, 1024, 8),
        (many, None, 1024, 64),
        (dense, 512, 64, 2),
    ):
        layer.build(tuple(shape))
    found = [forms(layer) for layer in (short, long, by_channel, many, dense)]
    assert found == [[False], [True], [True], [False], [False]]


def test_a_placement_that_mixes_weights_keeps_its_columns(rng):
    operator = layers.XDConv1D(
        2, 1023, padding="circular", warm_start="fourier_operator", use_bias=False
    )
    operator.build((None, 1024, 2))
    assert forms(operator) == [False]
    (axis,) = operator._kernel_axes
    expected = operator.warm_start.placement(operator.geometry[0])
    np.testing.assert_array_equal(axis.placement("float64"), expected)
    scaled = type("Scaled", (layers.warm_starts.Convolution,), {"placement": _twice})()
    assert scaled.placed_weights(operator.geometry[0]) is None
    assert layers.warm_starts.Perturbed(scaled, 0.0).placed_weights(operator.geometry[0]) is None
    layer = layers.XDConv1D(1, 3, warm_start=scaled, use_bias=False)
    x = rng.standard_normal((1, 9, 1)).astype("float32")
    layer(x)
    convolution = keras.ops.conv(x, layer.kernel)
    np.testing.assert_allclose(layer(x), 2 * convolution, atol=1e-5)


def _twice(self, axis):
    return 2 * axis.placement()


def test_the_kernel_is_folded_into_smaller_blocks_where_the_data_need_several():
    plans = [
        kmatrix.plan(1024, depth=3, groups=(5, 5)),
        kmatrix.plan(64, groups=(6,)),
        kmatrix.plan(256, radix=(16, 16), groups=(1, 1)),
    ]
    geometry = [axis_layout.axis_geometry(plan.n, 3, 1, 1, "circular") for plan in plans]
    large, *others = placed_kernel.kernel_plans(plans, geometry, 3)
    assert sorted(large.group_sizes) == [8, 8, 16] and large.radices == plans[0].radices
    assert others == plans[1:]
