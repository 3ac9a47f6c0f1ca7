"""How far an XD-operation is from the named operations, and which of them is nearest."""

import dataclasses
import functools

import numpy as np
from keras import ops

from keras_xd import validation
from keras_xd.argument_types import check_types
from keras_xd.layers import warm_starts
from keras_xd.layers.k_conv import KOpConv
from keras_xd.layers.warm_starts import MATRICES
from keras_xd.layers.xd_conv import XDConv
from keras_xd.layers.xd_layer import XDLayer

METRICS = ("euclidean", "frobenius", "averaged", "own_kernel")
LARGEST_SIZE = 4096


@dataclasses.dataclass(frozen=True)
class Nearest:
    """What `nearest` returns.

    Attributes:
        operation: name of the nearest operation.
        distances: the distance of every operation that the layer's geometry can express, by its
            name, the smallest first.
    """

    operation: str
    distances: dict[str, float]


@check_types
def distance(
    layer: XDLayer,
    operation: str | warm_starts.Convolution,
    metric: str = "euclidean",
    relative: bool = True,
) -> float:
    """Return how far an XD-operation is from a named one.

    The named operation is the one a layer of the same arguments would start from, so it has the
    layer's kernel size, strides, padding, channels and depth. Where only one of the two has a bias
    `b` or gates `C`, the other counts as having `b = 0` and `C = 1`. The metrics, from what is
    trained to what is computed, are square roots of sums of squares:

    - `"euclidean"`: of the differences of all architecture weights, that is of the entries of the
      butterflies' stages in `K`, `L` and `M` of every axis, of `b` and of `C`: "the relative
      Euclidean distance of the architecture parameters" by which the paper tells how novel an
      operation is. The same matrix written by other stages is at a distance; and convolutions and
      Fourier operators, which differ only in where the kernel is put before `L`, are at none.
    - `"frobenius"`: of the differences of the entries of the matrices multiplied out, of `b` and of
      `C`. `K`, `L` and `M` are Kronecker products over the axes, with the columns of `M` that meet
      inputs, those of `L` that meet the kernel, and the rows of `K` that are kept. It does not
      depend on how stages make up a matrix. The same operation in another basis (frequencies in
      another order, a factor moved from `K` to `M`) is at a distance.
    - `"averaged"`: of the differences of the linear maps from inputs to outputs, with all channels,
      averaged over kernels `w` with independent normal entries of variance 1 / (number of places in
      the kernel), the same kernel for both operations. It depends on nothing but what the two
      operations compute. The average is exact, not sampled.
    - `"own_kernel"`: the same with the layer's own kernel in both operations. So a convolution
      whose kernel is a unit impulse is at distance 0 from the identity.

    Args:
        layer: a built `XDConv` or `KOpConv` of any rank.
        operation: a name such as `"convolution"`, `"average_pooling"`, `"identity"`, `"zero"` or
            `"fourier_operator"`, or an object of `keras_xd.layers.warm_starts`. The name of the
            layer's own start means that start.
        metric: `"euclidean"`, `"frobenius"`, `"averaged"` or `"own_kernel"`. All but the first
            need sizes of at most 4096 along each axis.
        relative: whether to divide by the named operation's norm in the same metric or, where that
            is 0 (`"zero"` as a linear map), by the layer's.

    Returns:
        The distance, a `float`.

    Raises:
        ValueError: if the layer is no built XD-operation, if it cannot express the operation, for
            an unknown name or metric, and for axes too long for the metric.

    Example:

    >>> import keras_xd
    >>> layer = keras_xd.layers.XDConv2D(4, 3, padding="same")
    >>> layer.build((None, 8, 8, 4))
    >>> keras_xd.distance(layer, "convolution"), keras_xd.distance(layer, "zero", "averaged")
    (0.0, 1.0)

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, section 4.
    """
    _check(layer, metric)
    return _distance(_Operation(layer), operation, metric, relative)


@check_types
def nearest(layer: XDLayer, metric: str = "averaged", relative: bool = True) -> Nearest:
    """Return which named operation an XD-operation has come closest to.

    Args:
        layer: a built `XDConv` or `KOpConv` of any rank.
        metric: as in `distance`; the default compares what is computed and nothing else.
        relative: as in `distance`.

    Returns:
        A `Nearest`: the name of the operation, and the distances of all that the layer's geometry
        can express; of equally near ones the layer's own start comes first. A start that has no
        name, such as a graph convolution, stands there as `"start"`, and a random one only for the
        layer that started from it. A perturbed start does not stand there, but what it was before.

    Raises:
        ValueError: as `distance`.

    Example:

    >>> import keras_xd
    >>> layer = keras_xd.layers.XDConv2D(4, 3, padding="same", warm_start="average_pooling")
    >>> layer.build((None, 8, 8, 4))
    >>> found = keras_xd.nearest(layer)
    >>> found.operation, list(found.distances)
    ('average_pooling', ['average_pooling', 'identity', 'zero', 'convolution'])
    """
    _check(layer, metric)
    start = layer.warm_start
    while isinstance(start, warm_starts.Perturbed):  # the question is what it was before
        start = start.start
    own = _own_start(layer) if start is layer.warm_start else warm_starts.identifier(start)
    candidates = {own: own} if isinstance(own, str) else {"start": start}
    for name, kind in warm_starts.STARTS.items():
        if not kind.is_random:
            candidates.setdefault(name, name)
    parts, distances = _Operation(layer), {}
    for name, operation in candidates.items():
        try:
            distances[name] = _distance(parts, operation, metric, relative)
        except ValueError:  # not expressible with these arguments
            continue
    distances = dict(sorted(distances.items(), key=lambda item: item[1]))
    return Nearest(next(iter(distances)), distances)


