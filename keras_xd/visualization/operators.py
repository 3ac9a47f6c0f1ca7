"""The linear maps that layers compute, as matrices and as heatmaps."""

import math
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import SearchableLayer, check_finite
from keras_xd.core.validation import is_integer
from keras_xd.visualization import operator_figure

LARGEST_MATRIX = 4096
_ENTRIES = 2**22  # of inputs or outputs that are measured at a time


@check_types
def operator_matrix(layer: keras.layers.Layer, channel: int = 0, filter: int = 0) -> np.ndarray:
    """Return the linear map from one input channel of a layer to one of its output channels."""
    shape = _input_shape(layer)
    last = getattr(layer, "data_format", "channels_last") == "channels_last"
    sizes = shape[1:-1] if last else shape[2:]
    positions = math.prod(sizes)
    if positions > LARGEST_MATRIX:
        raise ValueError(
            f"The spatial sizes must multiply to at most {LARGEST_MATRIX} positions, because the "
            f"matrix has a row for each. Received: layer '{layer.name}' of sizes {tuple(sizes)}"
        )
    return impulse_responses(layer, range(positions), channel, filter).reshape(positions, -1).T


@check_types
def impulse_responses(
    layer: keras.layers.Layer, positions: Sequence[int], channel: int = 0, filter: int = 0
) -> np.ndarray:
    """Return what a layer makes of unit impulses: columns of its `operator_matrix`, as images."""
    measured = _Measured(layer, channel, filter)
    empty = np.zeros((0, *measured.output_sizes), "float32")
    return np.concatenate([empty, *measured.responses(positions)])


@check_types
def plot_operators(
    layer_before: keras.layers.Layer,
    layer_after: keras.layers.Layer | None = None,
    channel: int = 0,
    filter: int = 0,
    order: Sequence[ArrayLike] | None = None,
    positions: int = 256,
) -> Figure:
    """Draw what a search made of a convolution: before, after and their difference.

    - The matrix of the whole operator between two channels (`operator_matrix`), and its responses
      to unit impulses at three places: those of a convolution are one picture, moved. All share
      one scale.
    - `M` and `K` along each spatial axis: their phases where all entries of the start have the same
      absolute value, as those of a Fourier transform have, else their absolute values; beside them
      the absolute values of the difference, on one scale for all.
    - The singular values of the operator.

    Of more than `positions` inputs a window in the middle is drawn, which the titles say. It alone
    is computed: memory does not grow with the square of the size.
    Nothing is shown or written: use `keras_xd.visualization.style.save`, or `savefig`.

    Args:
        layer_before: the built layer the search started from: a Keras convolution or the
            searchable layer that replaced it. For a Keras convolution the upper `M` and `K` are
            the Fourier transforms that `layer_after` started from.
        layer_after: the searched layer, an `XDConv` of the same input shape. Of one layer alone,
            `plot_operators(layer)`, the row before is its weights with the architecture that it
            started from.
        channel: index of the input channel of the operator.
        filter: index of the output channel of the operator.
        order: for inputs whose positions were permuted along each axis, `x[:, rows][:, :,
            columns]`, say, the permutations `(rows, columns)`: the operator is drawn in the order
            before. The outputs, where they are of the same size, are put in that order, too.
        positions: most positions of the window that is drawn.

    Example:

    >>> import keras
    >>> from keras_xd import layers, visualization
    >>> convolution = keras.layers.Conv2D(4, 3, padding="same")
    >>> convolution.build((None, 6, 6, 2))
    >>> searched = layers.XDConv2D(4, 3, padding="same")
    >>> searched.build((None, 6, 6, 2))
    >>> figure = visualization.plot_operators(convolution, searched)
    >>> figure.axes[0].get_title()
    'before'
    """
    for layer in (layer_before, layer_after):
        if layer is not None:
            check_finite(layer)
    if layer_after is None:
        layer_before, layer_after = _weights_at_start(layer_before), layer_before
    if not isinstance(layer_after, SearchableLayer):
        raise ValueError(
            "`layer_after` must be a searchable layer, not yet finalized, because its matrices "
            f"are drawn. Received: layer_after={layer_after!r}"
        )
    if _input_shape(layer_before)[1:] != _input_shape(layer_after)[1:]:
        raise ValueError(
            "`layer_before` and `layer_after` must have the same input shape. "
            f"Received: {_input_shape(layer_before)} and {_input_shape(layer_after)}"
        )
    validation.positive_integer(positions, "positions")
    start = layer_before if isinstance(layer_before, SearchableLayer) else _at_start(layer_after)
    matrices = [operator_figure.matrices(layer, positions) for layer in (start, layer_after)]
    if list(matrices[0]) != list(matrices[1]):
        raise ValueError(
            "`layer_before` and `layer_after` must have the same matrices. "
            f"Received: {list(matrices[0])} and {list(matrices[1])}"
        )
    windows = [
        _window(layer, channel, filter, order, positions) for layer in (layer_before, layer_after)
    ]
    channels = f"channel {channel} to {filter}"
    return operator_figure.draw(*windows, *matrices, channels)


