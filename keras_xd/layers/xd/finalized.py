"""The static layer that an XD-operation becomes when its search is over."""

import math
from collections.abc import Sequence
from typing import Any, Self, Unpack

import keras
from keras import activations, ops

from keras_xd import kmatrix
from keras_xd.core import validation
from keras_xd.core.type_aliases import Activation, Config, LayerOptions, Shape, Tensor
from keras_xd.kmatrix import transform
from keras_xd.kmatrix.transform import Analysis, Synthesis
from keras_xd.layers.xd import functional

# By these a spectrum was cut into pieces where the configuration in a file does not tell them.
_LARGEST_PIECE, _MOST_PIECES = 2**21, 8
DATA_FORMATS = ("channels_last", "channels_first")


@keras.saving.register_keras_serializable(package="keras_xd")
class StaticXD(keras.layers.Layer):
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

    # Then `keras_xd.reset_weights` refuses the layer: it would reset what the search has found.
    weights_hold_architecture = True

    def __init__(
        self,
        axes: Sequence[dict[str, Any]],
        channels: int,
        filters: int,
        groups: int = 1,
        data_format: str = "channels_last",
        use_bias: bool = True,
        activation: Activation = None,
        pieces: Sequence[int] | None = None,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**kwargs)
        if not isinstance(axes, (list, tuple)):
            raise ValueError(
                f"`axes` must be a list of dictionaries, one an axis. Received: axes={axes!r}"
            )
        self.axes = axes
        self.channels = validation.positive_integer(channels, "channels")
        self.filters = validation.positive_integer(filters, "filters")
        self.groups = validation.positive_integer(groups, "groups")
        self.data_format = validation.one_of(data_format, DATA_FORMATS, "data_format")
        self.use_bias = validation.boolean(use_bias, "use_bias")
        self.activation = activations.get(activation)
        if pieces is None:
            sizes, limits = [axis["n"] for axis in axes], (_LARGEST_PIECE, _MOST_PIECES)
            pieces = functional.spectrum_pieces(sizes, channels // groups, filters, *limits)
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
        analyses: Sequence[Analysis],
        spectrum: Sequence[Tensor],
        syntheses: Sequence[Synthesis],
    ) -> Self:
        """Make the static layer of an `XDConv` from what its `call` computes from weights."""
        axes = []
        for analysis, synthesis in zip(analyses, syntheses, strict=True):
            plan = analysis.plan
            axes.append(
                {
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
            )
        frequencies = math.prod(axis["n"] for axis in axes)
        static = cls(
            axes,
            channels=spectrum[0].shape[2] * layer.groups,
            filters=layer.filters,
            groups=layer.groups,
            data_format=layer.data_format,
            use_bias=layer.use_bias,
            activation=layer.activation,
            pieces=[piece.shape[0] * axes[0]["n"] // frequencies for piece in spectrum],
            activity_regularizer=layer.activity_regularizer,
            name=layer.name,
            dtype=layer.dtype_policy,
            trainable=layer.trainable,
        )
        static.build(layer.get_build_config()["input_shape"])
        for weight, value in zip(
            static._matrices, [m for t in (*analyses, *syntheses) for m in t.matrices], strict=True
        ):
            weight.assign(ops.copy(value))
        for weight, value in zip(static.spectrum, spectrum, strict=True):
            weight.assign(ops.copy(value))
        if layer.use_bias:
            static.bias.assign(ops.copy(layer.bias))
        return static

    def build(self, input_shape: Shape) -> None:
        sizes = [axis["size"] for axis in self.axes]
        self.input_spec = functional.input_spec(sizes, self.channels, self.data_format)
        # Tuples, because TensorFlow's checkpoints reach nothing in lists and dictionaries.
        self._matrices = tuple(
            self.add_weight(
                name=f"{name}{index}_{position}",
                shape=tuple(shape),
                initializer="glorot_uniform",
                trainable=False,
            )
            for name in ("analysis", "synthesis")
            for index, axis in enumerate(self.axes)
            for position, shape in enumerate(axis[name]["shapes"])
        )
        others = math.prod(axis["n"] for axis in self.axes[1:])
        self.spectrum = tuple(
            self.add_weight(
                name=f"spectrum_{index}",
                shape=(frequencies * others, 2, self.channels // self.groups, self.filters),
                initializer="glorot_uniform",
            )
            for index, frequencies in enumerate(self.pieces)
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(name="bias", shape=(self.filters,), initializer="zeros")

    def call(self, inputs: Tensor) -> Tensor:
        matrices = iter(ops.convert_to_tensor(weight) for weight in self._matrices)
        analyses = [self._transform("analysis", i, matrices) for i in range(len(self.axes))]
        syntheses = [self._transform("synthesis", i, matrices) for i in range(len(self.axes))]
        x = functional.to_columns(inputs, self.data_format)
        spectrum = [ops.convert_to_tensor(piece) for piece in self.spectrum]
        outputs = functional.apply(x, analyses, spectrum, syntheses, self.groups)
        if self.bias is not None:
            outputs = outputs + self.bias
        outputs = functional.from_columns(outputs, self.data_format)
        return outputs if self.activation is None else self.activation(outputs)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        spatial = tuple(axis["output_size"] for axis in self.axes)
        if self.data_format == "channels_last":
            return (input_shape[0], *spatial, self.filters)
        return (input_shape[0], self.filters, *spatial)

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

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "axes": self.axes,
            "channels": self.channels,
            "filters": self.filters,
            "groups": self.groups,
            "data_format": self.data_format,
            "use_bias": self.use_bias,
            "activation": activations.serialize(self.activation),
            "pieces": list(self.pieces),
        }

    def _transform(self, name, index, matrices):
        axis = self.axes[index]
        plan = _plan(axis)
        groups = tuple(axis[name]["groups"])
        forward = name == "analysis"
        kind = transform.Analysis if forward else transform.Synthesis
        return kind(
            matrices=[next(matrices) for _ in groups],
            groups=groups,
            plan=plan,
            size=axis["size"] if forward else axis["output_size"],
            stride=axis["input_stride" if forward else "stride"],
            pair=index > 0,
            repeat=False,
        )


def _plan(axis):
    return kmatrix.Plan(axis["n"], tuple(axis["radices"]), tuple(axis["groups"]))


def _matrix_specification(transform):
    return {
        "groups": list(transform.groups),
        "shapes": [list(matrix.shape) for matrix in transform.matrices],
    }
