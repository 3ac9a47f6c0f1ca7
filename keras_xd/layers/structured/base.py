"""What layers with structured kernels share: the options of the family, the factors."""

import math

import keras
import numpy as np
from keras import constraints, ops, regularizers
from numpy.typing import ArrayLike

from keras_xd.core import validation
from keras_xd.core.type_aliases import Config, Tensor
from keras_xd.kmatrix import families
from keras_xd.kmatrix.structured import Projection
from keras_xd.kmatrix.structured_product import SIZES, StructuredProduct, structured_product


class StructuredKernel:
    """One structured matrix of a layer: its variables, and the product with it.

    Args:
        product: how vectors are multiplied.
        variables: the layer's variables, of the shapes of `product`.
    """

    def __init__(self, product: StructuredProduct, variables: list[keras.Variable]):
        self.product, self.variables = product, variables

    def __call__(self, x: Tensor) -> Tensor:
        """Return `x · kernel` along the last axis of `x`."""
        leading = ops.shape(x)[:-1]
        x = ops.reshape(x, (-1, self.product.inputs))
        factors = [ops.convert_to_tensor(variable) for variable in self.variables]
        return ops.reshape(self.product.apply(factors, x), (*leading, self.product.units))

    def dense(self) -> Tensor:
        """Return the kernel multiplied out, of shape `(inputs, units)`."""
        return self(ops.eye(self.product.inputs, dtype=self.variables[0].dtype))

    def assign(self, projection: Projection) -> None:
        """Set the variables to a `Projection` of the same family and sizes."""
        for variable, value in zip(self.variables, self.product.packed(projection), strict=True):
            variable.assign(value)


# What a kernel is called in its layer, and the matrix that it starts at.
Start = tuple[str, StructuredKernel, Projection]


class StructuredOptions:
    """The arguments of a layer that choose its structured kernels.

    Args:
        family, share, sizes: as in `StructuredDense`.
        kernel_regularizer: regularizer of the factors.
        seed: seed of the random start.
    """

    def __init__(self, family, share, sizes, kernel_regularizer=None, seed=None):
        self.family = validation.one_of(family, tuple(SIZES), "family")
        if not 0 < validation.real_number(share, "share") <= 1:
            raise ValueError(f"`share` must be above 0 and at most 1. Received: share={share}")
        self.share = share
        self.sizes = checked_sizes(family, sizes, "sizes")
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.seed = validation.seed(seed)

    def product(self, inputs, units, sizes):
        """Return the `StructuredProduct` of a kernel `(inputs, units)`."""
        if sizes is None and self.family == "dense":
            sizes = {}
        if sizes is None:
            sizes = families.sizes_within((units, inputs), self.family, self.share)
        return structured_product(self.family, inputs, units, sizes)

    def kernel(
        self, layer, inputs, units, sizes=None, name="kernel", regularizer=None, seed_offset=0
    ):
        """Add the variables of a kernel to a layer and return the `StructuredKernel`.

        Args:
            layer: the layer, in its `build`.
            inputs, units: shape of the kernel.
            sizes: its sizes, `None` for those of the share.
            name: beginning of the variables' names.
            regularizer: that of the factors, `None` for `kernel_regularizer`.
            seed_offset: is added to the seed.
        """
        product = self.product(inputs, units, sizes)
        seed = np.random.randint(2**31) if self.seed is None else self.seed + seed_offset
        # The variance of the outputs of a kernel by "glorot_uniform".
        start = product.initial(2 * inputs / (inputs + units), np.random.default_rng(seed))
        # A K-matrix is folded in float32 before it is cast to the layer's type.
        autocast = self.family != "kaleidoscope"
        variables = [
            layer.add_weight(
                name=f"{name}_factor_{index}",
                shape=shape,
                initializer=_constant(value),
                regularizer=regularizer or self.kernel_regularizer,
                autocast=autocast,
            )
            for index, (shape, value) in enumerate(zip(product.shapes, start, strict=True))
        ]
        for index, variable in enumerate(variables):  # checkpoints of TensorFlow find attributes
            setattr(layer, f"{name}_factor_{index}", variable)
        return StructuredKernel(product, variables)

    def get_config(self) -> Config:
        """Return the arguments, for the layer's configuration."""
        return {
            "family": self.family,
            "share": self.share,
            "sizes": plain_sizes(self.sizes),
            "kernel_regularizer": regularizers.serialize(self.kernel_regularizer),
            "seed": self.seed,
        }


class BiasOptions:
    """Whether and how a layer adds a bias."""

    def __init__(self, use_bias, initializer, regularizer, constraint):
        self.use_bias = validation.boolean(use_bias, "use_bias")
        self.bias_initializer = keras.initializers.get(initializer)
        self.bias_regularizer = regularizers.get(regularizer)
        self.bias_constraint = constraints.get(constraint)

    def add(self, layer, shape):
        """Return the bias, added to a layer in its `build`, or `None`."""
        if not self.use_bias:
            return None
        return layer.add_weight(
            name="bias",
            shape=shape,
            initializer=self.bias_initializer,
            regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
        )

    def get_config(self) -> Config:
        """Return the arguments, for the layer's configuration."""
        return {
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "bias_regularizer": regularizers.serialize(self.bias_regularizer),
            "bias_constraint": constraints.serialize(self.bias_constraint),
        }


def project_kernel(
    kernel: StructuredKernel, matrix: ArrayLike, inputs: ArrayLike | None = None
) -> Projection:
    """Set a structured kernel to the nearest one to a dense kernel.

    Args:
        kernel: the structured kernel.
        matrix: array of shape `(inputs, units)`.
        inputs: as in `keras_xd.kmatrix.project_to`.

    Returns:
        The `Projection`, whose matrix is the kernel transposed.

    Raises:
        ValueError: for a matrix of another shape, or one that is not finite.
    """
    matrix, product = ops.convert_to_numpy(matrix), kernel.product
    if matrix.shape != (product.inputs, product.units):
        raise ValueError(
            f"The kernel must have shape {(product.inputs, product.units)}. "
            f"Received: kernel of shape {matrix.shape}"
        )
    projection = families.nearest(matrix.T, product.family, product.sizes, inputs)
    kernel.assign(projection)
    return projection


def start_from(kernel, matrix, old, arguments=None):
    """Set a structured kernel to the nearest one to that of another layer, frozen where it is.

    Args:
        kernel: the structured kernel.
        matrix: the other kernel, as a matrix.
        old: the variable that it is in.
        arguments: list of arrays that the layer is called with, or `None`.

    Returns:
        The `Projection`.
    """
    inputs = None
    if arguments:
        size = kernel.product.inputs
        inputs = np.concatenate([argument.reshape(-1, size) for argument in arguments])
    projection = project_kernel(kernel, matrix, inputs)
    for variable in kernel.variables:
        variable.trainable = old.trainable
    return projection


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


def known_size(shape, name):
    """Return the last size of a shape, or raise `ValueError` where it is unknown."""
    if shape[-1] is None:
        raise ValueError(
            f"The last axis of the inputs of layer '{name}' must have a known size. "
            f"Received: input_shape={tuple(shape)}"
        )
    return shape[-1]


def positions(shape):
    """Return how many vectors of one sample a layer multiplies."""
    return math.prod(shape[1:-1])


def _constant(value):
    """Return an initializer of a value."""
    return lambda shape, dtype=None: ops.convert_to_tensor(value.reshape(shape), dtype=dtype)
