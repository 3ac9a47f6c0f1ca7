"""The linear maps that layers compute, as matrices and as heatmaps."""

import math

import keras
import numpy as np
from keras import ops
from matplotlib.figure import Figure

from keras_xd.layers.searchable import SearchableLayer
from keras_xd.validation import is_integer

LARGEST_MATRIX = 4096


def operator_matrix(layer: keras.layers.Layer, channel: int = 0, filter: int = 0) -> np.ndarray:
    """Return the linear map from one input channel of a layer to one of its output channels.

    It is measured: a copy of the layer without activation is given every unit impulse, and its
    answer to zeros (the bias) is subtracted. So it holds whatever the layer does with strides,
    padding and groups, for Keras' convolutions, XD-operations and finalized layers alike. For an
    XD-operation it is `C Re(K diag(L w + b) M)`, cut to the positions in use.

    Args:
        layer: a built layer of one input and one output that is linear but for its activation,
            with spatial axes and channels.
        channel: index of the input channel.
        filter: index of the output channel.

    Returns:
        Array of shape `(output positions, input positions)`, both in row-major order.

    Raises:
        ValueError: if the layer is not built, its spatial sizes are unknown or multiply to more
            than 4096, or an index is out of range.

    Example:

    >>> import keras
    >>> from keras_xd import visualization
    >>> convolution = keras.layers.Conv1D(1, 3, padding="same", kernel_initializer="ones")
    >>> convolution.build((None, 4, 1))
    >>> visualization.operator_matrix(convolution).astype(int).tolist()
    [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    """
    shape = _input_shape(layer)
    last = getattr(layer, "data_format", "channels_last") == "channels_last"
    sizes, channels = (shape[1:-1], shape[-1]) if last else (shape[2:], shape[1])
    positions = math.prod(sizes)
    if positions > LARGEST_MATRIX:
        raise ValueError(
            f"The spatial sizes must multiply to at most {LARGEST_MATRIX} positions, because the "
            f"matrix has a row for each. Received: layer '{layer.name}' of sizes {tuple(sizes)}"
        )
    _check_index(channel, channels, "channel")
    linear = _without_activation(layer)
    impulses = np.zeros((positions + 1, positions, channels), dtype="float32")
    impulses[np.arange(positions), np.arange(positions), channel] = 1.0
    impulses = impulses.reshape(positions + 1, *sizes, channels)
    answers = ops.convert_to_numpy(linear(impulses if last else np.moveaxis(impulses, -1, 1)))
    answers = answers.astype("float32")
    answers = answers if last else np.moveaxis(answers, 1, -1)
    _check_index(filter, answers.shape[-1], "filter")
    answers = answers[..., filter].reshape(positions + 1, -1)
    return (answers[:-1] - answers[-1]).T


def plot_operators(
    layer_before: keras.layers.Layer,
    layer_after: SearchableLayer,
    channel: int = 0,
    filter: int = 0,
) -> Figure:
    """Draw what a search made of a convolution: one row before, one after, one column a matrix.

    The columns are the absolute values of `M` and `K` along each spatial axis and the matrix of
    the whole operator between two channels (`operator_matrix`). Both rows of `M` and of `K` share
    one colour scale; operators have their own, because their weights grow while they are trained.
    Nothing is shown or written: use the figure's `savefig`.

    Args:
        layer_before: the built layer the search started from: a Keras convolution or the
            searchable layer that replaced it. For a Keras convolution the upper `M` and `K` are
            the Fourier transforms that `layer_after` started from.
        layer_after: the searched layer, an `XDConv` of the same input shape.
        channel: index of the input channel of the operator.
        filter: index of the output channel of the operator.

    Returns:
        A `matplotlib.figure.Figure` of two rows.

    Raises:
        ValueError: if `layer_after` is not searchable, if the two layers differ in input shape, or
            for the reasons of `operator_matrix`.

    Example:

    >>> import keras
    >>> from keras_xd import layers, visualization
    >>> convolution = keras.layers.Conv2D(4, 3, padding="same")
    >>> convolution.build((None, 6, 6, 2))
    >>> searched = layers.XDConv2D(4, 3, padding="same")
    >>> searched.build((None, 6, 6, 2))
    >>> figure = visualization.plot_operators(convolution, searched)
    >>> len(figure.axes) > 5
    True
    """
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
    start = layer_before if isinstance(layer_before, SearchableLayer) else _at_start(layer_after)
    rows = {
        f"before: {layer_before.name}": _panels(start, layer_before, channel, filter),
        f"after: {layer_after.name}": _panels(layer_after, layer_after, channel, filter),
    }
    columns = [list(panels) for panels in rows.values()]
    if columns[0] != columns[1]:
        raise ValueError(
            "`layer_before` and `layer_after` must have the same matrices. "
            f"Received: {columns[0]} and {columns[1]}"
        )
    return _draw(rows, columns[0])


def _draw(rows, columns):
    """Return a figure with a heatmap for each `rows[row][column]`."""
    figure = Figure(figsize=(2.9 * len(columns), 2.7 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), len(columns), squeeze=False)
    for index, column in enumerate(columns):
        matrices = [panels[column] for panels in rows.values()]
        operator = index == len(columns) - 1
        shared = max(float(matrix.max()) for matrix in matrices)
        for row, matrix in enumerate(matrices):
            largest = float(np.abs(matrix).max()) if operator else shared
            largest = largest or 1.0
            drawn = axes[row, index].imshow(
                matrix,
                cmap="RdBu_r" if operator else "viridis",
                vmin=-largest if operator else 0.0,
                vmax=largest,
                interpolation="nearest",
            )
            axes[row, index].set_xticks([])
            axes[row, index].set_yticks([])
            if operator:
                figure.colorbar(drawn, ax=axes[row, index], shrink=0.8)
        axes[0, index].set_title(column, fontsize=9)
        if not operator:
            figure.colorbar(drawn, ax=list(axes[:, index]), shrink=0.5)
    for row, label in enumerate(rows):
        axes[row, 0].set_ylabel(label, fontsize=9)
    return figure


def _panels(searchable, layer, channel, filter):
    """Return `{title: array}`: matrices of `searchable`, then the operator of `layer`."""
    described = {
        name.removeprefix("matrix/"): np.abs(matrix)
        for name, matrix in searchable.describe().items()
        if name.startswith("matrix/")
    }
    panels = {
        f"|{letter}|, axis {name[1:]}": matrix
        for letter in ("M", "K")
        for name, matrix in described.items()
        if name[0] == letter
    }
    title = f"operator, channel {channel} to {filter}"
    return {**panels, title: operator_matrix(layer, channel, filter)}


def _input_shape(layer):
    """Return the shape that a layer was built on, with known spatial sizes."""
    shape = (layer.get_build_config() or {}).get("input_shape") if layer.built else None
    if shape is None or len(shape) < 3 or any(size is None for size in shape[1:]):
        raise ValueError(
            "The layer must be built, on an input shape of known spatial sizes and channels. "
            f"Received: layer '{layer.name}', built on {shape}"
        )
    return tuple(shape)


def _without_activation(layer):
    """Return a layer of the same weights that is linear, computing in float32."""
    changes = {"activation": None, "activity_regularizer": None, "dtype": "float32"}
    config = layer.get_config()
    return _copy(layer, {**config, **{k: v for k, v in changes.items() if k in config}}, True)


def _at_start(layer):
    """Return a layer of the same arguments whose architecture is the one it started from."""
    return _copy(layer, layer.get_config(), False)


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
