"""What an XD-operation becomes when its search is over."""

import math
from collections.abc import Sequence
from typing import Any, Self, Unpack

import keras
import numpy as np
from keras import constraints, ops, regularizers

from keras_xd import kmatrix
from keras_xd.core import shapes, tracing, validation
from keras_xd.core.configured import BiasedLayer, bias_of, built_like, checked_data_format
from keras_xd.core.quantization import QuantizedWeights
from keras_xd.core.type_aliases import BiasOptions, Constraint, Regularizer, Shape, Tensor
from keras_xd.kmatrix import transform
from keras_xd.kmatrix.transform import ForwardTransform, TransposedTransform
from keras_xd.layers.xd import functional
from keras_xd.layers.xd.finalized_sizes import FormCost

STORAGES = ("float16", "bfloat16")
LARGEST_HALF = 65504.0  # of float16
# Arguments of a searched layer that its finalized form has too.
SHARED = (
    *("filters", "groups", "data_format", "use_bias", "activation", "activity_regularizer"),
    *("bias_regularizer", "bias_constraint"),
)
# By these a spectrum was cut into pieces where the configuration in a file does not tell them.
_LARGEST_PIECE, _MOST_PIECES = 2**21, 8
TRANSFORMS, MATRIX_KEYS = ("analysis", "synthesis"), ("groups", "shapes")
AXIS_KEYS = ("n", "radices", "groups", "size", "input_stride", "output_size", "stride", *TRANSFORMS)
# Regularizers and constraints of entries alone, which hold for a kernel with other axes too.
BY_ENTRY = (regularizers.L1, regularizers.L2, regularizers.L1L2, constraints.NonNeg)


class StaticOptions(BiasOptions, total=False):
    """Keyword arguments of all finalized XD-operations."""

    groups: int
    data_format: str
    storage: str | None


class StaticOperation(BiasedLayer, QuantizedWeights):
    """Base class of finalized XD-operations, which have `output_sizes`."""

    # Then `keras_xd.reset_weights` refuses the layer: it would reset what the search has found.
    weights_hold_architecture = True

    def __init__(
        self,
        channels: int,
        filters: int,
        groups: int = 1,
        data_format: str = "channels_last",
        storage: str | None = None,
        **kwargs: Unpack[BiasOptions],
    ):
        super().__init__(**kwargs)
        self.channels = validation.positive_integer(channels, "channels")
        self.filters = validation.positive_integer(filters, "filters")
        self.groups = validation.positive_integer(groups, "groups")
        self.data_format = checked_data_format(data_format)
        self.storage = validation.one_of(storage, (None, *STORAGES), "storage")
        # Of the search, not saved: the error of the linear map, how many ranks or frequencies of
        # each axis were kept, and what the exact forms cost.
        self.error: float | None = None
        self.kept: tuple[int, ...] | None = None
        self.costs: tuple[FormCost, ...] = ()

    @staticmethod
    def arguments_like(layer: keras.layers.Layer, storage: str | None) -> dict[str, Any]:
        """Return the arguments that a static layer shares with the `XDConv` it is made of."""
        shape = layer.get_build_config()["input_shape"]
        return {
            **{name: getattr(layer, name) for name in SHARED},
            "channels": shape[-1 if layer.data_format == "channels_last" else 1],
            "storage": storage,
        }

    def add_stored(
        self,
        name: str,
        shape: tuple[int, ...],
        trained: bool,
        regularizer: Regularizer = None,
        constraint: Constraint = None,
    ) -> keras.Variable:
        """Return a new weight in the type that is stored."""
        return self.add_weight(
            name=name,
            shape=shape,
            initializer="glorot_uniform",
            regularizer=regularizer,
            constraint=constraint,
            trainable=trained and self.storage is None,
            dtype=self.storage or functional.exact_dtype(self.variable_dtype),
            autocast=False,
        )

    def take_values(self, layer: keras.layers.Layer, values: Sequence[Tensor]) -> None:
        """Give weights their values, and the bias that of the layer it is made of."""
        for weight, value in zip(self._named(), values, strict=True):
            if self.storage is not None:
                _check_range(layer, value, self.storage)
            weight.assign(ops.copy(value))
        if self.bias is not None:
            self.bias.assign(ops.copy(layer.bias))

    def computed(self, weight: keras.Variable) -> Tensor:
        """Return a weight as a tensor of the type that transforms are computed in."""
        if self.storage is None and self.quantization_mode is None:
            return functional.exact(ops.convert_to_tensor(weight))
        return self.stored(weight, functional.exact_dtype(self.compute_dtype))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        sizes = self.output_sizes
        return shapes.joined_shape(input_shape[0], sizes, self.filters, self.data_format)

    def finished(self, outputs: Tensor) -> Tensor:
        """Return outputs in the layer's type, activated."""
        return self.activation(ops.cast(outputs, self.compute_dtype))


