"""StructuredEinsumDense: an einsum dense layer whose kernel is a structured matrix."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Unpack

import keras
import numpy as np
from keras import ops
from numpy.typing import ArrayLike

from keras_xd.core import tracing
from keras_xd.core.configured import BiasedLayer, bias_of
from keras_xd.core.type_aliases import Config, LinearOptions, Regularizer, Shape, Tensor
from keras_xd.kmatrix.structured import Projection
from keras_xd.layers.structured import base


@dataclasses.dataclass(frozen=True)
class EinsumEquation:
    """What an equation such as `"abc,cde->abde"` does, with an axis's letter or index in `…`."""

    inputs: tuple[str, ...]
    kernel: tuple[str, ...]
    outputs: tuple[str, ...]

    @classmethod
    def parsed(cls, equation: str, rank: int) -> "EinsumEquation":
        """Return the equation for inputs of so many axes."""
        try:
            left, outputs = equation.replace(" ", "").split("->")
            inputs, kernel = left.split(",")
        except ValueError:
            raise ValueError(
                f"`equation` must have the form 'inputs,kernel->outputs'. Received: {equation!r}"
            ) from None
        count = rank - len(inputs.replace("...", ""))
        if ("..." in inputs) != ("..." in outputs) or count < 0 or (count and "..." not in inputs):
            raise ValueError(
                "`equation` must have a letter for each axis of the inputs, or '...' in inputs and "
                f"outputs. Received: equation={equation!r}, inputs of {rank} axes"
            )
        result = cls(*(_axes(part, count) for part in (inputs, kernel, outputs)))
        reason = result.reason()
        if reason is not None:
            raise ValueError(
                f"`equation` must be a product with a matrix: {reason}. Received: {equation!r}"
            )
        return result

    def reason(self):
        """Return why it is no product with a matrix, or `None`."""
        if "..." in self.kernel:
            return "the kernel has axes that are not named"
        for part in (self.inputs, self.kernel, self.outputs):
            if len(set(part)) < len(part):
                return "an axis occurs twice"
        kernel, inputs, outputs = set(self.kernel), set(self.inputs), set(self.outputs)
        if kernel & inputs & outputs:
            return "an axis of the kernel is in inputs and outputs"
        if not kernel <= inputs | outputs or inputs - outputs - kernel or outputs - inputs - kernel:
            return "an axis is in one part only"
        if not kernel & inputs or not kernel & outputs:
            return "the kernel has no rows or no columns"
        return None

    @property
    def free(self):
        """The axes that the kernel does not touch."""
        return tuple(axis for axis in self.inputs if axis not in self.kernel)

    @property
    def contracted(self):
        """The axes of inputs and kernel."""
        return tuple(axis for axis in self.kernel if axis in self.inputs)

    @property
    def units(self):
        """The axes of kernel and outputs."""
        return tuple(axis for axis in self.kernel if axis in self.outputs)


