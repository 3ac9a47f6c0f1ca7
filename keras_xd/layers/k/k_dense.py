"""Layers of K-matrices that are all weights, the baselines of K-operations."""

import math
from typing import Unpack

import keras
import numpy as np
from keras import constraints, ops, regularizers
from keras.layers import InputSpec

from keras_xd.core import shapes, validation
from keras_xd.core.configured import BiasedLayer, bias_of, checked_data_format
from keras_xd.core.protocol import add_bounded_weight
from keras_xd.core.quantization import QuantizedWeights
from keras_xd.core.type_aliases import (
    BiasOptions,
    Constraint,
    Radix,
    Regularizer,
    Shape,
    Tensor,
)
from keras_xd.kmatrix import constructions, transform
from keras_xd.kmatrix.radix import check_radix
from keras_xd.kmatrix.structured_product import structured_product

_STARTS = {
    "random_orthogonal": constructions.random_orthogonal,
    "random_unitary": constructions.random_unitary,
    "identity": lambda radices, rng: constructions.identity(radices),
}


@keras.saving.register_keras_serializable(package="keras_xd")
class KDense(BiasedLayer, QuantizedWeights):
    """A `Dense` layer with a K-matrix `P` for its kernel: `y = activation(Re(P · x) + bias)`.

    `P` is a product of `depth` butterflies of one size `n`, the cheapest one that is not below the
    numbers of inputs and units, and has `depth · n · Σ r_j` parameters. A fixed baseline, as the
    family `"kaleidoscope"` of `StructuredDense`, with the starts `"random_orthogonal"` and
    `"identity"`, which are real, and `"random_unitary"` (Dao et al., "Kaleidoscope", 2020).
    """

    quantized_weights = ("kernel",)

    def __init__(
        self,
        units: int,
        depth: int = 2,
        radix: Radix = None,
        *,
        warm_start: str = "random_orthogonal",
        kernel_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        seed: int | None = None,
        **kwargs: Unpack[BiasOptions],
    ):
        super().__init__(**kwargs)
        self.units = validation.positive_integer(units, "units")
        self.depth = validation.depth(depth)
        self.radix = tuple(radix) if isinstance(radix, list) else radix
        check_radix(self.radix)
        self.warm_start = validation.one_of(warm_start, tuple(_STARTS), "warm_start")
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.seed = validation.seed(seed)
        self.input_spec = InputSpec(min_ndim=2)
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        inputs = shapes.known_size(input_shape, self.name)
        sizes = {"radix": self.radix, "depth": self.depth}
        self._product = structured_product("kaleidoscope", inputs, self.units, sizes)
        self.plan = self._product.plan
        self.input_spec = InputSpec(min_ndim=2, axes={-1: inputs})
        parts = 2 if self.warm_start == "random_unitary" else 1
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.depth, parts, self.plan.parameters),
            initializer=self._initial_kernel,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            autocast=False,
        )
        self.bias = bias_of(self, (self.units,))
        self.finish_quantized_build()

    def call(self, inputs: Tensor) -> Tensor:
        kernel = self.stored(self.kernel, self.variable_dtype)
        vectors = ops.reshape(inputs, (-1, inputs.shape[-1]))
        outputs = self._product.apply([kernel], vectors)
        return self.activated(ops.reshape(outputs, (*ops.shape(inputs)[:-1], self.units)))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.units)

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample; folding, done once a batch, is not counted."""
        return transform.multiply_adds(
            self.plan,
            self.depth,
            size=input_shape[-1],
            pair=False,
            columns=math.prod(input_shape[1:-1]),
            parts=self.kernel.shape[1],
        )

    def _initial_kernel(self, shape, dtype=None):
        seed = np.random.randint(2**31) if self.seed is None else self.seed
        rng = np.random.default_rng(seed)
        start = _STARTS[self.warm_start]
        stages = [start(self.plan.radices, rng) for _ in range(self.depth)]
        if self.warm_start == "random_unitary":
            # Rows of norm 1 that meet `inputs` of `n` entries give Re(P x) the variance
            # inputs / 2n; a kernel by "glorot_uniform" gives 2 inputs / (inputs + units).
            inputs = self.input_spec.axes[-1]
            scale = math.sqrt(4 * self.plan.n / (inputs + self.units))
            stages[0] = constructions.scaled(stages[0], scale)
        weights = constructions.kmatrix_weights(stages, "float64")
        return ops.convert_to_tensor(weights[:, : shape[1]], dtype=dtype)


@keras.saving.register_keras_serializable(package="keras_xd")
class KLayer(BiasedLayer):
    """The K-layer in place of a convolution: K-matrices of their own for every pair of channels.

        y_i = activation(Σ_j (P_1[i, j] ⊗ … ⊗ P_r[i, j]) · x_j + bias_i)

    Each spatial axis, of a size that stays as it is, has real K-matrices of `depth` butterflies, at
    first random orthogonal. A fixed baseline ("Searching for Convolutions and a More Ambitious
    NAS", appendix C.1.1).
    """

    add_weight = add_bounded_weight

    def __init__(
        self,
        filters: int,
        depth: int = 2,
        radix: Radix = None,
        *,
        data_format: str | None = None,
        seed: int | None = None,
        **kwargs: Unpack[BiasOptions],
    ):
        super().__init__(**kwargs)
        self.filters = validation.positive_integer(filters, "filters")
        self.depth = validation.depth(depth)
        self.radix = tuple(radix) if isinstance(radix, list) else radix
        check_radix(self.radix)
        self.data_format = checked_data_format(data_format)
        self.seed = validation.seed(seed)
        self.input_spec = InputSpec(min_ndim=3, max_ndim=5)

    def build(self, input_shape: Shape) -> None:
        channels, sizes = self._split_shape(input_shape)
        options = {"radix": self.radix, "depth": self.depth}
        self._products = [structured_product("kaleidoscope", n, n, options) for n in sizes]
        pairs, seed = channels * self.filters, self.seed
        rng = np.random.default_rng(np.random.randint(2**31) if seed is None else seed)
        for index, product in enumerate(self._products):
            numbers = pairs * max(product.inputs**2, product.parameters)
            validation.matrix_numbers(numbers, f"the matrices of layer '{self.name}'")
            gain = product.plan.n / product.inputs / (1 if index else channels)
            drawn = _random_kernels(product.plan.radices, (pairs, self.depth), gain, rng)
            kernel = self.add_weight(
                name=f"kernel{index}",
                shape=(pairs, *product.shapes[0]),
                initializer=lambda shape, dtype, drawn=drawn: ops.convert_to_tensor(drawn, dtype),
                autocast=False,
            )
            setattr(self, kernel.name, kernel)  # TensorFlow's checkpoints see no lists
        self.bias = bias_of(self, (self.filters,))

    @property
    def kernels(self) -> list[keras.Variable]:
        """The weights of each axis: one K-matrix after another, of all pairs of channels."""
        return [getattr(self, f"kernel{index}") for index in range(len(self._products))]

    def call(self, inputs: Tensor) -> Tensor:
        last = self.data_format == "channels_last"
        outputs = inputs if last else ops.moveaxis(inputs, 1, -1)
        channels, rank = outputs.shape[-1], len(self._products)
        for axis, (kernel, product) in enumerate(zip(self.kernels, self._products, strict=True)):
            kernel = ops.convert_to_tensor(kernel)  # JAX maps no variables
            matrices = ops.vectorized_map(lambda one, p=product: p.multiplied_out([one]), kernel)
            shape = (channels, self.filters, product.inputs, product.inputs)
            matrices = ops.cast(ops.reshape(matrices, shape), outputs.dtype)
            # Axes s, t, u of input channel j become x, y, z of output channel i, one by one.
            done, old, new, to_come = "xyz"[:axis], "stu"[axis], "xyz"[axis], "stu"[axis + 1 : rank]
            given, left = "ji" if axis else "j", "ji" if to_come else "i"
            equation = f"b{done}{old}{to_come}{given},ji{old}{new}->b{done}{new}{to_come}{left}"
            outputs = ops.einsum(equation, outputs, matrices)
        outputs = self.activated(outputs)
        return outputs if last else ops.moveaxis(outputs, -1, 1)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        _, sizes = self._split_shape(input_shape)
        return shapes.joined_shape(input_shape[0], sizes, self.filters, self.data_format)

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample; folding, done once a batch, is not counted."""
        channels, sizes = self._split_shape(input_shape)
        return channels * self.filters * math.prod(sizes) * sum(sizes)

    def _split_shape(self, input_shape):
        return shapes.split_shape(input_shape, len(input_shape) - 2, self.data_format, self.name)


def _random_kernels(radices, leading, gain, rng):
    """Return weights of random orthogonal K-matrices that give a vector the variance `gain`."""
    stages = constructions.random_orthogonal(radices, rng, leading)
    flat = [np.swapaxes(stage.real, -3, -1).reshape(*leading, 1, -1) for stage in stages]
    return np.concatenate(flat, axis=-1) * gain ** (0.5 / (len(stages) * leading[1]))
