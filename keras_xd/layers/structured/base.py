"""Base class of layers with structured kernels: options and factors."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops, regularizers
from numpy.typing import ArrayLike

from keras_xd.core import validation
from keras_xd.core.configured import EarlierNames
from keras_xd.core.type_aliases import (
    Config,
    LinearOptions,
    Regularizer,
    Tensor,
)
from keras_xd.kmatrix import families
from keras_xd.kmatrix.structured import Projection
from keras_xd.kmatrix.structured_product import SIZES, StructuredProduct, structured_product

LEARNING_RATES = ("spectral", "equal")
_IN_FILES = "learning_rates"  # beside the variables of a layer, whose names are numbers


class StructuredKernel:
    """One structured matrix of a layer: its variables, and the product with it."""

    def __init__(
        self, product: StructuredProduct, variables: list[keras.Variable], rates: list[float]
    ):
        self.product, self.variables, self.rates = product, variables, rates
        # A product of factors may be multiplied by all rates at once, where that is least work.
        self.scale = math.prod(rates)
        self.smallest = min(range(len(variables)), key=lambda i: math.prod(variables[i].shape))

    def __call__(self, x: Tensor) -> Tensor:
        """Return `x · kernel` along the last axis of `x`."""
        leading = ops.shape(x)[:-1]
        x = ops.reshape(x, (-1, self.inputs))
        return ops.reshape(self.product.apply(self._factors(), x), (*leading, self.units))

    def rows(self, indices: Tensor) -> Tensor:
        """Return rows of the kernel, of shape `(count, units)`, at indices of shape `(count,)`."""
        return self.product.rows(self._factors(), indices)

    @property
    def inputs(self) -> int:
        """How many numbers a vector has."""
        return self.product.inputs

    @property
    def units(self) -> int:
        """How many numbers a result has."""
        return self.product.units

    @property
    def multiply_adds(self) -> int:
        """Multiply–adds of one vector."""
        return self.product.multiply_adds

    @property
    def row_multiply_adds(self) -> int:
        """Multiply–adds of one of the `rows`."""
        return self.product.row_multiply_adds

    def dense(self) -> Tensor:
        """Return the kernel multiplied out, of shape `(inputs, units)`."""
        return self.product.multiplied_out(self._factors())

    def assign(self, projection: Projection) -> None:
        """Set the variables to a `Projection` of the same family and sizes."""
        factors = self.product.packed(projection)
        for variable, factor, rate in zip(self.variables, factors, self.rates, strict=True):
            variable.assign(factor / rate)

    def project(self, matrix: ArrayLike, inputs: ArrayLike | None = None) -> Projection:
        """Become the nearest matrix of the family and sizes to a dense kernel."""
        matrix = ops.convert_to_numpy(matrix).astype("float64")  # NumPy knows no bfloat16
        projection = families.nearest(
            checked_matrix(matrix, self).T, self.product.family, self.product.sizes, inputs
        )
        self.assign(projection)
        return projection

    def start_from(
        self,
        matrix: ArrayLike,
        old: keras.Variable,
        arguments: Sequence[np.ndarray] | None = None,
    ) -> list["Start"]:
        """Become the nearest one to the kernel of another layer, frozen where that is."""
        inputs = None
        if arguments:
            inputs = np.concatenate([one.reshape(-1, self.inputs) for one in arguments])
        projection = self.project(matrix, inputs)
        for variable in self.variables:
            variable.trainable = old.trainable
        return [Start("", self, projection)]

    def _factors(self):
        """Return arrays whose product is the kernel."""
        factors = [ops.convert_to_tensor(variable) for variable in self.variables]
        if self.scale != 1:
            factors[self.smallest] = factors[self.smallest] * self.scale
        return factors


@dataclasses.dataclass(frozen=True)
class Start:
    """What a kernel starts at.

    Attributes:
        ending: what it is called in its layer, after "/", or "".
        kernel: the kernel.
        projection: the matrix.
        candidate: its name in a mixture, `None` elsewhere.
        numbers: how many there were before, if not those of a matrix of this shape.
    """

    ending: str
    kernel: StructuredKernel
    projection: Projection
    candidate: str | None = None
    numbers: int | None = None


@dataclasses.dataclass(frozen=True)
class KernelSpecification:
    """What a layer asks for a kernel.

    Attributes:
        inputs, units: its shape.
        sizes: its sizes, `None` for those of the density.
        name: beginning of the variables' names.
        regularizer: that of the variables, `None` for `kernel_regularizer`.
        seed_offset: is added to the seed.
        deviation: that of the entries at the start, for a matrix of which rows are taken; `None`
            for one that vectors are multiplied by.
    """

    inputs: int
    units: int
    sizes: Config | None = None
    name: str = "kernel"
    regularizer: Regularizer = None
    seed_offset: int = 0
    deviation: float | None = None


class StructuredOptions:
    """The arguments of a layer that choose its structured kernels."""

    def __init__(
        self,
        family,
        density,
        sizes,
        learning_rates="spectral",
        kernel_regularizer=None,
        seed=None,
    ):
        self.family = validation.one_of(family, tuple(SIZES), "family")
        self.density = validation.number_within(density, "(]", 0, 1, "density")
        self.sizes = checked_sizes(family, sizes, "sizes")
        self.learning_rates = validation.one_of(learning_rates, LEARNING_RATES, "learning_rates")
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.seed = validation.seed(seed)

    def product(self, inputs, units, sizes):
        """Return the `StructuredProduct` of a kernel `(inputs, units)`."""
        if sizes is None and self.family == "dense":
            sizes = {}
        if sizes is None:
            sizes = families.sizes_within((units, inputs), self.family, self.density)
        return structured_product(self.family, inputs, units, sizes)

    def check(self, kernels: Sequence[tuple[int, int]]) -> None:
        """Raise `ValueError` for inputs and units of which there is no kernel."""
        for inputs, units in kernels:
            self.product(inputs, units, self.sizes)

    def kernels(
        self, layer: keras.layers.Layer, specifications: Sequence["KernelSpecification"]
    ) -> list[StructuredKernel]:
        """Add kernels to a layer in its `build`; return their `StructuredKernel` in the order."""
        return [self.kernel(layer, one) for one in specifications]

    def kernel(
        self, layer: keras.layers.Layer, specification: "KernelSpecification"
    ) -> StructuredKernel:
        """Add the variables of a kernel to a layer in its `build`."""
        inputs, units, name = specification.inputs, specification.units, specification.name
        product = self.product(inputs, units, specification.sizes)
        offset = specification.seed_offset
        seed = np.random.randint(2**31) if self.seed is None else self.seed + offset
        rng = np.random.default_rng(seed)
        if specification.deviation is None:
            # The variance of the outputs of a kernel by "glorot_uniform".
            start, rates = product.initial(2 * inputs / (inputs + units), rng), product.rates
        else:
            start = product.initial_rows(specification.deviation, rng)
            rates = product.row_rates(specification.deviation)
        # A K-matrix is folded in float32 before it is cast to the layer's type.
        autocast = self.family != "kaleidoscope"
        if self.learning_rates == "equal":
            rates = [1.0] * len(start)
        variables = [
            layer.add_weight(
                name=f"{name}_factor_{index}",
                shape=factor.shape,
                initializer=_constant(factor / rate),
                regularizer=specification.regularizer or self.kernel_regularizer,
                autocast=autocast,
            )
            for index, (factor, rate) in enumerate(zip(start, rates, strict=True))
        ]
        for index, variable in enumerate(variables):  # checkpoints of TensorFlow find attributes
            setattr(layer, f"{name}_factor_{index}", variable)
        return StructuredKernel(product, variables, list(rates))

    def get_config(self) -> Config:
        """Return the arguments, for the layer's configuration."""
        return {
            "family": self.family,
            "density": self.density,
            "sizes": plain_sizes(self.sizes),
            "learning_rates": self.learning_rates,
            "kernel_regularizer": regularizers.serialize(self.kernel_regularizer),
            "seed": self.seed,
        }


