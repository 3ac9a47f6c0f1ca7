"""Frozen forms beside the operation that is computed from the variables, gradients too."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd import layers
from keras_xd.core import frozen_forms
from keras_xd.layers import warm_starts
from keras_xd.layers.xd import frozen
from keras_xd.testing import assert_close

IMAGE, SIGNAL = (2, 6, 7, 4), (2, 11, 4)
CONVOLUTIONS = [
    (layers.XDConv1D, {"padding": "valid", "strides": 2}, SIGNAL),
    (layers.XDConv1D, {"padding": "causal", "dilation_rate": 2}, SIGNAL),
    (layers.XDConv1D, {"padding": "circular", "strides": 3, "data_format": "channels_first"}, None),
    (layers.XDConv1D, {"padding": "same", "window_size": 1}, SIGNAL),
    (layers.XDConv1D, {"padding": "circular", "kernel_size": 4, "window_size": 3}, SIGNAL),
    (layers.XDConv2D, {"padding": "same", "strides": 2, "kernel_size": (3, 2)}, IMAGE),
    (layers.XDConv2D, {"padding": "same", "depth": 3, "dilation_rate": 2}, IMAGE),
    (layers.XDConv2D, {"padding": "same", "groups": 2, "channel_gates": True}, IMAGE),
    (layers.XDConv2D, {"frequency_bias": True, "data_format": "channels_first"}, (2, 4, 6, 5)),
    (layers.XDConv2DTranspose, {"padding": "same", "strides": 2, "output_padding": 1}, IMAGE),
    (layers.XDConv2DTranspose, {"padding": "valid", "strides": (3, 2), "kernel_size": 2}, IMAGE),
    (layers.XDDepthwiseConv2D, {"padding": "same", "depth_multiplier": 2}, IMAGE),
    (layers.XDDepthwiseConv1D, {"padding": "valid", "strides": 2, "dilation_rate": 1}, SIGNAL),
    (layers.XDCausalConv1D, {"strides": 2}, SIGNAL),
    (layers.XDCausalConv1D, {"dilation_rate": 2, "data_format": "channels_first"}, SIGNAL),
    (layers.KOpConv2D, {"padding": "same"}, IMAGE),
]
DILATION = warm_starts.Convolution(trainable_dilation=True)
FOLDED = [
    (layers.XDConv2D, {"warm_start": warm_starts.Perturbed("convolution", 0.2), "seed": 1}, IMAGE),
    (layers.XDConv2D, {"warm_start": warm_starts.Perturbed("convolution", 0.0)}, IMAGE),
    (layers.XDConv1D, {"warm_start": "random_unitary", "depth": 4, "seed": 1}, (2, 97, 3)),
    (layers.XDConv1D, {"warm_start": "random_unitary", "kernel_size": 255, "seed": 2}, (2, 256, 1)),
    (layers.XDConv1D, {"warm_start": "fourier_operator", "padding": "circular"}, SIGNAL),
    (layers.XDCausalConv1D, {"warm_start": "random_triangular", "seed": 1}, SIGNAL),
    (layers.XDConv2DTranspose, {"padding": "circular", "strides": 2}, IMAGE),
    (layers.XDDepthwiseConv2D, {"strides": (2, 1), "padding": "same"}, IMAGE),
    (layers.XDDepthwiseConv, {"rank": 3, "padding": "same"}, (2, 4, 3, 5, 2)),
    (layers.XDConv1D, {"warm_start": "average_pooling", "dilation_rate": 2, "filters": 4}, SIGNAL),
]


def make(kind, arguments, shape):
    """Return a built layer whose kernel and bias are random, and inputs."""
    keras.utils.set_random_seed(2)
    arguments = {"kernel_size": 3, **arguments}
    if "Depthwise" not in kind.__name__:
        arguments = {"filters": 6, **arguments}
    layer = kind(**arguments)
    generator = np.random.default_rng(3)
    x = generator.normal(size=shape or (2, 4, 11)).astype("float32")
    layer.build(x.shape)
    for variable in (layer.kernel, layer.bias):
        variable.assign(generator.normal(size=variable.shape) / 3)
    return layer, x


def outputs_and_gradients(layer, x, form):
    """Return the outputs, and the gradients of a nonlinear loss by inputs, kernel and bias."""
    x = tf.constant(x)
    variables = [layer.kernel.value, layer.bias.value]
    forms = {} if form is None else {id(layer): (layer, form)}
    with frozen_forms.using(forms), tf.GradientTape() as tape:
        tape.watch(x)
        outputs = layer(x)
        factors = tf.reshape(tf.cos(tf.range(tf.size(outputs), dtype="float32")), outputs.shape)
        loss = tf.reduce_sum(tf.cast(outputs, "float32") ** 2 * factors)
    return [outputs, *tape.gradient(loss, [x, *variables])]


def check(layer, x, expected, tolerance=1e-5):
    form = frozen.form_of(layer)
    assert getattr(form, "name", "folded") == expected
    found = outputs_and_gradients(layer, x, form)
    for one, other in zip(found, outputs_and_gradients(layer, x, None), strict=True):
        scale = max(1.0, float(np.max(np.abs(other))))
        assert_close(one / scale, other / scale, tolerance)
    return form


@pytest.mark.parametrize("kind, arguments, shape", CONVOLUTIONS)
def test_convolutions(kind, arguments, shape):
    check(*make(kind, arguments, shape), "convolution")


# Each class, each padding, both data formats, groups, strides and dilation.
@pytest.mark.parametrize("kind, arguments, shape", [CONVOLUTIONS[i] for i in (1, 2, 7, 10, 12, 13)])
def test_zero(kind, arguments, shape):
    layer, x = make(kind, {**arguments, "warm_start": "zero"}, shape)
    check(layer, x, "zero")


def test_a_trainable_dilation_begins_as_a_dilated_convolution():
    arguments = {"dilation_rate": 2, "depth": (1, 3, 1), "warm_start": DILATION}
    check(*make(layers.XDConv1D, arguments, SIGNAL), "convolution")


POOLED = [
    (layers.XDConv2D, {"padding": "same", "strides": 2, "kernel_size": (3, 2)}, IMAGE),
    (layers.XDConv2D, {"padding": "valid", "groups": 2}, IMAGE),
    (layers.XDConv2D, {"padding": "circular"}, IMAGE),
    (layers.XDConv1D, {"padding": "same", "kernel_size": 5, "window_size": 2}, SIGNAL),
    (layers.XDConv1D, {"padding": "causal", "data_format": "channels_first"}, (2, 4, 11)),
    (layers.XDDepthwiseConv2D, {"padding": "same"}, IMAGE),
    (layers.XDConv, {"rank": 3, "padding": "same", "strides": 2}, (2, 5, 4, 3, 4)),
]


@pytest.mark.parametrize(
    "name, kind, arguments, shape",
    # Pooling of all; the identity, which has no window, of each class, stride and data format.
    [("average_pooling", *case) for case in POOLED] + [("identity", *POOLED[i]) for i in (0, 4, 5)],
)
def test_pooling_and_identity(name, kind, arguments, shape):
    arguments = {**arguments, "warm_start": name}
    if kind is not layers.XDDepthwiseConv2D:
        arguments["filters"] = 4
    layer, x = make(kind, arguments, shape)
    check(layer, x, name)
    # The kernel counts for nothing yet; a missing gradient would leave it without weight decay.
    gradient = outputs_and_gradients(layer, x, frozen.form_of(layer))[2]
    np.testing.assert_array_equal(gradient, np.zeros(layer.kernel.shape))


@pytest.mark.parametrize("kind, arguments, shape", FOLDED)
def test_other_operations_are_folded(kind, arguments, shape):
    check(*make(kind, arguments, shape), "folded")


@pytest.mark.parametrize("kind, arguments, shape", CONVOLUTIONS[::3])
def test_an_architecture_that_has_moved_is_folded(kind, arguments, shape):
    for place in (0, -1):
        layer, x = make(kind, arguments, shape)
        variable = layer.architecture_variables[place]
        noise = np.random.default_rng(5).normal(size=variable.shape)
        variable.assign_add(0.1 * noise)
        check(layer, x, "folded")
        # Back at its start it is the convolution again.
        variable.assign(layer.start_architecture()[place])
        assert frozen.form_of(layer).name == "convolution"


def test_the_smallest_change_counts():
    layer, _ = make(*CONVOLUTIONS[0])
    variable = layer.architecture_variables[0]
    value = variable.numpy()
    value.flat[0] = np.nextafter(value.flat[0], np.float32(2))
    variable.assign(value)
    assert isinstance(frozen.form_of(layer), frozen.FoldedForm)


def test_a_start_derived_from_a_convolution_is_another_operation():
    class Doubled(warm_starts.Convolution):
        def matrices(self, axis, radices, rng, index=0):
            found = super().matrices(axis, radices, rng, index)
            last = [*found["M"][0][:-1], 2 * found["M"][0][-1]]
            return {**found, "M": [last]}

    layer, x = make(layers.XDConv1D, {"warm_start": Doubled()}, SIGNAL)
    check(layer, x, "folded")


@pytest.mark.parametrize("warm_start", ["convolution", "random_unitary", "average_pooling"])
@pytest.mark.parametrize("policy, tolerance", [("mixed_bfloat16", 3e-2), ("mixed_float16", 5e-3)])
def test_half_precision(policy, tolerance, warm_start):
    arguments = {"padding": "same", "warm_start": warm_start, "dtype": policy, "filters": 4}
    layer, x = make(layers.XDConv2D, {**arguments, "seed": 1}, IMAGE)
    name = "folded" if warm_start == "random_unitary" else warm_start
    check(layer, x, name, tolerance)
    with frozen_forms.using({id(layer): (layer, frozen.form_of(layer))}):
        assert layer(x).dtype == policy.removeprefix("mixed_")


@pytest.mark.parametrize("warm_start", ["convolution", "random_unitary"])
def test_double_precision(warm_start):
    arguments = {"padding": "same", "warm_start": warm_start, "dtype": "float64", "seed": 1}
    layer, _ = make(layers.XDConv2D, arguments, IMAGE)
    x = np.random.default_rng(1).normal(size=IMAGE)
    with frozen_forms.using({id(layer): (layer, frozen.form_of(layer))}):
        found = layer(x)
    assert found.dtype == "float64"
    assert_close(found, layer(x), 1e-12)


def test_one_dense_block_where_folding_costs_nothing():
    layer, x = make(layers.XDConv1D, {"depth": 3, "padding": "same"}, (1, 131, 1))
    layer.architecture_variables[0].assign_add(0.01)
    assert len(layer.plans[0].groups) > 1
    (analysis,), _, (synthesis,) = check(layer, x, "folded").transforms
    assert len(analysis.plan.groups) == len(synthesis.plan.groups) == 1


def test_inputs_are_continued_by_zeros_or_periodically():
    x = np.arange(5.0).reshape(1, 5, 1)
    assert np.ravel(frozen.padded(x, [(2, 1)], False)).tolist() == [0, 0, 0, 1, 2, 3, 4, 0]
    assert np.ravel(frozen.padded(x, [(2, 1)], True)).tolist() == [3, 4, 0, 1, 2, 3, 4, 0]
    assert np.ravel(frozen.padded(x, [(0, 2)], True)).tolist() == [0, 1, 2, 3, 4, 0, 1]
    assert frozen.padded(x, [(0, 0)], True) is x
