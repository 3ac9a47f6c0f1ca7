"""Unary and binary functions that activation functions are made of, as a Keras layer."""

import keras
from keras import ops

from keras_xd.core import validation

_EPSILON = 1e-5


def _sinc(x):
    zero = ops.equal(x, 0)
    # The inner `where` keeps the division's gradient finite.
    return ops.where(zero, ops.ones_like(x), ops.sin(x) / ops.where(zero, ops.ones_like(x), x))


UNARY = {
    "identity": lambda x: x,
    "negate": ops.negative,
    "absolute": ops.absolute,
    "square": ops.square,
    "cube": lambda x: x * x * x,
    "square_root": lambda x: ops.sqrt(ops.absolute(x) + _EPSILON),
    "log_absolute": lambda x: ops.log(ops.absolute(x) + _EPSILON),
    "exp": ops.exp,
    "sin": ops.sin,
    "cos": ops.cos,
    "sinh": ops.sinh,
    "cosh": ops.cosh,
    "tanh": ops.tanh,
    "arcsinh": ops.arcsinh,
    "arctan": ops.arctan,
    "sinc": _sinc,
    "relu": ops.relu,
    "minimum_zero": lambda x: ops.minimum(x, 0),
    "sigmoid": ops.sigmoid,
    "softplus": ops.softplus,
    "gaussian": lambda x: ops.exp(-ops.square(x)),
    "erf": ops.erf,
}
UNARY_WITH_COEFFICIENT = {
    "scale": lambda x, b: b * x,
    "shift": lambda x, b: x + b,
    "constant": lambda x, b: ops.zeros_like(x) + b,
}
BINARY = {
    "add": ops.add,
    "multiply": ops.multiply,
    "subtract": ops.subtract,
    "divide": lambda x, y: x / (y + _EPSILON),
    "maximum": ops.maximum,
    "minimum": ops.minimum,
    "sigmoid_product": lambda x, y: ops.sigmoid(x) * y,
}
BINARY_WITH_COEFFICIENT = {
    "gaussian_distance": lambda x, y, b: ops.exp(-b * ops.square(x - y)),
    "absolute_distance": lambda x, y, b: ops.exp(-b * ops.absolute(x - y)),
    "weighted_sum": lambda x, y, b: b * x + (1 - b) * y,
}
FUNCTIONS = UNARY | UNARY_WITH_COEFFICIENT | BINARY | BINARY_WITH_COEFFICIENT
_TWO_INPUTS = BINARY.keys() | BINARY_WITH_COEFFICIENT.keys()
_COEFFICIENT = UNARY_WITH_COEFFICIENT.keys() | BINARY_WITH_COEFFICIENT.keys()


@keras.saving.register_keras_serializable(package="keras_xd")
class PointwiseFunction(keras.layers.Layer):
    """A unary or binary function of every value, some with a trained coefficient a channel."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = validation.one_of(function, tuple(FUNCTIONS), "function")

    def build(self, input_shape):
        several = isinstance(input_shape[0], (list, tuple))
        count = len(input_shape) if several else 1
        if count != 1 + (self.function in _TWO_INPUTS) or several != (count == 2):
            raise ValueError(
                "A unary function takes one tensor, a binary one a list of two. "
                f"Received: function={self.function!r}, input_shape={input_shape}"
            )
        self.coefficient = None
        if self.function in _COEFFICIENT:
            channels = (input_shape[0] if several else input_shape)[-1]
            self.coefficient = self.add_weight(
                shape=(channels,), initializer="ones", name="coefficient"
            )

    def call(self, inputs):
        values = list(inputs) if self.function in _TWO_INPUTS else [inputs]
        if self.coefficient is not None:
            values.append(ops.cast(self.coefficient, values[0].dtype))
        return FUNCTIONS[self.function](*values)

    def compute_output_shape(self, input_shape):
        return tuple(input_shape[0] if self.function in _TWO_INPUTS else input_shape)

    def get_config(self):
        return {**super().get_config(), "function": self.function}