def _window(layer, channel, filter, order, most):
    """Return the operator on a window in the middle, in the order before a permutation."""
    measured = _Measured(layer, channel, filter)
    sizes, outputs = measured.sizes, measured.output_sizes
    order = _checked_order(order, sizes)
    places = operator_figure.middle(sizes, most)
    seen = [found[place] for found, place in zip(order, places, strict=True)]
    kept = [
        np.arange(round(p[0] * out / n), max(round((p[-1] + 1) * out / n), 1))
        for p, n, out in zip(places, sizes, outputs, strict=True)
    ]
    # Outputs of another size have no place in the order of the inputs.
    kept_seen = [
        o[k] if out == n else k for o, k, n, out in zip(order, kept, sizes, outputs, strict=True)
    ]
    flat = np.ravel_multi_index(np.meshgrid(*seen, indexing="ij"), sizes).ravel()
    parts = [part[np.ix_(range(len(part)), *kept_seen)] for part in measured.responses(flat)]
    return operator_figure.Window(np.concatenate(parts), places, kept, sizes)


def _checked_order(order, sizes):
    """Return, by axis, where each position is found after the permutation."""
    order = [np.arange(size) for size in sizes] if order is None else [np.asarray(o) for o in order]
    whole = [np.array_equal(np.sort(o), np.arange(n)) for o, n in zip(order, sizes, strict=False)]
    if len(order) != len(sizes) or not all(whole):
        raise ValueError(
            f"`order` must hold a permutation for each axis, of the sizes {tuple(sizes)}. "
            f"Received: order={order!r}"
        )
    return [np.argsort(axis) for axis in order]


class _Measured:
    """The linear map from one channel of a layer to one of its filters, measured by impulses."""

    def __init__(self, layer, channel, filter):
        shape = _input_shape(layer)
        check_finite(layer)
        self.last = getattr(layer, "data_format", "channels_last") == "channels_last"
        self.sizes, self.channels = (shape[1:-1], shape[-1]) if self.last else (shape[2:], shape[1])
        _check_index(channel, self.channels, "channel")
        linear = {"activation": None, "activity_regularizer": None, "dtype": "float32"}
        config = layer.get_config()
        config |= {name: value for name, value in linear.items() if name in config}
        self.linear, self.channel = _copy(layer, config, True), channel
        zero = self._answers(np.zeros((1, math.prod(self.sizes), self.channels), "float32"))
        self.output_sizes, filters = zero.shape[1:-1], zero.shape[-1]
        _check_index(filter, filters, "filter")
        self.filter, self.zero = filter, zero[..., filter]
        self.step = max(1, _ENTRIES // max(zero.size, math.prod(self.sizes) * self.channels))

    def responses(self, positions):
        """Yield arrays `(number, *output_sizes)`, of some of the positions at a time."""
        count = math.prod(self.sizes)
        for position in positions:
            _check_index(position, count, "positions")
        for first in range(0, len(positions), self.step):
            places = np.asarray(positions[first : first + self.step])
            impulses = np.zeros((len(places), count, self.channels), "float32")
            impulses[np.arange(len(places)), places, self.channel] = 1.0
            yield self._answers(impulses)[..., self.filter] - self.zero

    def _answers(self, impulses):
        impulses = impulses.reshape(len(impulses), *self.sizes, self.channels)
        answers = self.linear(impulses if self.last else np.moveaxis(impulses, -1, 1))
        answers = ops.convert_to_numpy(answers).astype("float32")
        return answers if self.last else np.moveaxis(answers, 1, -1)


def _input_shape(layer):
    """Return the shape that a layer was built on, with known spatial sizes."""
    shape = (layer.get_build_config() or {}).get("input_shape") if layer.built else None
    if shape is None or len(shape) < 3 or any(size is None for size in shape[1:]):
        raise ValueError(
            "The layer must be built, on an input shape of known spatial sizes and channels. "
            f"Received: layer '{layer.name}', built on {shape}"
        )
    return tuple(shape)


def _at_start(layer):
    """Return a layer of the same arguments whose architecture is the one it started from."""
    return _copy(layer, layer.get_config(), False)


def _weights_at_start(layer):
    """Return `layer` with its weights and the architecture it started from."""
    if not isinstance(layer, SearchableLayer):
        raise ValueError(
            "A layer drawn by itself must be searchable, so that it has a start. "
            f"Received: {layer!r}"
        )
    start = _at_start(layer)
    architecture = {id(variable) for variable in layer.architecture_variables}
    for now, then in zip(layer.weights, start.weights, strict=True):
        if id(now) not in architecture:
            then.assign(now)
    return start


def _copy(layer, config, with_weights):
    with keras.name_scope("visualization"):
        copy = type(layer).from_config(config)
        copy.build(_input_shape(layer))
    if with_weights:
        copy.set_weights(layer.get_weights())
    return copy


def _check_index(index, count, name):
    if not is_integer(index) or not 0 <= index < count:
        raise ValueError(
            f"`{name}` must be an integer from 0 to {count - 1}. Received: {name}={index!r}"
        )
