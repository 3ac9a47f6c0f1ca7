import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import layers
from keras_xd.testing import (
    assert_close,
    check_calls,
    check_checkpoint,
    check_config,
    check_file,
    check_mixed_precision,
)

CASES = [
    ("abc,cde->abde", (None, 4, 6), "de", (2, 5, 12)),
    ("abcd,cde->abe", (None, 8), "e", (2, 5, 3, 4)),
    ("...x,xy->...y", 8, "y", (2, 3, 5, 12)),
    ("ab,bc->ac", 8, None, (2, 12)),
    ("abc,db->adc", (8, None), "d", (2, 12, 5)),
    ("abcd,edb->aec", (8, 5), "ec", (2, 3, 5, 4)),
]


@pytest.mark.parametrize(("equation", "output_shape", "bias_axes", "shape"), CASES)
def test_equals_einsum_dense(equation, output_shape, bias_axes, shape, rng):
    arguments = {"bias_axes": bias_axes, "activation": "tanh", "bias_initializer": "normal"}
    twin = keras.layers.EinsumDense(equation, output_shape, **arguments)
    x = rng.normal(size=shape).astype("float32")
    expected = np.array(twin(x))
    layer = layers.StructuredEinsumDense(equation, output_shape, "dense", **arguments)
    assert layer.compute_output_shape((None, *shape[1:])) == (None, *expected.shape[1:])
    inputs = keras.Input(shape[1:])
    model = keras.Model(inputs, layer(inputs))
    assert keras_xd.complexity(model) == keras_xd.complexity(
        keras.Model(inputs, keras.layers.EinsumDense.from_config(twin.get_config())(inputs))
    )
    assert layer.project(twin.kernel).error == 0
    if bias_axes:
        layer.bias.assign(twin.bias)
    assert_close(model.predict(x, verbose=0), expected)
    structured = layers.StructuredEinsumDense(equation, output_shape, "low_rank", density=0.9)
    structured(x)
    projection = structured.project(twin.kernel)
    assert 0 < projection.error < 0.9
    assert structured.count_params() < 0.9 * np.prod(twin.kernel.shape)


def test_layer(rng):
    arguments = {"equation": "abc,cde->abde", "output_shape": (None, 2, 4), "bias_axes": "de"}
    arguments |= {"family": "low_rank", "sizes": {"rank": 2}}
    check_config(layers.StructuredEinsumDense, arguments)
    layer = layers.StructuredEinsumDense(**arguments)
    x = rng.normal(size=(3, 5, 6)).astype("float32")
    model, outputs = check_calls(layer, x)
    check_checkpoint(model, check_file(model, x, outputs))
    check_mixed_precision(layers.StructuredEinsumDense, arguments, layer, x, outputs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"equation": "abc"}, "must have the form"),
        ({"equation": "ab,bc->ac"}, "a letter for each axis"),
        ({"equation": "abc,bcd->abd"}, "an axis of the kernel is in inputs and outputs"),
        ({"equation": "abc,cd->ad"}, "an axis is in one part only"),
        ({"equation": "abb,bd->ad"}, "an axis occurs twice"),
        ({"output_shape": (None, None)}, "Axis 'd' of the kernel must have a known size"),
        ({"output_shape": (2, None, None, 8)}, "`output_shape` must have at most"),
        ({"bias_axes": "z"}, "Received: bias_axes='z'"),
        ({"density": 0.1}, "smallest monarch matrix"),
    ],
)
def test_bad_input(arguments, message):
    arguments = {"equation": "abc,cd->abd", "output_shape": (None, 8), "density": 0.9, **arguments}
    arguments = {"family": "monarch", **arguments}
    with pytest.raises(ValueError, match=message):
        layers.StructuredEinsumDense(**arguments).build((None, 5, 6))
