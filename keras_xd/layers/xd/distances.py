"""Distances of an XD-operation from named operations, and the nearest of them."""

import dataclasses
import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import check_finite, named_layers
from keras_xd.core.tables import aligned
from keras_xd.layers.xd import warm_starts
from keras_xd.layers.xd.base import XDLayer
from keras_xd.layers.xd.causal import XDCausalConv1D
from keras_xd.layers.xd.conv import XDConv
from keras_xd.layers.xd.operation_products import SQUARES, Architecture, fitted_norm, fitted_squares
from keras_xd.layers.xd.resampled import SearchableResampled
from keras_xd.layers.xd.separable import SeparableXDLayer
from keras_xd.layers.xd.warm_starts import operations

METRICS = (*SQUARES, "fitted")
OPERATIONS = (XDLayer, SeparableXDLayer, SearchableResampled)
LARGEST_SIZE = 4096
LARGEST_KERNEL = 2048
# What float32 leaves of a difference that is none.
ROUNDING = 1e-6


@dataclasses.dataclass(frozen=True)
class Nearest:
    """What `nearest` returns."""

    operation: str
    distances: dict[str, float]


@dataclasses.dataclass(frozen=True)
class NearestTable:
    """What `nearest` returns of a model; `str()` of it is a table."""

    rows: dict[str, Nearest]
    kinds: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the rows as plain Python values, `{path: {"kind": …, "operation": …, …}}`."""
        return {
            path: {"kind": self.kinds[path], **dataclasses.asdict(row)}
            for path, row in self.rows.items()
        }

    def __str__(self) -> str:
        table = [("layer", "kind", "nearest", "distance", "others")]
        for path, row in self.rows.items():
            (_, least), *others = row.distances.items()
            others = ", ".join(f"{name} {value:.2g}" for name, value in others)
            table.append((path, self.kinds[path], row.operation, f"{least:.2g}", others))
        return "\n".join(aligned(table))


@check_types
def operation_distance(
    layer: keras.layers.Layer,
    operation: str | warm_starts.Convolution,
    metric: str = "euclidean",
) -> float:
    """Return how far an XD-operation is from a named one.

    The named operation is the one a layer of the same arguments would start from, so it has the
    layer's kernel size, strides, padding, channels and depth. Where only one of the two has a bias
    `b` or gates `C`, the other counts as having `b = 0` and `C = 1`. The metrics, from what is
    trained to what is computed, are square roots of sums of squares, divided by the named
    operation's norm in the same metric or, where that is 0 (`"zero"` as a linear map), by the
    layer's:

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
    - `"fitted"`: of the difference of the linear map and the best fit that the named operation has
      with any weights of its own, whatever the scale. With the map `A(w) = A_0 + Σ_j w_j A_j` of a
      pair of channels, `A_0` from `b` and `A_j` from place `j` of the kernel, and `B` that of the
      named operation, it is the square root of

          min over s, T of  E ‖ A(w) − s B_0 − Σ_j (T w)_j B_j ‖²  /  E ‖ A(w) ‖²

      over all pairs of channels: `T` maps kernels to kernels and may differ between the pairs, `s`
      is one number. Kernels `w` have independent entries of the mean square that the layer's own
      have. It lies between 0 and 1 and does not change when `K`, `L`, `M` or the kernel are
      multiplied by numbers. `"zero"` fits nothing: it is at 1, unless the layer's map is less than
      a millionth of a convolution's, which counts as 0.
    - `"own_kernel"`: the same as `"averaged"` with the layer's own kernel in both operations.
      So a convolution whose kernel is a unit impulse is at distance 0 from the identity.

    An `XDSeparableConv` with a searched pointwise operation has two parts, of which the named
    layer has the second as a convolution: the distance is the root of the mean of the parts'
    squares. Of a `SearchableResampled` the layer inside is compared.

    Args:
        layer: a built `XDConv`, another XD-operation or a `KOpConv` of any rank, an
            `XDSeparableConv` or a `SearchableResampled` of these.
        operation: a name such as `"convolution"`, `"average_pooling"`, `"identity"`, `"zero"` or
            `"fourier_operator"`, or an object of `keras_xd.layers.warm_starts`. The name of the
            layer's own start means that start.
        metric: `"euclidean"`, `"frobenius"`, `"averaged"`, `"fitted"` or `"own_kernel"`. All but
            the first need sizes of at most 4096 along each axis, `"fitted"` also kernels of at most
            2048 places.

    Example:

    >>> import keras_xd
    >>> layer = keras_xd.layers.XDConv2D(4, 3, padding="same")
    >>> layer.build((None, 8, 8, 4))
    >>> keras_xd.operation_distance(layer, "convolution")
    0.0
    >>> keras_xd.operation_distance(layer, "zero", "averaged")
    1.0

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, section 4.
    """
    parts = _checked_parts(layer, metric)
    check_finite(layer)
    names = [operation] + ["convolution"] * (len(parts) - 1)
    pairs = zip(map(Architecture, parts), names, strict=True)
    return _joined([_of_part(part, name, metric) for part, name in pairs])


@check_types
def nearest_operation(model: keras.layers.Layer, metric: str = "fitted") -> Nearest | NearestTable:
    """Return which named operation an XD-operation has come closest to, or each one of a model.

    Args:
        model: a layer as in `distance`, or a built model (a `SearchModel` too).
        metric: as in `distance`; the default compares what is computed, whatever its scale.

    Returns:
        Of a layer a `Nearest`: the name of the operation, and the distances of all that the layer's
        geometry can express; of equally near ones the layer's own start comes first, and "zero"
        last. A start that has no name, such as a graph convolution, stands there as `"start"`, and
        a random one only for the layer that started from it. A perturbed start does not stand
        there, but what it was before.
        Of a model a `NearestTable`, with a row for each XD-operation in it; the two parts of a
        separable one have a row each.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> layer = keras_xd.layers.XDConv2D(
    ...     4, 3, padding="same", warm_start="average_pooling"
    ... )
    >>> model = keras.Sequential([keras.Input((8, 8, 4)), layer])
    >>> found = keras_xd.nearest_operation(layer)
    >>> found.operation, list(found.distances)
    ('average_pooling', ['average_pooling', 'identity', 'convolution', 'zero'])
    >>> layer.name = "pool"
    >>> print(keras_xd.nearest_operation(model))
    layer  kind      nearest          distance  others
    -----  --------  ---------------  --------  ------------------------------------
    pool   XDConv2D  average_pooling  0         identity 0.93, convolution 1, zero 1
    """
    check_finite(model)
    if isinstance(model, OPERATIONS):
        return _nearest(_checked_parts(model, metric), metric)
    found = {
        path or layer.name: layer
        for path, layer in named_layers(model)
        if isinstance(layer, XDLayer)
    }
    if not found:
        raise ValueError(
            "`model` must be a built XD-operation or K-operation, or a model with at least one. "
            f"Received: model={model!r}"
        )
    rows = {path: _nearest(_checked_parts(layer, metric), metric) for path, layer in found.items()}
    return NearestTable(rows, {path: type(layer).__name__ for path, layer in found.items()})


def _nearest(layers, metric):
    """Return the `Nearest` of an operation of these parts, of which the first one has names."""
    layer = layers[0]
    start = layer.warm_start
    while isinstance(start, warm_starts.Perturbed):  # the question is what it was before
        start = start.start
    own = _own_start(layer) if start is layer.warm_start else operations.identifier(start)
    candidates = {own: own} if isinstance(own, str) else {"start": start}
    for name, kind in operations.STARTS.items():
        if not kind.is_random:
            candidates.setdefault(name, name)
    first, *others = [Architecture(part) for part in layers]
    of_others = [_of_part(part, "convolution", metric) for part in others]
    distances = {}
    for name, operation in candidates.items():
        try:
            distances[name] = _joined([_of_part(first, operation, metric), *of_others])
        except ValueError:  # not expressible with these arguments
            continue

    def order(item):
        name, value = item
        return value, name == "zero" and value > 0  # which fits nothing

    distances = dict(sorted(distances.items(), key=order))
    return Nearest(next(iter(distances)), distances)


def _checked_parts(layer, metric):
    """Return the XD-operations that a layer applies one after the other."""
    validation.one_of(metric, METRICS, "metric")
    if not isinstance(layer, OPERATIONS) or not layer.built:
        raise ValueError(
            f"`layer` must be a built XD-operation or K-operation. Received: layer={layer!r}"
        )
    if isinstance(layer, SearchableResampled):
        return _checked_parts(layer.layer, metric)
    if isinstance(layer, SeparableXDLayer):
        parts = [layer.depthwise, layer.pointwise] if layer.search_pointwise else [layer.depthwise]
        return [part for one in parts for part in _checked_parts(one, metric)]
    sizes = [plan.n for plan in layer.plans]
    if metric != "euclidean" and max(sizes) > LARGEST_SIZE:
        raise ValueError(
            f"The metric {metric!r} multiplies matrices out, so every axis may have at most "
            f"{LARGEST_SIZE} points; take 'euclidean'. Received: layer '{layer.name}', sizes "
            f"{sizes}"
        )
    if metric == "fitted" and math.prod(layer.kernel_size) > LARGEST_KERNEL:
        raise ValueError(
            f"The metric 'fitted' is for kernels of at most {LARGEST_KERNEL} places; take "
            f"'averaged'. Received: layer '{layer.name}', kernel_size={layer.kernel_size}"
        )
    return [layer]


def _joined(values):
    """Return the distance of a layer whose parts have these distances."""
    return math.sqrt(sum(value**2 for value in values) / len(values)) if values[1:] else values[0]


def _of_part(part, operation, metric):
    """Return the distance of one XD-operation."""
    named = Architecture(_named(part.layer, operation))
    if metric == "fitted":
        return _fitted_distance(part, named)
    squares = SQUARES[metric](part, named)
    own, norm, difference = (float(np.sqrt(max(square, 0.0))) for square in squares)
    return difference / (norm or own or 1.0)


def _fitted_distance(part, named):
    total, explained = fitted_squares(part, named)
    if not named.gates.any():  # which fits nothing
        convolution = fitted_norm(
            Architecture(_named(part.layer, "convolution")), part.kernel_variance
        )
        return 0.0 if total <= ROUNDING**2 * convolution else 1.0
    found = math.sqrt(1.0 - explained / total) if total else 1.0
    return 0.0 if found <= ROUNDING else found


def _own_start(layer):
    """Return the layer's argument `warm_start`, a name or a serialized start."""
    return layer.get_config().get("warm_start", operations.identifier(layer.warm_start))


def _named(layer, operation):
    """Return a layer of the same arguments and kernel that is at its start `operation`."""
    kind, config, start = type(layer), layer.get_config(), operation
    if isinstance(operation, str) and type(layer.warm_start) is operations.STARTS.get(operation):
        start = _own_start(layer)
    if "operation" in config:  # a K-operation has neither b nor C, which some starts need
        causal = isinstance(layer, XDCausalConv1D)
        kind = XDCausalConv1D if causal else XDConv
        del config["operation"]
        names = ("depth",) if causal else ("rank", "depth", "radix")
        config |= {name: getattr(layer, name) for name in names}
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