@keras.saving.register_keras_serializable(package="keras_xd")
class StructuredEinsumDense(BiasedLayer, base.FactorFiles):
    """An `EinsumDense` layer whose kernel is a structured matrix.

        outputs = activation(einsum(equation, inputs, kernel) + bias)

    The kernel is a matrix of the axes that it shares with the inputs and those that it shares with
    the outputs, each in the kernel's order: of `"abc,cde->abde"`, a projection to heads, a matrix
    of `c` inputs and `d · e` units; of `"abcd,cde->abe"` one of `c · d` inputs.

    Args:
        equation: as in `keras.layers.EinsumDense`, a product with a matrix: no axis of the kernel
            may be in inputs and outputs.
        output_shape, bias_axes: as in `keras.layers.EinsumDense`.
        **kwargs: all others of `StructuredDense`, but `use_bias`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> heads = layers.StructuredEinsumDense("abc,cde->abde", (None, 8, 16), "low_rank")
    >>> heads(np.ones((2, 10, 128), "float32")).shape
    TensorShape([2, 10, 8, 16])
    >>> heads.kernel.product.sizes
    {'rank': 16}
    """

    fixed = ("use_bias",)

    def __init__(
        self,
        equation: str,
        output_shape: int | Sequence[int | None],
        family: str = "block_tensor_train",
        *,
        bias_axes: str | None = None,
        density: float = 0.25,
        sizes: Config | None = None,
        learning_rates: str = "spectral",
        kernel_regularizer: Regularizer = None,
        seed: int | None = None,
        **kwargs: Unpack[LinearOptions],
    ):
        super().__init__(use_bias=bool(bias_axes), **kwargs)
        self.structure = base.StructuredOptions(
            family, density, sizes, learning_rates, kernel_regularizer, seed
        )
        self.equation = equation
        self.partial_output_shape = (
            (output_shape,) if isinstance(output_shape, int) else tuple(output_shape)
        )
        self.bias_axes = bias_axes

    def build(self, input_shape: Shape) -> None:
        parsed, sizes = self._sizes(input_shape)
        for axis in parsed.kernel:
            if sizes[axis] is None:
                raise ValueError(
                    f"Axis '{axis}' of the kernel must have a known size. Received: "
                    f"equation={self.equation!r}, output_shape={self.partial_output_shape}, "
                    f"input_shape={tuple(input_shape)}"
                )
        inputs = math.prod(sizes[axis] for axis in parsed.contracted)
        units = math.prod(sizes[axis] for axis in parsed.units)
        asked = base.KernelSpecification(inputs, units, self.structure.sizes)
        (self.kernel,) = self.structure.kernels(self, [asked])
        named = self.bias_axes or ""
        first = min((i for i, axis in enumerate(parsed.outputs) if axis in named), default=0)
        shape = [sizes[axis] if axis in named else 1 for axis in parsed.outputs[first:]]
        if None in shape or set(named) - set(parsed.outputs):
            raise ValueError(
                "`bias_axes` must be axes of the outputs of known size. "
                f"Received: bias_axes={self.bias_axes!r}, equation={self.equation!r}"
            )
        self.bias = bias_of(self, tuple(shape))

    def call(self, inputs: Tensor) -> Tensor:
        parsed, sizes = self._sizes(inputs.shape)
        if parsed.outputs[0] == parsed.inputs[0]:  # the batch
            outputs = tracing.stand_in(self, inputs)
            if outputs is not None:
                return outputs
        dynamic = dict(zip(parsed.inputs, ops.shape(inputs), strict=True))
        free, units = parsed.free, parsed.units
        x = _ordered(inputs, parsed.inputs, (*free, *parsed.contracted))
        x = ops.reshape(x, (*(dynamic[axis] for axis in free), self.kernel.inputs))
        x = self.kernel(x)
        x = ops.reshape(x, (*(dynamic[a] for a in free), *(sizes[a] for a in units)))
        return self.activated(_ordered(x, (*free, *units), parsed.outputs))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        parsed, sizes = self._sizes(input_shape)
        return tuple(sizes[axis] for axis in parsed.outputs)

    def project(self, kernel: ArrayLike, inputs: ArrayLike | None = None) -> Projection:
        """Set the kernel, given by the axes of the equation, as `StructuredDense.project` does."""
        return self.kernel.project(self._matrix(kernel), inputs)

    @staticmethod
    def kernels_of(layer: keras.layers.Layer) -> list[tuple[int, int]]:
        """Return the shapes, inputs and units, of the kernels of an `EinsumDense` layer."""
        rank = len(layer.get_build_config()["input_shape"])
        parsed = EinsumEquation.parsed(layer.equation, rank)
        sizes = dict(zip(parsed.kernel, layer.kernel.shape, strict=True))
        return [
            tuple(math.prod(sizes[a] for a in part) for part in (parsed.contracted, parsed.units))
        ]

    def start_from(
        self, layer: keras.layers.Layer, arguments: list[np.ndarray] | None = None
    ) -> list[base.Start]:
        """Begin as near to an `EinsumDense` layer of the same equation as can be."""
        if arguments:
            parsed, _ = self._sizes(arguments[0].shape)
            order = [parsed.inputs.index(axis) for axis in (*parsed.free, *parsed.contracted)]
            arguments = [np.transpose(argument, order) for argument in arguments]
        base.copy_variable(layer.bias, self.bias)
        return self.kernel.start_from(self._matrix(layer.kernel), layer.kernel, arguments)

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample."""
        parsed, sizes = self._sizes(input_shape)
        vectors = math.prod(size for size in (sizes[axis] for axis in parsed.free) if size)
        batch = sizes[parsed.inputs[0]] or 1
        return vectors // batch * self.vector_multiply_adds

    @property
    def vector_multiply_adds(self) -> int:
        """The multiply–adds of one product with the matrix."""
        return self.kernel.multiply_adds

    def get_config(self) -> Config:
        return {**super().get_config(), "output_shape": tuple(self.partial_output_shape)}

    def _matrix(self, kernel):
        """Return a kernel of the equation as a matrix `(inputs, units)`."""
        parsed, _ = self._sizes(self.get_build_config()["input_shape"])
        order = [parsed.kernel.index(axis) for axis in (*parsed.contracted, *parsed.units)]
        matrix = ops.convert_to_numpy(kernel).transpose(order)
        return matrix.reshape(self.kernel.inputs, self.kernel.units)

    def kernel_of(self, matrix: Tensor) -> Tensor:
        """Return a matrix `(inputs, units)` as a kernel of the equation."""
        parsed, sizes = self._sizes(self.get_build_config()["input_shape"])
        order = [(*parsed.contracted, *parsed.units).index(axis) for axis in parsed.kernel]
        axes = [sizes[axis] for axis in (*parsed.contracted, *parsed.units)]
        return ops.transpose(ops.reshape(matrix, axes), order)

    def _sizes(self, input_shape):
        """Return the parsed equation and the size of each axis by name."""
        parsed = EinsumEquation.parsed(self.equation, len(input_shape))
        sizes = dict(zip(parsed.inputs, input_shape, strict=True))
        named = [axis for axis in parsed.outputs if len(axis) == 1]
        given = self.partial_output_shape
        if len(given) > len(named):
            raise ValueError(
                "`output_shape` must have at most a size for each named axis of the outputs. "
                f"Received: output_shape={given}, equation={self.equation!r}"
            )
        for axis, size in zip(named[len(named) - len(given) :], given, strict=True):
            if axis in parsed.kernel:
                sizes[axis] = size
        for axis in parsed.outputs:
            sizes.setdefault(axis, None)
        return parsed, sizes


def _axes(part, count):
    """Return the axes of a part of an equation; those in `…` are called `…0`, `…1`, …."""
    before, dots, after = part.partition("...")
    return (*before, *(f"…{index}" for index in range(count if dots else 0)), *after)


def _ordered(x, now, wanted):
    order = [now.index(axis) for axis in wanted]
    return x if order == sorted(order) else ops.transpose(x, order)