class _Operation:
    """The architecture of a layer as arrays in double precision.

    Args:
        layer: a built XD-operation.

    Attributes:
        weights: all of `K`, `L` and `M`, packed, one after the other.
        bias: `b`, shape `(n_1, …, n_N)`, complex.
        gates: `C`, shape `(channels of a group, filters)`.
    """

    def __init__(self, layer):
        self.layer = layer
        values = [ops.convert_to_numpy(v).astype("float64") for v in layer.architecture_variables]
        count = len(MATRICES) * len(layer.plans)
        self.weights, rest = np.concatenate([v.ravel() for v in values[:count]]), values[count:]
        self.bias = np.zeros(self.sizes, dtype=complex)
        if layer.frequency_bias:
            b = rest.pop(0)
            self.bias = b[..., 0] + 1j * b[..., 1]
        channels = layer.get_build_config()["input_shape"][
            -1 if layer.data_format == "channels_last" else 1
        ]
        pairs = (channels // layer.groups, layer.filters)
        self.gates = rest.pop(0) if layer.channel_gates else np.ones(pairs)

    @property
    def sizes(self):
        """The padded size of each axis."""
        return [plan.n for plan in self.layer.plans]

    @functools.cached_property
    def matrices(self):
        """By axis: `M`'s columns at inputs, `L`'s at weights, the transposed rows of `K` kept."""
        described, m, placed, k = self.layer.describe(), [], [], []
        for axis, g in enumerate(self.layer.geometry):
            of = {name: described[f"matrix/{name}{axis}"].astype(complex) for name in MATRICES}
            m.append(of["M"][:, : g.input_stride * g.size : g.input_stride])
            placed.append(of["L"] @ self.layer.warm_start.placement(g))
            k.append(of["K"][: g.stride * g.output_size : g.stride].T)
        return m, placed, k

    @functools.cached_property
    def spectrum(self):
        """`C ∘ (L w + b)` of the layer's kernel, shape `(n_1, …, n_N, channels, filters)`."""
        pieces = [ops.convert_to_numpy(piece) for piece in self.layer.finalize().spectrum]
        real, imaginary = np.moveaxis(np.concatenate(pieces).astype("float64"), 1, 0)
        values = real + 1j * imaginary
        return values.reshape(*self.sizes, *values.shape[1:])


def _check(layer, metric):
    validation.one_of(metric, METRICS, "metric")
    if not isinstance(layer, XDLayer) or not layer.built:
        raise ValueError(
            f"`layer` must be a built XD-operation or K-operation. Received: layer={layer!r}"
        )
    sizes = [plan.n for plan in layer.plans]
    if metric != "euclidean" and max(sizes) > LARGEST_SIZE:
        raise ValueError(
            f"The metric {metric!r} multiplies matrices out, so every axis may have at most "
            f"{LARGEST_SIZE} points; take 'euclidean'. Received: layer '{layer.name}', sizes "
            f"{sizes}"
        )


def _distance(parts, operation, metric, relative):
    """Return the distance of a layer, read into `parts`, from an operation."""
    named = _Operation(_named(parts.layer, operation))
    squares = _SQUARES[metric](parts, named)
    own, norm, difference = (float(np.sqrt(max(square, 0.0))) for square in squares)
    scale = (norm or own or 1.0) if relative else 1.0
    return difference / scale


def _own_start(layer):
    """Return the layer's argument `warm_start`, a name or a serialized start."""
    return layer.get_config().get("warm_start", warm_starts.identifier(layer.warm_start))


def _named(layer, operation):
    """Return a layer of the same arguments and kernel that is at its start `operation`."""
    kind, config, start = type(layer), layer.get_config(), operation
    if isinstance(operation, str) and type(layer.warm_start) is warm_starts.STARTS.get(operation):
        start = _own_start(layer)
    if isinstance(layer, KOpConv):  # has neither b nor C, which some starts need
        kind = XDConv
        del config["operation"]
        config |= {name: getattr(layer, name) for name in ("rank", "depth", "radix")}
    # Zeros and a seed, because drawing would change the random numbers that a training gets.
    config |= {name: "zeros" for name in config if name.endswith("initializer")}
    config |= {"warm_start": start, "seed": layer.seed or 0}
    config |= {"frequency_bias": None, "channel_gates": None}
    named = kind(**config)  # `from_config` would turn a ValueError into a TypeError
    if named.warm_start.is_random and layer.seed is None:
        raise ValueError(
            "A random operation is known only for a layer with a seed. "
            f"Received: layer '{layer.name}', operation={operation!r}"
        )
    named.build(layer.get_build_config()["input_shape"])
    named.kernel.assign(ops.copy(layer.kernel))
    return named


def _euclidean(a, b):
    """Return the squared norms of two operations and of their difference."""
    vectors = [
        np.concatenate([x.weights, x.bias.real.ravel(), x.bias.imag.ravel(), x.gates.ravel()])
        for x in (a, b)
    ]
    return tuple(np.sum(v**2) for v in (*vectors, vectors[0] - vectors[1]))


def _frobenius(a, b):
    result = np.zeros(3)
    for xs, ys in zip(a.matrices, b.matrices, strict=True):
        result += _kronecker_squares(xs, ys)
    for x, y in ((a.bias, b.bias), (a.gates, b.gates)):
        result += [np.sum(np.abs(v) ** 2) for v in (x, y, x - y)]
    return tuple(result)


def _kronecker_squares(xs, ys):
    """Return `‖X‖²`, `‖Y‖²` and `‖X − Y‖²` of the Kronecker products of two lists of matrices.

    By `X ⊗ x − Y ⊗ y = (X − Y) ⊗ x + Y ⊗ (x − y)` nothing large is formed and nothing cancels.
    """
    square_x = square_y = 1.0
    square, product = 0.0, 0.0  # ‖X − Y‖² and <X − Y, Y>
    for x, y in zip(xs, ys, strict=True):
        new_x, new_y, new = (np.sum(np.abs(v) ** 2) for v in (x, y, x - y))
        mixed = 2 * np.real(product * np.vdot(x - y, x))
        square = square * new_x + square_y * new + mixed
        product = product * np.vdot(y, x) + square_y * np.vdot(y, x - y)
        square_x, square_y = square_x * new_x, square_y * new_y
    return square_x, square_y, square


def _averaged(a, b):
    squares = _map_products(a, b, _averaged_products)
    aa, bb, ab = (
        square * np.sum(x.gates * y.gates)
        for square, (x, y) in zip(squares, ((a, a), (b, b), (a, b)), strict=True)
    )
    return aa, bb, aa + bb - 2 * ab


def _own_kernel(a, b):
    aa, bb, ab = _map_products(a, b, _spectrum_products)
    return aa, bb, aa + bb - 2 * ab


def _map_products(a, b, products):
    """Return the inner products `<A, A>`, `<B, B>` and `<A, B>` of real linear maps.

    A map is `Re(Z)` with `Z = K diag(D) M`, and with sums over all entries
    `Σ Re(Z) Re(Z') = Re(Σ Z conj(Z') + Σ Z Z') / 2`, where
    `Σ Z Z' = Σ_fg D_f D'_g (Kᵀ K')_fg (M M'ᵀ)_fg` is a Kronecker product over the axes.
    """
    result = []
    for x, y in ((a, a), (b, b), (a, b)):
        total = 0.0
        for same in (np.conj, np.positive):
            axes = zip(*x.matrices, *y.matrices, strict=True)
            grams, weights = [], []
            for m, placed, k, other_m, other_placed, other_k in axes:
                grams.append((k @ same(other_k).T) * (m @ same(other_m).T))
                weights.append((placed, same(other_placed)))
            total += np.real(products(x, y, grams, weights, same)) / 2
        result.append(total)
    return result


def _averaged_products(x, y, grams, weights, same):
    """Take the average over kernels: `E[D_f D'_g] = (L L'ᵀ)_fg / places + b_f b'_g`."""
    average = 1.0
    for gram, (placed, other) in zip(grams, weights, strict=True):
        average = average * np.sum(gram * (placed @ other.T)) / placed.shape[1]
    return average + np.sum(x.bias * _along_axes(grams, same(y.bias)))


def _spectrum_products(x, y, grams, weights, same):
    """Take the spectra of the kernel, summed over all pairs of channels."""
    return np.sum(x.spectrum * _along_axes(grams, same(y.spectrum)))


def _along_axes(matrices, array):
    """Multiply the leading axes of an array by a matrix each."""
    for axis, matrix in enumerate(matrices):
        array = np.moveaxis(np.tensordot(matrix, array, (1, axis)), 0, axis)
    return array


_SQUARES = {
    "euclidean": _euclidean,
    "frobenius": _frobenius,
    "averaged": _averaged,
    "own_kernel": _own_kernel,
}
