"""The expert of `chrysalis.py` on the sphere: a network of spherical convolutions."""

import math

import keras
import numpy as np
from keras import ops
from scipy import special


@keras.saving.register_keras_serializable(package="keras_xd_examples")
class SphericalConv(keras.layers.Layer):
    """A convolution on the sphere with zonal filters, which look the same from every side.

    Each spherical harmonic of a degree below `degrees` is multiplied by a number of its degree:

        y_lm,i = Σ_j g_l,ij · x_lm,j,    g_l = sqrt(4π / (2l + 1)) · h_l0

    which is the convolution with filters of the coefficients `h_l0`. The numbers `g` are trained.
    Maps are read at polar angles `π j / n` and azimuths `2π k / n`, `j` and `k` from 0 to `n - 1`.
    The coefficients of maps without degrees from `n / 2` on are exact, so of such inputs the
    outputs turn with the inputs. An activation of the points makes higher degrees, which are partly
    taken for lower ones, so that a network of such layers turns with its inputs approximately.

    Args:
        filters: number of output channels.
        degrees: how many degrees pass, at most half of the inputs' rows.
        size: rows and columns of the outputs, at least twice the degrees.
        activation: activation function, or `None`.

    Reference:
        Driscoll and Healy, 1994 (quadrature); Esteves et al., "Learning SO(3) Equivariant
        Representations with Spherical CNNs", 2018 (filters).
    """

    def __init__(self, filters, degrees, size, activation=None, **kwargs):
        super().__init__(**kwargs)
        self.filters, self.degrees, self.size = filters, degrees, size
        self.activation = keras.activations.get(activation)

    def build(self, input_shape):
        _, rows, columns, channels = input_shape
        if rows != columns or rows % 2 or rows < 2 * self.degrees or self.size < 2 * self.degrees:
            raise ValueError(
                "Inputs must have an even number of rows, as many columns, and like the outputs at "
                f"least two for each degree. Received: inputs of shape {input_shape}, "
                f"size={self.size}, degrees={self.degrees}"
            )
        self.analysis = (harmonics(rows, self.degrees) * areas(rows)).astype("float32")
        self.synthesis = harmonics(self.size, self.degrees).T.astype("float32")
        degrees = np.arange(self.degrees)
        self.degree = np.repeat(degrees, 2 * degrees + 1)  # of each coefficient
        self.kernel = self.add_weight(
            shape=(self.degrees, channels, self.filters),
            initializer=keras.initializers.RandomNormal(stddev=math.sqrt(2 / channels)),  # for ReLU
            name="kernel",
        )
        self.bias = self.add_weight(shape=(self.filters,), initializer="zeros", name="bias")

    def call(self, inputs):
        points = ops.reshape(inputs, (-1, inputs.shape[1] * inputs.shape[2], inputs.shape[3]))
        dtype = self.compute_dtype
        coefficients = ops.einsum("lp,bpj->blj", ops.cast(self.analysis, dtype), points)
        kernel = ops.take(self.kernel, self.degree, axis=0)
        coefficients = ops.einsum("blj,lji->bli", coefficients, kernel)
        outputs = ops.einsum("pl,bli->bpi", ops.cast(self.synthesis, dtype), coefficients)
        outputs = ops.reshape(outputs + self.bias, (-1, self.size, self.size, self.filters))
        return self.activation(outputs)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.size, self.size, self.filters)

    def get_config(self):
        own = {"filters": self.filters, "degrees": self.degrees, "size": self.size}
        activation = keras.activations.serialize(self.activation)
        return {**super().get_config(), **own, "activation": activation}


def spherical_expert(shape, classes):
    """Return a network of spherical convolutions for images of the whole sphere."""
    x = inputs = keras.Input(shape, name="image")
    for index, (filters, degrees) in enumerate(((20, 16), (40, 10)), start=1):
        name = f"spherical{index}"
        x = SphericalConv(filters, degrees, 2 * degrees, "relu", name=name)(x)
    x = keras.layers.GlobalMaxPooling2D(data_format="channels_last", name="maximum")(x)
    return keras.Model(inputs, keras.layers.Dense(classes, name="classifier")(x))


def areas(size):
    """Return the share of the sphere's area of each point of a grid, which sum to 4π.

    With them sums over points are integrals of all maps of degrees below the size.
    """
    odd = 2 * np.arange(size // 2) + 1
    polar = np.pi * np.arange(size) / size
    rows = np.sin(polar) * (np.sin(np.outer(polar, odd)) / odd).sum(axis=1)
    return np.repeat(rows * 16 * np.pi / size / size, size) / 2


def harmonics(size, degrees):
    """Return the real spherical harmonics of all degrees below, `(degrees², size²)`."""
    polar, found = np.pi * np.arange(size) / size, []
    for degree in range(degrees):
        for order in range(-degree, degree + 1):
            m = abs(order)
            norm = (2 * degree + 1) * math.factorial(degree - m) / math.factorial(degree + m)
            rows = math.sqrt(norm / (4 * math.pi)) * special.lpmv(m, degree, np.cos(polar))
            wave = math.sqrt(2) * (np.cos if order > 0 else np.sin)(2 * m * polar)
            found.append(np.outer(rows, wave if order else np.ones(size)).ravel())
    return np.stack(found)
