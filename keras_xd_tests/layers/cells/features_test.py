import keras
import numpy as np
import pytest

import keras_xd
from keras_xd.layers.cells.features import FactorizedReduce, FeatureOperation, ReLUConvBN
from keras_xd.layers.cells.genotypes import FEATURE_OPERATIONS, XD_OPERATIONS
from keras_xd.testing import assert_close, check_config, check_layer
from keras_xd_tests.layers.cells import cell_references
from keras_xd_tests.layers.cells.cell_references import randomized


@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("operation", FEATURE_OPERATIONS + XD_OPERATIONS)
def test_operation_equals_numpy(operation, strides, rng):
    for affine, sizes in ((True, (5, 6)), (False, (6, 7))):
        x = rng.standard_normal((2, *sizes, 3)).astype("float32")
        layer = FeatureOperation(3, operation, strides, affine=affine)
        layer.build(x.shape)
        searched = {id(v) for v in keras_xd.architecture_variables(layer)}
        start = [(v, keras.ops.convert_to_numpy(v)) for v in layer.weights if id(v) in searched]
        assert bool(start) == (operation in XD_OPERATIONS)
        randomized(layer, rng)
        for variable, value in start:
            variable.assign(value)
        y = keras.ops.convert_to_numpy(layer(x))
        assert y.shape == layer.compute_output_shape(x.shape)
        assert_close(y, cell_references.feature_operation(layer, x).astype("float32"), 2e-5)


@pytest.mark.parametrize("sizes", [(4, 5), (5, 4)])
def test_reduction_and_pointwise_equal_numpy(sizes, rng):
    x = rng.standard_normal((2, *sizes, 3)).astype("float32")
    reference = {
        FactorizedReduce: cell_references.factorized_reduction,
        ReLUConvBN: cell_references.pointwise_operation,
    }
    for layer_class, compute in reference.items():
        layer = layer_class(5)
        layer.build(x.shape)
        randomized(layer, rng)
        y = keras.ops.convert_to_numpy(layer(x))
        assert y.shape == layer.compute_output_shape(x.shape)
        assert_close(y, compute(layer, x).astype("float32"))
    assert [w.shape[-1] for w in layers_of(FactorizedReduce(5), x)] == [3, 2]


def layers_of(reduction, x):
    reduction(x)
    return [reduction.even.kernel, reduction.odd.kernel]


def test_parameters_and_multiply_adds():
    shape, places = (None, 8, 8, 6), 16
    expected = {  # depthwise and pointwise weights; normalisations have two of a channel
        "separable_3": 2 * (9 * 6 + 36),
        "separable_5": 2 * (25 * 6 + 36),
        "dilated_3": 9 * 6 + 36,
        "dilated_5": 25 * 6 + 36,
        "max_pooling_3": 0,
        "average_pooling_3": 0,
        "identity": 36,  # reduces the size
    }
    for operation, count in expected.items():
        layer = FeatureOperation(6, operation, strides=2)
        layer.build(shape)
        trained = sum(int(np.prod(v.shape)) for v in layer.trainable_variables)
        normalisations = 2 if operation.startswith("separable") else bool(count)
        assert trained == count + normalisations * 12, operation
        assert layer.multiply_adds(shape) == count * places, operation
        assert keras_xd.complexity(layer) == count * places, operation


def test_is_a_keras_layer():
    check_config(ReLUConvBN, {"filters": 3, "affine": True})
    check_layer(FactorizedReduce, {"filters": 3, "affine": True}, (4, 5, 4, 4))
    arguments = {"filters": 3, "operation": "dilated_3", "strides": 2, "affine": False}
    check_layer(FeatureOperation, arguments, (4, 5, 4, 4), run_jit=False)


def test_xd_operation_is_searched_and_finalized(rng):
    x = rng.standard_normal((2, 6, 6, 4)).astype("float32")
    inputs = keras.Input((6, 6, 4))
    model = keras.Model(inputs, FeatureOperation(4, "xd_3")(inputs))
    assert len(keras_xd.architecture_variables(model)) == 6
    keras_xd.randomize_architecture(model, seed=1)
    found = keras_xd.finalize(model)
    assert not keras_xd.architecture_variables(found)
    expected = keras.ops.convert_to_numpy(model(x))
    assert_close(keras.ops.convert_to_numpy(found(x)), expected)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((0, "identity"), "`filters`"),
        ((4, "dynamic_3"), "`operation`"),
        ((4, "identity", 3), "`strides`"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        FeatureOperation(*arguments)


def test_bad_shapes():
    with pytest.raises(ValueError, match="as many `filters` as channels"):
        FeatureOperation(4, "max_pooling_3").build((None, 4, 4, 3))
    with pytest.raises(ValueError, match="as many `filters` as channels"):
        FeatureOperation(4, "identity").build((None, 4, 4, 3))
    with pytest.raises(ValueError, match="batch, height, width, channels"):
        FeatureOperation(4, "separable_3").build((None, None, 4, 3))
    with pytest.raises(ValueError, match="2 at least"):
        FactorizedReduce(1)