@keras.saving.register_keras_serializable(package="keras_xd")
class StaticXD(StaticOperation):
    """A finished XD-operation: `K`, the spectrum `C ∘ (L w + b)` and `M` multiplied out.

    The layer holds dense matrices of exactly the sizes in use and computes

        y_i = Σ_j Re( K · diag(D_ij) · M · x_j ) + bias_i

    by one matrix product per axis and block, and one channel product per frequency. It uses no FFT
    and nothing that depends on weights alone, so that an exported model repeats no work.
    `XDConv.finalize()` and `keras_xd.finalize(model)` make such layers.

    Args:
        axes: a dictionary for each spatial axis: `n`, `radices` and `groups` of its plan, `size`,
            `input_stride`, `output_size`, `stride`, and for `analysis` and `synthesis` the group
            index and the shape of each matrix.
        channels: number of input channels.
        pieces: by how many frequencies of the first axis the spectrum is cut into weights, a list
            of integers; `None` cuts it into at most 8, of about 2²¹ numbers.
        storage: `"float16"` or `"bfloat16"`: the data type that matrices and spectrum are stored
            in. They are not trained then. All is computed in the layer's own data type.
        filters, groups, data_format, use_bias, activation, bias_initializer, bias_regularizer,
            bias_constraint: as in a Keras convolution.

    Example:

    >>> import keras, numpy as np
    >>> from keras_xd import layers
    >>> operation = layers.XDConv1D(4, 3, padding="causal")
    >>> signal = np.random.default_rng(0).normal(size=(2, 20, 3)).astype("float32")
    >>> expected = operation(signal)
    >>> static = operation.finalize()
    >>> type(static).__name__, bool(np.allclose(static(signal), expected, atol=1e-5))
    ('StaticXD', True)

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, equation 5.
    """

    quantized_weights = ("_matrices", "spectrum")

    def __init__(
        self,
        axes: Sequence[dict[str, Any]],
        channels: int,
        filters: int,
        *,
        pieces: Sequence[int] | None = None,
        **kwargs: Unpack[StaticOptions],
    ):
        super().__init__(channels, filters, **kwargs)
        if not isinstance(axes, (list, tuple)) or not all(map(_is_axis, axes)):
            raise ValueError(
                "`axes` must be a list of dictionaries, one an axis, with the keys "
                f"{', '.join(AXIS_KEYS)}, and `analysis` and `synthesis` with {MATRIX_KEYS}. "
                f"Received: axes={axes!r}"
            )
        self.axes = axes
        self.output_sizes = tuple(axis["output_size"] for axis in axes)
        if pieces is None:
            sizes, limits = [axis["n"] for axis in axes], (_LARGEST_PIECE, _MOST_PIECES)
            pieces = functional.spectrum_pieces(sizes, channels // self.groups, filters, *limits)
        self.pieces = validation.integer_tuple(pieces, len(pieces), "pieces")
        if sum(self.pieces) != axes[0]["n"]:
            raise ValueError(
                "`pieces` must add up to the number of frequencies of the first axis. "
                f"Received: pieces={self.pieces}, n={axes[0]['n']}"
            )

    @classmethod
    def from_tensors(
        cls,
        layer: keras.layers.Layer,
        analyses: Sequence[ForwardTransform],
        spectrum: Sequence[Tensor],
        syntheses: Sequence[TransposedTransform],
        storage: str | None = None,
    ) -> Self:
        """Make the static layer of an `XDConv` from what its `call` computes from weights."""
        axes = [_axis(*both) for both in zip(analyses, syntheses, strict=True)]
        arguments = cls.arguments_like(layer, storage) | cls.spectrum_arguments(axes, spectrum)
        static = built_like(layer, cls, axes, **arguments)
        matrices = static.stored_matrices([m for t in (*analyses, *syntheses) for m in t.matrices])
        static.take_values(layer, (*matrices, *spectrum))
        return static

    @classmethod
    def spectrum_arguments(
        cls, axes: Sequence[dict[str, Any]], spectrum: Sequence[Tensor]
    ) -> dict[str, Any]:
        """Return the arguments that tell the shapes of the weights in `spectrum`."""
        frequencies = math.prod(axis["n"] for axis in axes)
        return {"pieces": [piece.shape[0] * axes[0]["n"] // frequencies for piece in spectrum]}

    def build(self, input_shape: Shape) -> None:
        sizes = [axis["size"] for axis in self.axes]
        self.input_spec = shapes.input_spec(sizes, self.channels, self.data_format)
        # Tuples, because TensorFlow's checkpoints reach nothing in lists and dictionaries.
        self._matrices = tuple(
            self.add_stored(name, shape, trained=False) for name, shape in self._matrix_shapes()
        )
        self.spectrum = tuple(self.add_stored(*shape) for shape in self._spectrum_shapes())
        self.bias = bias_of(self, (self.filters,))
        self.finish_quantized_build()

    def call(self, inputs: Tensor) -> Tensor:
        outputs = tracing.stand_in(self, inputs)
        if outputs is not None:
            return outputs
        weights = [self.computed(weight) for weight in self._matrices]
        matrices = iter(self._computed_matrices(weights))
        analyses = [self._transform("analysis", i, matrices) for i in range(len(self.axes))]
        syntheses = [self._transform("synthesis", i, matrices) for i in range(len(self.axes))]
        x = ops.cast(inputs, functional.exact_dtype(self.compute_dtype))
        x = functional.to_columns(x, self.data_format)
        weights = [self.computed(weight) for weight in self.spectrum]
        spectrum = [ops.cast(p, self.compute_dtype) for p in self._computed_spectrum(weights)]
        outputs = functional.apply(x, analyses, spectrum, syntheses, self.groups)
        outputs = functional.with_bias(outputs, self.bias)
        return self.finished(functional.from_columns(outputs, self.data_format))

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample, counted as `XDConv2D.complexity` does."""
        total, before = 0, 1
        inputs = math.prod(axis["size"] for axis in self.axes)
        outputs = math.prod(axis["output_size"] for axis in self.axes)
        for axis in self.axes:
            inputs //= axis["size"]
            outputs //= axis["output_size"]
            # Every entry of a matrix meets one number of each vector.
            for name, others in (
                ("analysis", inputs * self.channels),
                ("synthesis", outputs * self.filters),
            ):
                entries = sum(math.prod(shape) for shape in axis[name]["shapes"])
                total += before * others * entries
            before *= axis["n"]
        # A complex product is four real ones.
        return total + 4 * before * (self.channels // self.groups) * self.filters

    def stored_matrices(self, matrices: Sequence[Tensor]) -> list[Tensor]:
        """Return what is stored of the matrices of all transforms: here all of them."""
        return list(matrices)

    def _matrix_shapes(self):
        """Return the name and shape of each weight that holds a matrix of a transform."""
        return [
            (f"{name}{index}_{position}", tuple(shape))
            for name in TRANSFORMS
            for index, axis in enumerate(self.axes)
            for position, shape in enumerate(axis[name]["shapes"])
        ]

    def _spectrum_shapes(self):
        """Return name, shape and whether it is trained of each weight of the spectrum."""
        others = math.prod(axis["n"] for axis in self.axes[1:])
        channels = (self.channels // self.groups, self.filters)
        return [
            (f"spectrum_{index}", (frequencies * others, 2, *channels), True)
            for index, frequencies in enumerate(self.pieces)
        ]

    def _computed_matrices(self, matrices):
        """Return the matrices of all transforms from what is stored of them."""
        return matrices

    def _computed_spectrum(self, spectrum):
        """Return the pieces of the spectrum from the weights that hold it."""
        return spectrum

    def _transform(self, name, index, matrices):
        axis = self.axes[index]
        groups = tuple(axis[name]["groups"])
        forward = name == "analysis"
        kind = transform.ForwardTransform if forward else transform.TransposedTransform
        return kind(
            matrices=[next(matrices) for _ in groups],
            groups=groups,
            plan=kmatrix.radix.Plan(axis["n"], tuple(axis["radices"]), tuple(axis["groups"])),
            size=axis["size"] if forward else axis["output_size"],
            stride=axis["input_stride" if forward else "stride"],
            pair=index > 0,
            repeat=False,
        )


@keras.saving.register_keras_serializable(package="keras_xd")
class StaticKernelXD(StaticXD):
    """A finalized XD-operation that stores its kernel `w` in place of the spectrum `L w`.

    It computes what `StaticXD` does, and the spectrum `C ∘ (L w + b)` in every call, by one matrix
    product an axis. `K` and `M` are stored as block factors, of which a complex number takes two
    real ones, and of `L` the columns that meet the kernel. `XDConv.finalize(form="kernel")` and
    `keras_xd.finalize(model, form="kernel")` make such layers.

    Args:
        axes, channels, filters, groups, data_format, use_bias, activation, storage,
            bias_regularizer, bias_constraint: as in `StaticXD`.
        kernel_size: number of kernel positions along each axis.
        frequency_bias: whether there is a bias `b` of the spectrum.
        channel_gates: whether there are gates `C`; without `b` they are part of the kernel.
        kernel_regularizer, kernel_constraint: as in a Keras convolution.

    Example:

    >>> from keras_xd import layers
    >>> operation = layers.XDConv2D(16, 3, padding="same")
    >>> operation.build((None, 32, 32, 16))
    >>> counts = [
    ...     operation.finalize(keep).count_params() for keep in ("kernel", "spectrum")
    ... ]
    >>> counts[0] < operation.count_params() < counts[1]
    True

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, equation 5.
    """

    fixed = ("pieces",)

    def __init__(
        self,
        axes: Sequence[dict[str, Any]],
        channels: int,
        filters: int,
        kernel_size: Sequence[int],
        *,
        frequency_bias: bool = False,
        channel_gates: bool = False,
        kernel_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        **kwargs: Unpack[StaticOptions],
    ):
        super().__init__(axes, channels, filters, **kwargs)
        self.kernel_size = validation.integer_tuple(kernel_size, len(axes), "kernel_size")
        self.frequency_bias = validation.boolean(frequency_bias, "frequency_bias")
        self.channel_gates = validation.boolean(channel_gates, "channel_gates")
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)

    @classmethod
    def spectrum_arguments(
        cls, axes: Sequence[dict[str, Any]], spectrum: Sequence[Tensor]
    ) -> dict[str, Any]:
        """Return the arguments that tell the shapes of `L`, `w`, `b` and `C` in `spectrum`."""
        rank = len(axes)
        return {
            "kernel_size": list(spectrum[rank].shape[:rank]),
            "frequency_bias": len(spectrum) > rank + 1,
            "channel_gates": len(spectrum) > rank + 2,
        }

    @property
    def kernel(self) -> keras.Variable:
        """The kernel `w`, of shape `(*kernel_size, channels / groups, filters)`."""
        return self.spectrum[len(self.axes)]

    @property
    def formed_numbers(self) -> int:
        """How many numbers the spectrum has that every call forms."""
        frequencies = math.prod(axis["n"] for axis in self.axes)
        return 2 * frequencies * (self.channels // self.groups) * self.filters

    def forming_multiply_adds(self) -> int:
        """Return the multiply–adds of forming the spectrum, which every call does once."""
        sizes, connections = [axis["n"] for axis in self.axes], self.channels // self.groups
        connections *= self.filters
        return functional.forming_multiply_adds(sizes, self.kernel_size, connections)

    @staticmethod
    def arguments_like(layer: keras.layers.Layer, storage: str | None) -> dict[str, Any]:
        """Return the arguments that the layer shares, with those of the kernel where they hold."""
        arguments = StaticXD.arguments_like(layer, storage)
        same = layer.kernel_is_grouped and (layer.frequency_bias or not layer.channel_gates)
        for kind in ("regularizer", "constraint"):
            value = getattr(layer.kernel, kind)
            arguments[f"kernel_{kind}"] = value if same or isinstance(value, BY_ENTRY) else None
        return arguments

    def stored_matrices(self, matrices: Sequence[Tensor]) -> list[Tensor]:
        """Return what is stored of the matrices of all transforms: every complex number once."""
        return [
            # Of a complex number the column `[A, B]`.
            matrix if pairs is None else ops.take(ops.reshape(matrix, pairs[0]), 0, axis=pairs[2])
            for matrix, pairs in zip(matrices, self._pairs(), strict=True)
        ]

    def _matrix_shapes(self):
        return [
            (name, shape if pairs is None else tuple(np.delete(pairs[0], pairs[2]).tolist()))
            for (name, shape), pairs in zip(super()._matrix_shapes(), self._pairs(), strict=True)
        ]

    def _spectrum_shapes(self):
        connections = (self.channels // self.groups, self.filters)
        sizes = zip(self.axes, self.kernel_size, strict=True)
        shapes = [(f"L{i}", (axis["n"], 2, k), False) for i, (axis, k) in enumerate(sizes)]
        kept = self.kernel_regularizer, self.kernel_constraint
        shapes.append(("kernel", (*self.kernel_size, *connections), True, *kept))
        if self.frequency_bias:
            frequencies = math.prod(axis["n"] for axis in self.axes)
            shapes.append(("frequency_bias", (frequencies, 2, 1, 1), False))
        if self.channel_gates:
            shapes.append(("channel_gates", connections, False))
        return shapes

    def _computed_matrices(self, matrices):
        return [
            matrix if pairs is None else _doubled(matrix, *pairs)
            for matrix, pairs in zip(matrices, self._pairs(), strict=True)
        ]

    def _computed_spectrum(self, spectrum):
        rank = len(self.axes)
        matrices, kernel, extras = spectrum[:rank], spectrum[rank], list(spectrum[rank + 1 :])
        bias = extras.pop(0) if self.frequency_bias else None
        gates = extras.pop(0) if self.channel_gates else None
        return functional.spectrum(kernel, matrices, bias, gates, repeat=False)

    def _pairs(self):
        """Return by matrix its shape with pairs apart, and the two axes of these, or `None`."""
        return [
            _pair_axes(tuple(shape), name, place, axis, index)
            for name in ("analysis", "synthesis")
            for index, axis in enumerate(self.axes)
            for place, shape in enumerate(axis[name]["shapes"])
        ]


def _check_range(layer, value, storage):
    """Raise `ValueError` if a number becomes infinite in a shorter type."""
    largest = float(np.max(np.abs(ops.convert_to_numpy(value)), initial=0.0))
    if storage == "float16" and largest > LARGEST_HALF:
        raise ValueError(
            f"Numbers stored in float16 must not be larger than {LARGEST_HALF:.0f}; take "
            f"'bfloat16'. Received: {largest:.3g} in layer '{layer.name}', weight_dtype={storage!r}"
        )


def _is_axis(axis):
    """Return whether an entry in `axes` is complete."""
    return (
        isinstance(axis, dict)
        and all(key in axis for key in AXIS_KEYS)
        and all(isinstance(axis[name], dict) for name in TRANSFORMS)
        and all(key in axis[name] for name in TRANSFORMS for key in MATRIX_KEYS)
    )


def _axis(analysis, synthesis):
    """Return the entry in `axes` of the two transforms of an axis."""
    plan = analysis.plan
    return {
        "n": plan.n,
        "radices": list(plan.radices),
        "groups": list(plan.groups),
        "size": analysis.size,
        "input_stride": analysis.stride,
        "output_size": synthesis.size,
        "stride": synthesis.stride,
        "analysis": _matrix_specification(analysis),
        "synthesis": _matrix_specification(synthesis),
    }


def _matrix_specification(transform):
    return {
        "groups": list(transform.groups),
        "shapes": [list(matrix.shape) for matrix in transform.matrices],
    }


def _pair_axes(shape, name, place, axis, index):
    """Return `(shape with pairs apart, axis of the row's pair, of the column's)`, or `None`."""
    end = place == (0 if name == "analysis" else len(axis[name]["shapes"]) - 1)
    if end and index == 0:
        return None  # the signal is real
    *leading, rows, columns = shape
    if len(axis["groups"]) == 1 and name == "analysis":
        return (rows // 2, 2, 2, columns // 2), 1, 2
    if len(axis["groups"]) == 1:
        return (2, rows // 2, columns // 2, 2), 0, 3
    first = len(leading)
    return (*leading, rows // 2, 2, columns // 2, 2), first + 1, first + 3


def _doubled(half, shape, row_axis, column_axis):
    """Return the matrix of its columns `[A, B]`."""
    real, imaginary = ops.split(half, 2, axis=row_axis)
    other = ops.concatenate([-imaginary, real], axis=row_axis)
    whole = ops.stack([half, other], axis=column_axis)
    *leading, a, b, c, d = shape
    return ops.reshape(whole, (*leading, a * b, c * d))