class FactorFiles(EarlierNames):
    """A layer of structured kernels; its files of weights say what the variables stand for."""

    earlier_names = {"share": "density", "shares": "densities"}
    structure: StructuredOptions

    def __init__(self, *args: Any, activity_regularizer: Regularizer = None, **kwargs: Any):
        super().__init__(*args, activity_regularizer=activity_regularizer, **kwargs)

    @property
    def family(self) -> str:
        """Name of the family."""
        return self.structure.family

    def get_config(self) -> Config:
        return {**self.structure.get_config(), **super().get_config()}

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        store[_IN_FILES] = np.array(LEARNING_RATES.index(self.structure.learning_rates))

    def load_own_variables(self, store: Any) -> None:
        values = {key: store[key] for key in store.keys()}  # noqa: SIM118 (no mapping)
        if _IN_FILES in values:
            found = LEARNING_RATES[int(np.array(values.pop(_IN_FILES)))]
            if found != self.structure.learning_rates:
                raise ValueError(
                    "Weights must be loaded into a layer of the `learning_rates` that they were "
                    f"saved with. Received: layer '{self.name}' with "
                    f"{self.structure.learning_rates!r}, weights with {found!r}"
                )
        super().load_own_variables(values)


class MixtureArguments(LinearOptions, total=False):
    """Keyword arguments of a mixture in place of a linear layer of Keras, except for its sizes."""

    learning_rates: str
    kernel_regularizer: Regularizer
    seed: int | None


def checked_matrix(matrix, kernel):
    """Return a kernel as an array, or raise `ValueError` if it has another shape than a kernel."""
    matrix = ops.convert_to_numpy(matrix)
    if matrix.shape != (kernel.inputs, kernel.units):
        raise ValueError(
            f"The kernel must have shape {(kernel.inputs, kernel.units)}. "
            f"Received: kernel of shape {matrix.shape}"
        )
    return matrix


def copy_variable(old, new):
    """Copy value and trainable flag of a variable, or nothing where there is none."""
    if old is not None:
        new.assign(ops.copy(old))
        new.trainable = old.trainable


def checked_sizes(family, sizes, name):
    """Return sizes with tuples, or `None`; raise `ValueError` for names of another family."""
    if sizes is None:
        return None
    names = SIZES[family]
    if not isinstance(sizes, dict) or set(sizes) - set(names):
        raise ValueError(
            f"`{name}` of the family {family!r} must be a dictionary of {list(names)}. "
            f"Received: {name}={sizes!r}"
        )
    return plain_sizes(sizes)


def plain_sizes(sizes):
    """Return sizes as a plain dictionary of integers and tuples of them."""
    if sizes is None:
        return None
    return {
        name: tuple(value) if isinstance(value, (list, tuple)) else value
        for name, value in sizes.items()
    }


def positions(shape):
    """Return how many vectors of one sample a layer multiplies."""
    return math.prod(shape[1:-1])


def _constant(value):
    """Return an initializer of a value."""
    return lambda shape, dtype=None: ops.convert_to_tensor(value.reshape(shape), dtype=dtype)
