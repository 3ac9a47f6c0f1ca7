"""Warm starts of XD-operations: known operations as K-matrices, in NumPy."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import ArrayLike

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.kmatrix import constructions, sparse_matrices
from keras_xd.kmatrix.constructions import Stages
from keras_xd.layers.xd.axis_layout import AxisGeometry

MATRICES = ("K", "L", "M")
# What starts are made of: all axes of a layer, the radices of one, and the first butterflies of
# `K`, `L` and `M` along it.
Axes = Sequence[AxisGeometry]
Radices = Sequence[int]
Rng = np.random.Generator
Factors = dict[str, list[Stages]]


@keras.saving.register_keras_serializable(package="keras_xd")
class Convolution:
    """A convolution: `K`, `L`, `M` are Fourier transforms, `b = 0` and `C = 1`.

    `K` (inverse) and `M` are unitary and `L` is unscaled, so that all entries are of a size that
    one learning rate suits. Also the base class of all other starts.

    Args:
        trainable_dilation: with `True` the distances between the weights are not fixed but made
            by a permutation inside `L`, which is trained: `L` has depth at least 3.

    Example:

    >>> from keras_xd import layers
    >>> start = layers.warm_starts.Convolution(trainable_dilation=True)
    >>> layer = layers.XDConv1D(
    ...     4, 3, dilation_rate=2, depth=(1, 3, 1), warm_start=start
    ... )

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, equations 2 and 6.
    """

    needs_frequency_bias = False
    needs_channel_gates = False
    is_random = False
    is_transposable = True

    def __init__(self, trainable_dilation: bool = False):
        self.trainable_dilation = validation.boolean(trainable_dilation, "trainable_dilation")

    def has(self, name: str, asked: bool | None) -> bool:
        """Return whether a layer has a "frequency_bias" or "channel_gates", as asked or needed."""
        needed = getattr(self, f"needs_{name}")
        if asked is None:
            return needed
        if needed and not validation.boolean(asked, name):
            raise ValueError(
                f"Warm start {type(self).__name__} needs `{name}=True`. Received: {name}={asked!r}"
            )
        return validation.boolean(asked, name)

    def check(self, layer: keras.layers.Layer, channels: int) -> None:
        """Raise `ValueError` if the layer, with that many input channels, cannot start so."""
        if self.trainable_dilation and layer.depth[1] < 3:
            raise ValueError(
                "A trainable dilation is a permutation inside L, which needs depth (1, 3, 1) or "
                f"more. Received: depth={layer.depth}"
            )

    def smallest_size(self, index: int, radix: Any) -> int:
        """Return how many points an axis of a layer must have at least for this operation."""
        return 1

    def placement(self, axis: AxisGeometry) -> np.ndarray:
        """Return the fixed `(n, k)` array that puts weights on the circle before `L`."""
        if not self.trainable_dilation:
            return axis.placement()
        return np.eye(axis.padded_size, axis.kernel_size)

    def placed_weights(self, axis: AxisGeometry) -> np.ndarray | None:
        """Return for each point of the circle the index of the weight there, −1 for none.

        Of a start with a `placement` of its own, which may mix weights, it is `None`.
        """
        if placed_by(self) is not Convolution:
            return None
        if not self.trainable_dilation:
            return axis.placed_weights()
        places = np.arange(axis.padded_size)
        return np.where(places < axis.kernel_size, places, -1)

    def matrices(self, axis: AxisGeometry, radices: Radices, rng: Rng, index: int = 0) -> Factors:
        """Return the first factors of `K`, `L` and `M` along one axis, lists of butterflies.

        Args:
            axis: the `AxisGeometry`.
            radices: the radices of the axis.
            rng: a NumPy generator.
            index: which axis it is.
        """
        inverse = constructions.dft(radices, inverse=True, unitary=True)
        scaled_l = [constructions.dft(radices)]
        if self.trainable_dilation:
            scaled_l += constructions.permutation(axis.placement_order(), radices)
        return {"K": [inverse], "L": scaled_l, "M": [constructions.dft(radices, unitary=True)]}

    def rest(self, radices: Radices, rng: Rng) -> Stages:
        """Return a butterfly for a factor that the start leaves free."""
        return constructions.identity(radices)

    def frequency_bias(self, axes: Axes, radices: Sequence[Radices]) -> np.ndarray:
        """Return `b` as a complex array with one dimension per axis."""
        return np.zeros([axis.padded_size for axis in axes], dtype=complex)

    def channel_gates(self, channels: int, filters: int) -> np.ndarray:
        """Return `C` of shape `(channels, filters)`, both of one group."""
        return np.ones((channels, filters))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {"trainable_dilation": self.trainable_dilation} if self.trainable_dilation else {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Convolution":
        """Make the start again from `get_config()`."""
        return cls(**config)


class _Parameterless(Convolution):
    """A convolution of every channel by a fixed filter: `L = 0`, its spectrum in `b`, `C = I`."""

    needs_frequency_bias = True
    needs_channel_gates = True
    is_transposable = False

    def __init__(self) -> None:
        super().__init__()

    def check(self, layer: keras.layers.Layer, channels: int) -> None:
        if layer.filters != channels:
            raise ValueError(
                f"Warm start '{identifier(self)}' maps every channel to itself, so `filters` must "
                f"be the number of input channels. Received: filters={layer.filters}, "
                f"{channels} input channels"
            )

    def matrices(self, axis: AxisGeometry, radices: Radices, rng: Rng, index: int = 0) -> Factors:
        result = super().matrices(axis, radices, rng, index)
        if index == 0:
            # L is zero by one stage of one axis: were two of them zero, all gradients of L and of
            # the kernel would be zero for ever.
            fourier = constructions.dft(radices)
            result["L"] = [[*fourier[:-1], np.zeros_like(fourier[-1])]]
        return result

    def frequency_bias(self, axes: Axes, radices: Sequence[Radices]) -> np.ndarray:
        result = np.ones(())
        for axis, r in zip(axes, radices, strict=True):
            spectrum = constructions.butterfly_dense(constructions.dft(r)).T @ self.filter(axis)
            result = np.multiply.outer(result, spectrum)
        return result

    def channel_gates(self, channels: int, filters: int) -> np.ndarray:
        return np.eye(channels, filters)


@keras.saving.register_keras_serializable(package="keras_xd")
class AveragePooling(_Parameterless):
    """Average pooling as Keras has it: `L = 0`, and `b` is the spectrum of the mean filter.

    Rows of `K` are scaled, so that windows over the border are averaged over the inputs in them.
    """

    def filter(self, axis: AxisGeometry) -> np.ndarray:
        """Return the filter on the circle of one axis."""
        return axis.window_filter() / axis.window[1]

    def matrices(self, axis: AxisGeometry, radices: Radices, rng: Rng, index: int = 0) -> Factors:
        result = super().matrices(axis, radices, rng, index)
        counts = axis.inputs_in_window()
        scale = np.ones(axis.padded_size)
        scale[: axis.stride * axis.output_size : axis.stride] = axis.window[1] / counts
        if np.any(scale != 1):
            result["K"] = [constructions.rows_scaled(result["K"][0], scale)]
        return result


@keras.saving.register_keras_serializable(package="keras_xd")
class Identity(_Parameterless):
    """The identity, or with strides every `strides`-th input: a skip connection."""

    def filter(self, axis: AxisGeometry) -> np.ndarray:
        """Return the filter on the circle of one axis."""
        return np.eye(axis.padded_size)[0]


@keras.saving.register_keras_serializable(package="keras_xd")
class Zero(Convolution):
    """The zero operation: a convolution whose channel gates are closed, `C = 0`."""

    needs_channel_gates = True

    def channel_gates(self, channels: int, filters: int) -> np.ndarray:
        return np.zeros((channels, filters))


@keras.saving.register_keras_serializable(package="keras_xd")
class FourierOperator(Convolution):
    """A Fourier neural operator with `m` modes per axis: `kernel_size` is `2 m - 1`.

    The weights of an axis are the spectrum of a band-limited kernel: the mean, then the real parts
    of the modes 1 … m-1 and then their imaginary parts. Needs `padding="circular"`.
    """

    is_transposable = False

    def check(self, layer: keras.layers.Layer, channels: int) -> None:
        super().check(layer, channels)
        sizes = [axis.padded_size for axis in layer.geometry]
        fits = all(k % 2 == 1 and k <= n for k, n in zip(layer.kernel_size, sizes, strict=True))
        if layer.padding != "circular" or not fits:
            raise ValueError(
                "A Fourier operator of m modes needs padding='circular' and an odd kernel_size "
                "2 m - 1 not above the input size on every axis. Received: "
                f"padding={layer.padding!r}, kernel_size={layer.kernel_size}, sizes {sizes}"
            )

    def placement(self, axis: AxisGeometry) -> np.ndarray:
        n, modes = axis.padded_size, (axis.kernel_size + 1) // 2
        angle = 2 * np.pi * np.outer(np.arange(n), np.arange(1, modes)) / n
        columns = [np.ones((n, 1)), 2 * np.cos(angle), -2 * np.sin(angle)]
        return np.concatenate(columns, axis=1) / n


@keras.saving.register_keras_serializable(package="keras_xd")
class GraphConvolution(Convolution):
    """A graph convolution over a fixed graph: `y_i = Σ_j w_ij · A x_j`.

    `K` is the identity, `L` maps the one weight to all frequencies and `M` is the matrix `A`. For a
    large graph `M` is a product of six butterflies on a circle of as many points as `A` has edges:
    give the layer `depth=(1, 1, 6)`, and all matrices have `O(E log E)` numbers for `E` edges. For
    a small one `radix`, the number of nodes, makes each matrix one dense block of `2 n²` numbers.
    A diffusion graph convolution is the sum (`keras.layers.Add`) of such layers for the powers of
    `A`.

    Args:
        adjacency: square array `A`, normalised as the graph convolution needs it. For several axes
            a tuple with one for each of them, or `None` for an axis of a usual convolution, such as
            the steps of signals on a graph. `kernel_size` is 1 on the axes of graphs.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> ring = np.roll(np.eye(10), 1, axis=1) / 2 + np.roll(np.eye(10), -1, axis=1) / 2
    >>> start = layers.warm_starts.GraphConvolution(ring)
    >>> layer = layers.XDConv1D(4, 1, depth=(1, 1, 6), warm_start=start)
    >>> layer(np.ones((2, 10, 3), "float32")).shape
    TensorShape([2, 10, 4])
    >>> small = layers.XDConv1D(4, 1, padding="circular", radix=10, warm_start=start)
    >>> steps = layers.warm_starts.GraphConvolution((ring, None))
    >>> both = layers.XDConv2D(
    ...     4, (1, 3), depth=(1, 1, 6), padding="same", warm_start=steps
    ... )
    >>> both(np.ones((2, 10, 24, 3), "float32")).shape
    TensorShape([2, 10, 24, 4])

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, claim A.5.
    """

    is_transposable = False

    @check_types
    def __init__(self, adjacency: ArrayLike | Sequence[ArrayLike | None]):
        super().__init__()
        several = isinstance(adjacency, (tuple, list)) and any(
            one is None or np.ndim(one) == 2 for one in adjacency
        )
        graphs = tuple(map(_square, adjacency)) if several else (_square(adjacency),)
        self.graphs: tuple[np.ndarray | None, ...] = graphs
        self.adjacency = graphs if several else graphs[0]

    def smallest_size(self, index: int, radix: Any) -> int:
        """Return how many points an axis of a layer must have at least: the edges of its graph."""
        graph = self.graphs[index] if index < len(self.graphs) else None
        if graph is None or radix in (len(graph), (len(graph),)):  # one dense block
            return 1
        return sparse_matrices.smallest_size(graph)

    def check(self, layer: keras.layers.Layer, channels: int) -> None:
        fits = layer.rank == len(self.graphs)
        for graph, axis, plan in zip(self.graphs, layer.geometry, layer.plans, strict=False):
            if graph is not None:
                block = plan.radices == (len(graph),)
                room = block or axis.padded_size >= sparse_matrices.smallest_size(graph)
                fits &= axis.size == len(graph) and axis.kernel_size == 1 and room
        if not fits:
            nodes = [None if graph is None else len(graph) for graph in self.graphs]
            raise ValueError(
                f"A graph convolution over {nodes} nodes needs as many axes of these sizes, "
                "kernel_size=1 there, and with padding='circular' the number of nodes as radix. "
                f"Received: sizes {[axis.size for axis in layer.geometry]}, "
                f"kernel_size={layer.kernel_size}, padding={layer.padding!r}, radix={layer.radix}"
            )

    def matrices(self, axis: AxisGeometry, radices: Radices, rng: Rng, index: int = 0) -> Factors:
        graph = self.graphs[index]
        if graph is None:
            return super().matrices(axis, radices, rng, index)
        block = [[graph.T[None, None].astype(complex)]]
        return {
            "K": [constructions.identity(radices)],
            "L": [constructions.dft(radices)],
            "M": block if radices == (len(graph),) else sparse_matrices.sparse(graph, radices),
        }

    def get_config(self) -> dict[str, Any]:
        listed = [None if graph is None else graph.tolist() for graph in self.graphs]
        return {"adjacency": listed if isinstance(self.adjacency, tuple) else listed[0]}


def _square(adjacency):
    """Return the matrix of a graph as an array, or `None`."""
    if adjacency is None:
        return None
    matrix = np.asarray(adjacency, dtype="float64")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            "`adjacency` must be a square matrix, or a tuple of one for each axis. Received: "
            f"adjacency of shape {matrix.shape}"
        )
    return matrix


@keras.saving.register_keras_serializable(package="keras_xd")
class RandomUnitary(Convolution):
    """A start from scratch: every stage Haar-random unitary, `L` and `K` scaled.

    The outputs have the variance of those of a convolution with the same kernel `w`, away from
    its borders. With `K`, `M` unitary and `L` unitary times `√n`, inputs of variance 1 give

        E|(M x)_f|² = h / n,   E|(L w)_f|² = |w|²,   E|(K D M x)_t|² = |w|² h / n

    on a circle of `n` points with inputs at `h` of them (strided inputs count with the zeros
    between), and the real part of such random numbers keeps half of it. So `K` is `√(n / h)` times
    unitary on each axis, and `√2` times that on the first, from which the real part is taken.

    Args:
        scale: `"variance"`, or `"unitary"` as in the paper on K-operations: `K`, `L`, `M` are all
            unitary, and the outputs as much smaller as the scales above are.

    Example:

    >>> from keras_xd import layers
    >>> layer = layers.XDConv2D(8, 3, depth=9, warm_start="random_unitary", seed=1)
    >>> paper = layers.warm_starts.RandomUnitary(scale="unitary")
    >>> layer = layers.KOpConv2D(8, 3, warm_start=paper, seed=1)

    Reference:
        "Searching for Convolutions and a More Ambitious NAS", 2020, appendix C.1.1.
    """

    is_random = True

    def __init__(self, scale: str = "variance") -> None:
        super().__init__()
        self.scale = validation.one_of(scale, ("variance", "unitary"), "scale")

    def matrices(self, axis: AxisGeometry, radices: Radices, rng: Rng, index: int = 0) -> Factors:
        found = {name: constructions.random_unitary(radices, rng) for name in ("L", "K", "M")}
        if self.scale == "variance":
            filled = min(axis.input_stride * axis.size / axis.padded_size, 1.0)
            scale = math.sqrt((2 if index == 0 else 1) / filled)
            found["L"] = constructions.scaled(found["L"], math.sqrt(axis.padded_size))
            found["K"] = constructions.scaled(found["K"], scale)
        return {name: [factors] for name, factors in found.items()}

    def rest(self, radices: Radices, rng: Rng) -> Stages:
        """Return a butterfly for a factor that the start leaves free."""
        return constructions.random_unitary(radices, rng)

    def get_config(self) -> dict[str, Any]:
        return {} if self.scale == "variance" else {"scale": self.scale}


STARTS = {
    "convolution": Convolution,
    "average_pooling": AveragePooling,
    "identity": Identity,
    "zero": Zero,
    "fourier_operator": FourierOperator,
    "random_unitary": RandomUnitary,
}


@check_types
def get(warm_start: str | dict[str, Any] | Convolution) -> Convolution:
    """Return the start that a name, an object or a serialized object stands for."""
    if isinstance(warm_start, dict):
        warm_start = keras.saving.deserialize_keras_object(warm_start)
    if isinstance(warm_start, Convolution):
        return warm_start
    return STARTS[validation.one_of(warm_start, tuple(STARTS), "warm_start")]()


@check_types
def identifier(start: Convolution) -> str | dict[str, Any]:
    """Return the name of a start without arguments, else its serialized form."""
    names = {kind: name for name, kind in STARTS.items()}
    if type(start) in names and not start.get_config():
        return names[type(start)]
    return keras.saving.serialize_keras_object(start)


def placed_by(start):
    """Return the class that tells where the kernel of a start is put, in the start's own line."""
    return next(kind for kind in type(start).__mro__ if "placement" in vars(kind))
