import math

import numpy as np
import pytest

from keras_xd.grammar.pointwise import FUNCTIONS, PointwiseFunction

X = np.array([[-2.0, -0.5, 0.0, 1.5]], "float32")
Y = np.array([[0.5, -1.0, 2.0, 0.25]], "float32")
B = np.array([1.0, 2.0, 0.5, -1.0], "float32")
LARGE = 1e-5  # added to denominators and, after the absolute value, to logarithms and roots


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


EXPECTED = {
    "identity": X,
    "negate": -X,
    "absolute": abs(X),
    "square": X**2,
    "cube": X**3,
    "square_root": np.sqrt(abs(X) + LARGE),
    "scale": B * X,
    "shift": X + B,
    "log_absolute": np.log(abs(X) + LARGE),
    "exp": np.exp(X),
    "sin": np.sin(X),
    "cos": np.cos(X),
    "sinh": np.sinh(X),
    "cosh": np.cosh(X),
    "tanh": np.tanh(X),
    "arcsinh": np.arcsinh(X),
    "arctan": np.arctan(X),
    "sinc": np.sinc(X / np.pi),
    "relu": np.maximum(X, 0),
    "minimum_zero": np.minimum(X, 0),
    "sigmoid": sigmoid(X),
    "softplus": np.log1p(np.exp(X)),
    "gaussian": np.exp(-(X**2)),
    "erf": np.vectorize(math.erf)(X),
    "constant": B + 0 * X,
    "add": X + Y,
    "multiply": X * Y,
    "subtract": X - Y,
    "divide": X / (Y + LARGE),
    "maximum": np.maximum(X, Y),
    "minimum": np.minimum(X, Y),
    "sigmoid_product": sigmoid(X) * Y,
    "gaussian_distance": np.exp(-B * (X - Y) ** 2),
    "absolute_distance": np.exp(-B * abs(X - Y)),
    "weighted_sum": B * X + (1 - B) * Y,
}
BINARY = list(EXPECTED)[25:]
TRAINED = ("scale", "shift", "constant", *BINARY[-3:])


def test_every_function_is_tested():
    assert set(EXPECTED) == set(FUNCTIONS) and len(BINARY) == 10


@pytest.mark.parametrize("name", EXPECTED)
def test_values(name):
    layer = PointwiseFunction(name)
    inputs = [X, Y] if name in BINARY else X
    layer.build([X.shape, Y.shape] if name in BINARY else X.shape)
    assert len(layer.weights) == (name in TRAINED)
    if name in TRAINED:
        np.testing.assert_array_equal(layer.get_weights()[0], np.ones(4))
        layer.coefficient.assign(B)
    outputs = np.array(layer(inputs))
    np.testing.assert_allclose(outputs, EXPECTED[name], rtol=2e-6, atol=1e-6)
    shape = [X.shape, Y.shape] if name in BINARY else X.shape
    assert layer.compute_output_shape(shape) == X.shape


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="`function` must be one of"):
        PointwiseFunction("sine")
    for name, inputs in (("sin", [X, Y]), ("add", X), ("add", [X])):
        with pytest.raises(ValueError, match="A unary function takes one tensor"):
            PointwiseFunction(name)(inputs)
