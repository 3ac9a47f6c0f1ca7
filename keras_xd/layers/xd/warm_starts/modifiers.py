"""Starts made from other starts: composed with fixed matrices, or perturbed."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_xd import kmatrix
from keras_xd.core import validation
from keras_xd.kmatrix import constructions, special
from keras_xd.kmatrix.constructions import Stages
from keras_xd.layers.xd.axis_layout import AxisGeometry
from keras_xd.layers.xd.warm_starts.operations import (
    Axes,
    Convolution,
    Factors,
    Radices,
    Rng,
    get,
    identifier,
)

# What may stand before or after an operation along one axis.
Entry = Sequence[int] | np.ndarray | kmatrix.KMatrix | None


class _Modified(Convolution):
    """A start that is another one except for its matrices."""

    def __init__(self, start: str | Convolution):
        super().__init__()
        self.start = get(start)
        self.needs_frequency_bias = self.start.needs_frequency_bias
        self.needs_channel_gates = self.start.needs_channel_gates
        self.is_random = self.start.is_random
        self.is_transposable = self.start.is_transposable

    def check(self, layer: keras.layers.Layer, channels: int) -> None:
        self.start.check(layer, channels)

    def smallest_size(self, index: int, radix: Any) -> int:
        """Return how many points an axis of a layer must have at least for this operation."""
        return self.start.smallest_size(index, radix)

    def placement(self, axis: AxisGeometry) -> np.ndarray:
        return self.start.placement(axis)

    def placed_weights(self, axis: AxisGeometry) -> np.ndarray | None:
        """Return for each point of the circle the index of the weight there, or `None`."""
        return self.start.placed_weights(axis)

    def rest(self, radices: Radices, rng: Rng) -> Stages:
        """Return a butterfly for a factor that the start leaves free."""
        return self.start.rest(radices, rng)

    def frequency_bias(self, axes: Axes, radices: Sequence[Radices]) -> np.ndarray:
        return self.start.frequency_bias(axes, radices)

    def channel_gates(self, channels: int, filters: int) -> np.ndarray:
        return self.start.channel_gates(channels, filters)

    def get_config(self) -> dict[str, Any]:
        return {"start": identifier(self.start)}


@keras.saving.register_keras_serializable(package="keras_xd")
class Composed(_Modified):
    """A known operation after and before fixed matrices: `A_output · operation · A_input` per axis.

    With `operation = Re(K · D · M)` the matrix on the inputs becomes part of `M` and that on the
    outputs part of `K`, and both are trained from there. A permutation takes two further factors of
    `M` or `K`, so the layer needs depth 3 there; another K-matrix of depth `d` takes `d + 1`
    factors, on the outputs `d` if `d` is odd.

    Args:
        start: the operation: a name or an object of `keras_xd.layers.warm_starts`.
        input: what stands before it: for every axis `None`, an order (the axis is taken in that
            order, `x[order]`) or a `keras_xd.kmatrix.KMatrix` that acts on the axis padded with
            zeros to the layer's `geometry[axis].padded_size`. A single entry stands for rank 1.
        output: what stands after it, likewise; an order is one of the outputs.

    Example:

    >>> import keras, numpy as np
    >>> from keras_xd import layers
    >>> order = np.random.default_rng(0).permutation(16)
    >>> start = layers.warm_starts.Composed("convolution", input=order)
    >>> layer = layers.XDConv1D(2, 3, depth=(1, 1, 3), warm_start=start, use_bias=False)
    >>> signal = np.random.default_rng(1).normal(size=(4, 16, 1)).astype("float32")
    >>> outputs = layer(signal)
    >>> convolution = keras.ops.conv(signal[:, order], layer.kernel)
    >>> bool(np.allclose(outputs, convolution, atol=1e-5))
    True

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, appendix A.
    """

    def __init__(
        self,
        start: str | Convolution,
        input: Entry | Sequence[Entry] = None,
        output: Entry | Sequence[Entry] = None,
    ):
        super().__init__(start)
        self.input = _entries(input, "input")
        self.output = _entries(output, "output")

    def check(self, layer: keras.layers.Layer, channels: int) -> None:
        super().check(layer, channels)
        for entries, name in ((self.input, "input"), (self.output, "output")):
            if entries is None:
                continue
            if len(entries) != layer.rank:
                raise ValueError(
                    f"`{name}` must have an entry for each of the {layer.rank} axes. Received: "
                    f"{len(entries)} entries"
                )
            for entry, axis, plan in zip(entries, layer.geometry, layer.plans, strict=True):
                size = axis.size if name == "input" else axis.output_size
                _check_entry(entry, name, size, plan)

    def matrices(self, axis: AxisGeometry, radices: Radices, rng: Rng, index: int = 0) -> Factors:
        result = dict(self.start.matrices(axis, radices, rng, index))
        if self.input is not None:
            size, stride = axis.size, axis.input_stride
            result["M"] = _composed(result["M"], self.input[index], radices, size, stride, False)
        if self.output is not None:
            size, stride = axis.output_size, axis.stride
            result["K"] = _composed(result["K"], self.output[index], radices, size, stride, True)
        return result

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "input": _serialized(self.input),
            "output": _serialized(self.output),
        }


@keras.saving.register_keras_serializable(package="keras_xd")
class Perturbed(_Modified):
    """A start with noise: every block `T` of `K`, `L` and `M` becomes `(1 − p) T + p |T| U`.

    `U` is a random unitary block of the same size and `|T|` the size of `T`, so that `p = 0` is
    the start itself and `p = 1` a random start of the same scale. Draws with the layer's `seed`.

    Args:
        start: the operation: a name or an object of `keras_xd.layers.warm_starts`.
        amount: `p` between 0 and 1.

    Example:

    >>> from keras_xd import layers
    >>> start = layers.warm_starts.Perturbed("convolution", 0.1)
    >>> layer = layers.XDConv2D(8, 3, padding="same", warm_start=start, seed=0)
    """

    def __init__(self, start: str | Convolution, amount: float):
        super().__init__(start)
        self.is_random = True
        if not 0 <= amount <= 1:
            raise ValueError(f"`amount` must be between 0 and 1. Received: amount={amount!r}")
        self.amount = float(amount)

    def matrices(self, axis: AxisGeometry, radices: Radices, rng: Rng, index: int = 0) -> Factors:
        start = self.start.matrices(axis, radices, rng, index)
        return {
            name: [self._perturbed(stages, radices, rng) for stages in factors]
            for name, factors in start.items()
        }

    def rest(self, radices: Radices, rng: Rng) -> Stages:
        """Return a butterfly for a factor that the start leaves free."""
        return self._perturbed(self.start.rest(radices, rng), radices, rng)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "amount": self.amount}

    def _perturbed(self, stages, radices, rng):
        noise = constructions.random_unitary(radices, rng)
        result = []
        for stage, unitary in zip(stages, noise, strict=True):
            # The Frobenius norm of a unitary block of size r is √r.
            norm = np.linalg.norm(stage, axis=(-2, -1), keepdims=True) / np.sqrt(stage.shape[-1])
            result.append((1 - self.amount) * stage + self.amount * norm * unitary)
        return result


def _entries(entries, name):
    """Return a tuple with a matrix, an order or `None` for each axis, or `None`."""
    if entries is None:
        return None
    single = isinstance(entries, (np.ndarray, kmatrix.KMatrix, dict)) or (
        isinstance(entries, (list, tuple)) and all(map(validation.is_integer, entries))
    )
    return tuple(_entry(entry, name) for entry in ([entries] if single else entries))


def _entry(entry, name):
    if entry is None:
        return entry
    if isinstance(entry, kmatrix.KMatrix):
        return _complex_matrix(entry, name)
    if isinstance(entry, dict):
        weights = np.asarray(entry["weights"], "float64")
        return kmatrix.KMatrix(weights, kmatrix.plan(entry["n"], tuple(entry["radices"])))
    order = np.asarray(entry)
    if order.ndim != 1 or not np.array_equal(np.sort(order), np.arange(len(order))):
        raise ValueError(
            f"`{name}` must hold None, permutations of 0 … size - 1 or KMatrix objects. "
            f"Received: {entry!r}"
        )
    return order


def _complex_matrix(matrix, name):
    """Return a K-matrix with both parts of its weights and the transposition carried out."""
    if matrix.weights.shape[1] == 2 and matrix.real:
        raise ValueError(
            "A K-matrix composed with an operation must be a whole product, not the real part of "
            f"one. Received: `{name}` with {matrix!r}"
        )
    if matrix.weights.shape[1] == 2 and not matrix.transposed:
        return matrix
    return kmatrix.KMatrix.from_butterflies(matrix.butterflies)


def _serialized(entries):
    if entries is None:
        return None
    result = []
    for entry in entries:
        if isinstance(entry, kmatrix.KMatrix):
            weights = keras.ops.convert_to_numpy(entry.weights).tolist()
            plan = entry.plan
            entry = {"n": plan.n, "radices": list(plan.radices), "weights": weights}
        result.append(entry.tolist() if isinstance(entry, np.ndarray) else entry)
    return result


def _check_entry(entry, name, size, plan):
    if isinstance(entry, kmatrix.KMatrix) and entry.plan.radices != plan.radices:
        raise ValueError(
            f"A K-matrix composed with an operation must have its radices, {plan.radices} on this "
            f"axis. Received: `{name}` with radices {entry.plan.radices}"
        )
    if isinstance(entry, np.ndarray) and len(entry) != size:
        raise ValueError(
            f"An order of the {name}s must have their number, {size} on this axis. Received: "
            f"`{name}` of length {len(entry)}"
        )


def _composed(factors, entry, radices, size, stride, on_output):
    """Return the butterflies of `P · A`, or for the outputs those of `P · Aᵀ`."""
    if entry is None:
        return factors
    if isinstance(entry, kmatrix.KMatrix):
        weights = keras.ops.convert_to_numpy(entry.weights)
        other = constructions.butterflies_of(weights, radices)
        if not on_output:
            return special.compose(factors, other)
        if len(factors) % 2 and len(other) % 2:  # the directions of the butterflies fit as they are
            return [*factors, *other[::-1]]
        return special.compose(factors, special.transpose(other))
    full = np.arange(np.prod(radices))
    places = stride * np.arange(size)
    full[places] = places[np.argsort(entry) if on_output else entry]
    if len(factors) % 2 == 0:
        factors = [*factors, constructions.identity(radices)]
    return [*factors, *constructions.permutation(full, radices)]
