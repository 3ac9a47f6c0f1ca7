"""KDense: a dense layer whose kernel is a structured matrix."""

import math
from typing import Unpack

import keras
import numpy as np
from keras import constraints, ops, regularizers
from keras.layers import InputSpec

from keras_xd import kmatrix
from keras_xd.core import shapes, validation
from keras_xd.core.configured import BiasedLayer, bias_of
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
    """A `Dense` layer with a K-matrix `P` in place of its kernel.

        y = activation(Re(P · x) + bias)

    `P` is a product of `depth` butterflies of one size `n`, the cheapest one that is not below the
    numbers of inputs and units; the inputs are continued by zeros and the first `units` results
    are kept. That takes `depth · n · Σ r_j` parameters, `O(n log n)` for small radices, instead of
    `inputs · units`. The K-matrix is an ordinary model weight: the layer is no search space but the
    fixed baseline (the K-layer) that search spaces are compared with.

    It computes what the family `"kaleidoscope"` of `StructuredDense` does, and has other starts,
    complex ones too.

    Args:
        units: number of outputs.
        depth: number of butterflies.
        radix: block sizes of the butterflies: `None` (prime factors), the largest block size, or a
            tuple of radices whose product is the size `n`.
        activation: activation function, or `None`.
        use_bias: whether a bias is added to the outputs.
        warm_start: `"random_orthogonal"` or `"identity"`, which make a real K-matrix, or
            `"random_unitary"`, which makes a complex one with twice the parameters, scaled so that
            the outputs have the variance of a `Dense` layer's.
        bias_initializer: initializer of the bias.
        kernel_regularizer, bias_regularizer, activity_regularizer: optional regularizers; that of
            the kernel acts on the butterflies' blocks.
        kernel_constraint, bias_constraint: optional constraints.
        seed: integer, makes a random start reproducible; `None`: drawn as Keras' seeds are.

    Call arguments:
        inputs: tensor of at least two axes, the last one of known size.

    Input shape:
        `(batch, …, inputs)`.

    Output shape:
        `(batch, …, units)`.

    Raises:
        ValueError: for arguments outside these rules, an unknown number of inputs, or radices whose
            product is below the number of inputs or units.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.KDense(1000)
    >>> layer(np.ones((2, 1024), "float32")).shape
    TensorShape([2, 1000])
    >>> layer.count_params()  # Dense has 1 025 000
    41960

    Reference:
        Dao et al., "Kaleidoscope: An Efficient, Learnable Representation For All Structured Linear
        Maps", 2020; the K-layer of Roberts et al., "Searching for Convolutions and a More
        Ambitious NAS", 2020, section 4.
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
        self._plan = self._product.plan
        self.input_spec = InputSpec(min_ndim=2, axes={-1: inputs})
        parts = 2 if self.warm_start == "random_unitary" else 1
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.depth, parts, self._plan.parameters),
            initializer=self._initial_kernel,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            autocast=False,
        )
        self.bias = bias_of(self, (self.units,))
        self.finish_quantized_build()

    @property
    def plan(self) -> kmatrix.radix.Plan:
        """The `kmatrix.radix.Plan` of the K-matrix."""
        return self._plan

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
            self._plan,
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
        stages = [start(self._plan.radices, rng) for _ in range(self.depth)]
        if self.warm_start == "random_unitary":
            # Rows of norm 1 that meet `inputs` of `n` entries give Re(P x) the variance
            # inputs / 2n; a kernel by "glorot_uniform" gives 2 inputs / (inputs + units).
            inputs = self.input_spec.axes[-1]
            scale = math.sqrt(4 * self._plan.n / (inputs + self.units))
            stages[0] = constructions.scaled(stages[0], scale)
        weights = constructions.kmatrix_weights(stages, "float64")
        return ops.convert_to_tensor(weights[:, : shape[1]], dtype=dtype)
