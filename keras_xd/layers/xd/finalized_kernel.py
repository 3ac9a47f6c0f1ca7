"""A finalized XD-operation that keeps its kernel, and so is no larger than the searched one."""

import math
from collections.abc import Sequence
from typing import Any, Unpack

import keras
import numpy as np
from keras import constraints, ops, regularizers

from keras_xd.core import validation
from keras_xd.core.type_aliases import (
    Activation,
    Config,
    Constraint,
    LayerOptions,
    Regularizer,
    Tensor,
)
from keras_xd.layers.xd import functional
from keras_xd.layers.xd.finalized import StaticXD

# Regularizers and constraints of entries alone, which hold for a kernel with other axes too.
BY_ENTRY = (regularizers.L1, regularizers.L2, regularizers.L1L2, constraints.NonNeg)


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

    Input shape:
        That of the layer it came from, at the same spatial sizes.

    Output shape:
        That of the layer it came from.

    Raises:
        ValueError: if the spatial sizes are not those it was made for.

    Example:

    >>> from keras_xd import layers
    >>> operation = layers.XDConv2D(16, 3, padding="same")
    >>> operation.build((None, 32, 32, 16))
    >>> counts = [operation.finalize(keep).count_params() for keep in ("kernel", "spectrum")]
    >>> counts[0] < operation.count_params() < counts[1]
    True

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, equation 5.
    """

    def __init__(
        self,
        axes: Sequence[dict[str, Any]],
        channels: int,
        filters: int,
        kernel_size: Sequence[int],
        groups: int = 1,
        data_format: str = "channels_last",
        use_bias: bool = True,
        activation: Activation = None,
        frequency_bias: bool = False,
        channel_gates: bool = False,
        storage: str | None = None,
        *,
        kernel_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(
            axes,
            channels,
            filters,
            groups,
            data_format,
            use_bias,
            activation,
            storage=storage,
            **kwargs,
        )
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

    def get_config(self) -> Config:
        config = super().get_config()
        del config["pieces"]
        return {
            **config,
            "kernel_size": list(self.kernel_size),
            "frequency_bias": self.frequency_bias,
            "channel_gates": self.channel_gates,
            "kernel_regularizer": regularizers.serialize(self.kernel_regularizer),
            "kernel_constraint": constraints.serialize(self.kernel_constraint),
        }

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
