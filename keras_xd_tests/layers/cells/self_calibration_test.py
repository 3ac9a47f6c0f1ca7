import keras
import numpy as np
import pytest
from keras import ops

from keras_xd import layers
from keras_xd.graph.cost import complexity
from keras_xd.testing import assert_close, check_layer
from keras_xd_tests.layers.cells import cell_references
from keras_xd_tests.layers.cells.cell_references import randomized

OPERATIONS = ("dynamic_3", "dynamic_5", "spatial_attention", "channel_attention")


def addend(operation, layer, x):
    """Return what an operation makes of features, from the formulas of the paper."""
    inner = layer.calibration
    if operation == "channel_attention":
        return x * cell_references.channel_attention(inner, x)
    if operation == "spatial_attention":
        return x * cell_references.spatial_attention(inner, x)
    return cell_references.dynamic(x, cell_references.dynamic_kernel(inner.dynamic_kernel, x))


@pytest.mark.parametrize("gate", ["zero", "tanh"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_gate_makes_the_identity_at_the_start(operation, gate, rng):
    x = rng.random((3, 5, 4, 16), "float32")  # as behind a rectification
    layer = layers.SelfCalibration(operation, gate)
    for training in (False, True):
        np.testing.assert_array_equal(ops.convert_to_numpy(layer(x, training=training)), x)
    paper = ops.convert_to_numpy(layers.SelfCalibration(operation, gate=None)(x))
    assert np.mean(paper) > 1.2 * np.mean(x)


@pytest.mark.parametrize("gate, factor", [("zero", -1.7), ("tanh", np.tanh(-1.7)), (None, 1.0)])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_equals_the_formula(operation, gate, factor, rng):
    x = rng.standard_normal((3, 5, 4, 32)).astype("float32")
    layer = layers.SelfCalibration(operation, gate)
    layer.build(x.shape)
    randomized(layer, rng)
    if gate:
        layer.residual_weight.assign(-1.7)
    else:
        assert layer.residual_weight is None
    expected = x + factor * addend(operation, layer, x)
    assert_close(ops.convert_to_numpy(layer(x)), expected.astype("float32"))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_gate_learns_first_and_the_operation_after_it(operation, rng):
    x = rng.standard_normal((4, 5, 4, 16)).astype("float32")
    y = x * rng.random((4, 1, 1, 16)).astype("float32")
    model = keras.Sequential([keras.Input((5, 4, 16)), layers.SelfCalibration(operation)])
    model.compile(keras.optimizers.SGD(0.5), "mse", run_eagerly=True)
    (layer,) = model.layers
    moved = []
    for _ in range(2):
        before = [ops.convert_to_numpy(v) for v in model.trainable_variables]
        model.train_on_batch(x, y)
        pairs = zip(model.trainable_variables, before, strict=True)
        moved.append(
            {v.path for v, then in pairs if not np.array_equal(ops.convert_to_numpy(v), then)}
        )
    own = layer.residual_weight.path
    assert moved[0] == {own}
    assert len(moved[1] - {own}) > 0


@pytest.mark.parametrize("operation, gate", [("dynamic_3", "zero"), ("spatial_attention", None)])
def test_is_a_keras_layer(operation, gate):
    arguments = {"operation": operation, "gate": gate, "reduction": 2, "affine": True}
    check_layer(layers.SelfCalibration, arguments, (4, 5, 4, 4), run_jit=gate is not None)


def test_arguments_reach_the_operation():
    for operation in OPERATIONS:
        layer = layers.SelfCalibration(operation, reduction=3, affine=False)
        assert layer.calibration.reduction == 3
        assert getattr(layer.calibration, "affine", False) is False
    assert layers.SelfCalibration("dynamic_5").calibration.kernel_size == 5
    assert layers.SelfCalibration("channel_attention").calibration.reduction == 16


def test_multiply_adds_are_those_of_the_operation():
    shape = (None, 6, 7, 64)
    for operation, other in (
        ("dynamic_5", layers.DynamicConv2D(5)),
        ("spatial_attention", layers.SpatialAttention()),
        ("channel_attention", layers.ChannelAttention()),
    ):
        layer = layers.SelfCalibration(operation)
        layer.build(shape)
        other.build(shape)
        assert layer.multiply_adds(shape) == complexity(layer) == complexity(other)
        sizes = [sum(int(np.prod(v.shape)) for v in m.trainable_variables) for m in (layer, other)]
        assert sizes[0] == sizes[1] + 1


def test_bad_arguments_and_shapes():
    with pytest.raises(ValueError, match="`operation` must be one of .*operation='identity'"):
        layers.SelfCalibration("identity")
    with pytest.raises(ValueError, match="`gate` must be one of 'zero', 'tanh', None.*gate='one'"):
        layers.SelfCalibration("dynamic_3", gate="one")
    with pytest.raises(ValueError, match="`reduction`"):
        layers.SelfCalibration("dynamic_3", reduction=0)
    with pytest.raises(ValueError, match="`affine`"):
        layers.SelfCalibration("dynamic_3", affine="yes")
    with pytest.raises(ValueError, match="batch, height, width, channels"):
        layers.SelfCalibration("channel_attention").build((None, None, 4, 4))
