"""The operations of cells, each a layer, against NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_xd
from keras_xd import layers
from keras_xd.layers.cells.attention import ChannelAttention, SpatialAttention
from keras_xd.layers.cells.dynamic_conv import (
    WAYS,
    DynamicConv2D,
    DynamicKernel,
    dynamic_depthwise_conv,
)
from keras_xd.layers.cells.features import FactorizedReduce, FeatureOperation, ReLUConvBN
from keras_xd.layers.cells.genotypes import DYNAMIC_OPERATIONS, FEATURE_OPERATIONS, XD_OPERATIONS
from keras_xd.testing import assert_close, check_layer
from keras_xd_tests.layers.cells import cell_references
from keras_xd_tests.layers.cells.cell_references import randomized

CALIBRATIONS = (*DYNAMIC_OPERATIONS, "spatial_attention", "channel_attention")


def calibrated(layer, x):
    """Return what a gate of -1.7 or none makes of features and an operation on them."""
    factor = {None: 1.0, "zero": -1.7, "tanh": np.tanh(-1.7)}[layer.gate]
    return cell_references.self_calibration(layer, x, factor)


CASES = [
    (ChannelAttention, {}, (3, 4, 5, 32), cell_references.channel_attention),
    (SpatialAttention, {"affine": True}, (3, 5, 4, 32), cell_references.spatial_attention),
    (SpatialAttention, {"strides": 2}, (3, 5, 4, 32), cell_references.spatial_attention),
    (DynamicKernel, {"kernel_size": 3}, (3, 4, 5, 16), cell_references.dynamic_kernel),
    (
        DynamicConv2D,
        {"kernel_size": 3, "strides": 2},
        (3, 5, 4, 16),
        cell_references.dynamic_convolution,
    ),
    (FactorizedReduce, {"filters": 5}, (2, 4, 5, 3), cell_references.factorized_reduction),
    (FactorizedReduce, {"filters": 5}, (2, 5, 4, 3), cell_references.factorized_reduction),
    (ReLUConvBN, {"filters": 5}, (2, 4, 5, 3), cell_references.pointwise_operation),
]
CASES += [
    (
        FeatureOperation,
        {"filters": 3, "operation": name, "strides": strides, "affine": affine},
        (2, *sizes, 3),
        cell_references.feature_operation,
    )
    for name in FEATURE_OPERATIONS + XD_OPERATIONS
    for strides in (1, 2)
    for affine, sizes in ((True, (5, 6)), (False, (6, 7)))
]
CASES += [
    (layers.SelfCalibration, {"operation": name, "gate": gate}, (3, 5, 4, 32), calibrated)
    for name in CALIBRATIONS
    for gate in ("zero", "tanh", None)
]


@pytest.mark.parametrize("layer_class, arguments, shape, reference", CASES)
def test_operation_equals_numpy(layer_class, arguments, shape, reference, rng):
    x = rng.standard_normal(shape).astype("float32")
    layer = layer_class(**arguments)
    layer.build(x.shape)
    searched = {id(v) for v in keras_xd.architecture_variables(layer)}
    start = [(v, ops.convert_to_numpy(v)) for v in layer.weights if id(v) in searched]
    assert bool(start) == (arguments.get("operation") in XD_OPERATIONS)
    randomized(layer, rng)
    for variable, value in start:
        variable.assign(value)
    if arguments.get("gate"):
        layer.residual_weight.assign(-1.7)
    y = ops.convert_to_numpy(layer(x))
    assert y.shape == layer.compute_output_shape(x.shape)
    assert_close(y, reference(layer, x).astype("float32"), 2e-5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sizes", [(5, 6), (7, 4)])
@pytest.mark.parametrize("size, strides", [(3, 1), (5, 1), (3, 2), (5, 3), (1, 2)])
def test_dynamic_convolution_equals_numpy(way, sizes, size, strides, rng):
    x = rng.standard_normal((3, *sizes, 2)).astype("float32")
    kernels = rng.standard_normal((3, size, size, 2)).astype("float32")
    y = ops.convert_to_numpy(dynamic_depthwise_conv(x, ops.array(kernels), strides, way))
    assert_close(y, cell_references.dynamic(x, kernels, strides).astype("float32"))


@pytest.mark.parametrize("size, strides", [(3, 1), (7, 1), (5, 2)])
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
        gradients = zip(tape.gradient(y, inputs), direction, strict=True)
        found = sum(np.sum(gradient * d) for gradient, d in gradients)
        assert found == pytest.approx(expected, rel=1e-6)


COUNTS = [
    (ChannelAttention, {}, (6, 7, 64), 2 * 64 * 4, 2 * 64 * 4),
    (
        SpatialAttention,
        {"strides": 2},
        (6, 7, 64),
        64 * 4 + 2 * 4 + 9 * 4,
        12 * (64 * 4 + 9 * 4),
    ),
    (
        DynamicConv2D,  # bottleneck, transform, context and decode, then the convolution
        {"kernel_size": 5, "strides": 2},
        (7, 6, 16),
        2 * 16 * 2 + 16 * 25 + 2 * 2,
        42 * 16 * 2 + 42 * 16 * 25 + 42 * 2 * 25 + 25 * 2 * 16 + 4 * 3 * 16 * 25,
    ),
]
COUNTS += [
    (
        FeatureOperation,
        {"filters": 6, "operation": name, "strides": 2},
        (8, 8, 6),
        weights + normalizations * 2 * 6,
        weights * 16,
    )
    for name, weights, normalizations in (
        ("separable_3", 2 * (9 * 6 + 36), 2),
        ("separable_5", 2 * (25 * 6 + 36), 2),
        ("dilated_3", 9 * 6 + 36, 1),
        ("dilated_5", 25 * 6 + 36, 1),
        ("max_pooling_3", 0, 0),
        ("average_pooling_3", 0, 0),
        ("identity", 36, 1),  # reduces the size
    )
]


@pytest.mark.parametrize("layer_class, arguments, shape, parameters, count", COUNTS)
def test_numbers_of_parameters_and_multiply_adds(layer_class, arguments, shape, parameters, count):
    layer = layer_class(**arguments)
    layer.build((None, *shape))
    assert sum(int(np.prod(v.shape)) for v in layer.trainable_variables) == parameters
    assert layer.multiply_adds((None, *shape)) == keras_xd.complexity(layer) == count


@pytest.mark.parametrize(
    "operation, other",
    [
        ("dynamic_5", DynamicConv2D(5)),
        ("spatial_attention", SpatialAttention()),
        ("channel_attention", ChannelAttention()),
    ],
)
def test_a_calibration_has_the_sizes_of_its_operation_and_a_gate(operation, other):
    shape, layer = (None, 6, 7, 64), layers.SelfCalibration(operation)
    layer.build(shape)
    other.build(shape)
    assert layer.multiply_adds(shape) == keras_xd.complexity(layer) == other.multiply_adds(shape)
    sizes = [sum(int(np.prod(v.shape)) for v in m.trainable_variables) for m in (layer, other)]
    assert sizes[0] == sizes[1] + 1


@pytest.mark.parametrize("gate", ["zero", "tanh"])
@pytest.mark.parametrize("operation", CALIBRATIONS)
def test_the_gate_makes_the_identity_at_the_start(operation, gate, rng):
    x = rng.random((3, 5, 4, 16), "float32")  # as behind a rectification
    layer = layers.SelfCalibration(operation, gate)
    for training in (False, True):
        np.testing.assert_array_equal(ops.convert_to_numpy(layer(x, training=training)), x)
    paper = ops.convert_to_numpy(layers.SelfCalibration(operation, gate=None)(x))
    assert np.mean(paper) > 1.2 * np.mean(x)


@pytest.mark.parametrize("operation", CALIBRATIONS[1:])
def test_the_gate_learns_first_and_the_operation_after_it(operation, rng):
    x = rng.standard_normal((4, 5, 4, 16)).astype("float32")
    y = x * rng.random((4, 1, 1, 16)).astype("float32")
    layer = layers.SelfCalibration(operation)
    model = keras.Sequential([keras.Input((5, 4, 16)), layer])
    model.compile(keras.optimizers.SGD(0.5), "mse", run_eagerly=True)
    moved = []
    for _ in range(2):
        before = [ops.convert_to_numpy(v) for v in model.trainable_variables]
        model.train_on_batch(x, y)
        pairs = zip(model.trainable_variables, before, strict=True)
        moved.append({v.path for v, old in pairs if np.any(ops.convert_to_numpy(v) != old)})
    assert moved[0] == {layer.residual_weight.path}
    assert len(moved[1] - moved[0]) > 0


AFFINE = {"reduction": 2, "affine": True}


@pytest.mark.parametrize(
    "layer_class, arguments",
    [
        (ChannelAttention, {"reduction": 2}),
        (SpatialAttention, {"strides": 2, **AFFINE}),
        (FactorizedReduce, {"filters": 3, "affine": True}),
        (FeatureOperation, {"filters": 3, "operation": "dilated_3", "strides": 2}),
        (layers.SelfCalibration, {"operation": "dynamic_3", "gate": "zero", **AFFINE}),
    ],
)
def test_is_a_keras_layer(layer_class, arguments):
    """XLA compiles them in `derived_cell_test`."""
    check_layer(layer_class, arguments, (4, 5, 4, 4), run_jit=False)


@pytest.mark.parametrize(
    "layer_class, arguments, message",
    [
        (ChannelAttention, {"reduction": 0}, "`reduction`"),
        (SpatialAttention, {"reduction": 0}, "`reduction`"),
        (SpatialAttention, {"strides": -1}, "`strides`"),
        (DynamicConv2D, {"kernel_size": 4}, "odd"),
        (DynamicConv2D, {"kernel_size": 0}, "`kernel_size`"),
        (DynamicConv2D, {"strides": 0}, "`strides`"),
        (DynamicConv2D, {"reduction": 1.5}, "`reduction`"),
        (FeatureOperation, {"filters": 0, "operation": "identity"}, "`filters`"),
        (FeatureOperation, {"filters": 4, "operation": "dynamic_3"}, "`operation`"),
        (FeatureOperation, {"filters": 4, "operation": "identity", "strides": 3}, "`strid"),
        (FactorizedReduce, {"filters": 1}, "at least 2"),
        (layers.SelfCalibration, {"operation": "identity"}, "one of .*operation='identity'"),
        (layers.SelfCalibration, {"operation": "dynamic_3", "gate": "one"}, "None.*gate='one'"),
        (layers.SelfCalibration, {"operation": "dynamic_3", "reduction": 0}, "`reduction`"),
        (layers.SelfCalibration, {"operation": "dynamic_3", "affine": "yes"}, "`affine`"),
    ],
)
def test_bad_arguments(layer_class, arguments, message):
    with pytest.raises(ValueError, match=message):
        layer_class(**arguments)


@pytest.mark.parametrize(
    "layer, shape, message",
    [
        (ChannelAttention(), (None, 4, None, 4), "to be known"),
        (SpatialAttention(), (None, 4, None, 4), "to be known"),
        (DynamicConv2D(), (None, 4, 4), "inputs of 4 axes"),
        (DynamicConv2D(), (None, 4, 4, 4, 4), "inputs of 4 axes"),
        (layers.SelfCalibration("dynamic_3"), (None, None, 4, 4), "to be known"),
        (FeatureOperation(4, "dilated_3"), (None, None, 4, 3), "to be known"),
        (FeatureOperation(4, "max_pooling_3"), (None, 4, 4, 3), "as many `filters` as chan"),
        (FeatureOperation(4, "identity"), (None, 4, 4, 3), "as many `filters` as channels"),
    ],
)
def test_bad_shapes(layer, shape, message):
    with pytest.raises(ValueError, match=message):
        layer.build(shape)
    with pytest.raises(ValueError, match="`way`"):
        dynamic_depthwise_conv(np.ones((1, 2, 2, 1)), np.ones((1, 1, 1, 1)), way="loop")
