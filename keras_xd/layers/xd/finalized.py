"""The static layer that an XD-operation becomes when its search is over."""

import math
from collections.abc import Sequence
from typing import Any, Self, Unpack

import keras
from keras import ops

from keras_xd import kmatrix
from keras_xd.core import tracing, validation
from keras_xd.core.configured import bias_of
from keras_xd.core.type_aliases import Shape, Tensor
from keras_xd.kmatrix import transform
from keras_xd.kmatrix.transform import ForwardTransform, TransposedTransform
from keras_xd.layers.xd import functional
from keras_xd.layers.xd.static_operation import StaticOperation, StaticOptions

# By these a spectrum was cut into pieces where the configuration in a file does not tell them.
_LARGEST_PIECE, _MOST_PIECES = 2**21, 8
TRANSFORMS, MATRIX_KEYS = ("analysis", "synthesis"), ("groups", "shapes")
AXIS_KEYS = ("n", "radices", "groups", "size", "input_stride", "output_size", "stride", *TRANSFORMS)


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
        filters: number of output channels.
        groups: number of channel groups.
        data_format: `"channels_last"` or `"channels_first"`.
        use_bias: whether there is a bias.
        activation: activation function, or `None`.
        pieces: by how many frequencies of the first axis the spectrum is cut into weights, a list
            of integers; `None` cuts it into at most 8, of about 2²¹ numbers.
        storage: `"float16"` or `"bfloat16"`: the data type that matrices and spectrum are stored
            in. They are not trained then. All is computed in the layer's own data type.
        bias_regularizer, bias_constraint: as in a Keras convolution, keyword arguments.

    Input shape:
        That of the layer it came from, at the same spatial sizes.

    Output shape:
        That of the layer it came from.

    Raises:
        ValueError: if the spatial sizes are not those it was made for, or if the pieces do not add
            up to the frequencies.

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
        """Make the static layer of an `XDConv` from what its `call` computes from weights.

        Raises:
            ValueError: if a number is too large for the type it is to be stored in.
        """
        axes = [_axis(*both) for both in zip(analyses, syntheses, strict=True)]
        static = cls(
            axes,
            **cls.arguments_like(layer, storage),
            **cls.spectrum_arguments(axes, spectrum),
        )
        static.build(layer.get_build_config()["input_shape"])
        matrices = static.stored_matrices([m for t in (*analyses, *syntheses) for m in t.matrices])
        static.take_values(layer, (*static._matrices, *static.spectrum), (*matrices, *spectrum))
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
        self.input_spec = functional.input_spec(sizes, self.channels, self.data_format)
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
        """Return the multiply–adds of one sample, counted as `XDConv.complexity` does."""
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
