"""The multiply–adds of a model."""

import math
import warnings
import weakref

import keras

from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import SearchableLayer, is_graph, named_layers, sublayers
from keras_xd.core.type_aliases import Tensor
from keras_xd.core.validation import UnknownSizeError
from keras_xd.core.warning_location import stacklevel
from keras_xd.graph.cloning import Trace, build_config, is_layer, shapes_of
from keras_xd.graph.sequence_counts import (
    ATTENTION,
    attention_shapes,
    is_sequence_layer,
    sequence_multiply_adds,
)

CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
TRANSPOSED = (
    keras.layers.Conv1DTranspose,
    keras.layers.Conv2DTranspose,
    keras.layers.Conv3DTranspose,
)
DEPTHWISE = (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)
SEPARABLE = (keras.layers.SeparableConv1D, keras.layers.SeparableConv2D)
COUNTED = (
    SearchableLayer,
    *CONVOLUTIONS,
    *TRANSPOSED,
    *DEPTHWISE,
    *SEPARABLE,
    keras.layers.Dense,
)

# Layers whose weights only scale, shift or look up: by convention without multiply–adds.
UNCOUNTED_BY_CONVENTION = (
    keras.layers.BatchNormalization,
    keras.layers.GroupNormalization,
    keras.layers.LayerNormalization,
    keras.layers.Normalization,
    keras.layers.RMSNormalization,
    keras.layers.SpectralNormalization,
    keras.layers.Embedding,
    keras.layers.PReLU,
)
# Layers that multiply although none of their weights lies outside the layers inside them.
MULTIPLYING = (keras.layers.RNN, keras.layers.Bidirectional, keras.layers.Dot)

_cache = weakref.WeakKeyDictionary()


@check_types
def complexity(model: keras.layers.Layer) -> float | Tensor:
    """Return the multiply–adds of one sample through `model`.

    Counted are the searchable layers, by their own `complexity`, other layers that have a method
    `multiply_adds(input_shape)`, as all those of `keras_xd.finalize`, and of Keras' layers the
    convolutions (plain, transposed, depthwise and separable), `Dense`, `EinsumDense`, attention
    (`MultiHeadAttention`, `GroupQueryAttention`, `Attention`, `AdditiveAttention`) and recurrent
    ones (`SimpleRNN`, `GRU`, `LSTM`, `RNN` of their cells, `Bidirectional`).

    By convention normalizations, activations, poolings, embeddings, biases, products of single
    numbers and operations without weights, such as `keras.ops.matmul`, count 0. Every other layer
    with weights of its own is left out too, and named in a warning.

    Each call of a shared layer counts, at the shape of that call, and `TimeDistributed` counts its
    layer once a step. Layers inside other layers or subclassed models count once, at the shape they
    were built on, since how often these call them is unknown.

    Args:
        model: a built Keras model (a `SearchModel` too) or a single built layer.

    Returns:
        A number, or a scalar tensor that is differentiable in the architecture variables if one of
        the searchable layers' is.

    Warns:
        UserWarning: one for all layers that are left out, with their names.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> keras_xd.complexity(
    ...     keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    ... )
    12
    """
    if not model.built:
        raise ValueError(
            "A model or layer must be built before its multiply–adds are counted: call it on data, "
            f"or give its model a `keras.Input`. Received: {model!r}"
        )
    warn_of_uncounted(model)
    return counted_multiply_adds(model)


def counted_multiply_adds(model):
    """Return what `complexity` does, without its warning, for use in every step."""
    total = 0
    for _, layer, shape, times in model_calls(model):
        count = multiply_adds(layer, shape)
        if count is None and _is_known(shape):
            continue  # it holds a layer without a formula
        if count is None:
            raise unknown_size("Multiply–adds", layer, shape)
        total = total + times * count
    return total


def unknown_size(what, layer, shape):
    """Return the error of something that cannot be counted."""
    return UnknownSizeError(
        f"{what} can be counted only at shapes known except for the batch size. Give the model's "
        f"Input a complete shape. Received: layer '{layer.name}' called with shape {shape}"
    )


def warn_of_uncounted(model):
    """Warn once of all layers that `complexity` has no count of."""
    left_out = uncounted_layers(model)
    if left_out:
        names = ", ".join(f"'{path}' ({type(layer).__name__})" for path, layer in left_out.items())
        warnings.warn(
            f"The multiply–adds are without those of {names}, for which no formula is known. A "
            "layer of your own can have a method `multiply_adds(input_shape)`.",
            stacklevel=stacklevel(),
        )


def uncounted_layers(model):
    """Return the layers of `model` that `complexity` has no count of, by their paths."""
    return {
        path or layer.name: layer
        for path, layer, shape, _ in _all_calls(model)
        if not is_counted(layer) or _holds_uncounted(layer, shape)
    }


def model_calls(model):
    """Return `(path, layer, input shape, times)` of every call of a counted layer."""
    return [call for call in _all_calls(model) if is_counted(call[1])]


def multiply_adds(layer, input_shape):
    """Return the multiply–adds of one sample through one layer; biases are not counted."""
    if not _is_known(input_shape):
        return None
    shapes = _flat(input_shape)
    if is_graph(layer):
        counts = [
            (multiply_adds(inner, shape), times) for inner, shape, times in _calls(layer, shapes, 1)
        ]
        known = all(count is not None for count, _ in counts)
        return sum(count * times for count, times in counts) if known else None
    if not is_counted(layer):
        return None
    if isinstance(layer, SearchableLayer):
        return layer.complexity(input_shape)
    if hasattr(layer, "multiply_adds"):
        return layer.multiply_adds(input_shape)
    if isinstance(layer, keras.layers.Dense):
        return math.prod(input_shape[1:]) * layer.units
    if is_sequence_layer(layer):
        return sequence_multiply_adds(layer, shapes)
    last = layer.data_format == "channels_last"
    channels = input_shape[-1 if last else 1]

    def positions(shape):
        return math.prod(shape[1:-1] if last else shape[2:])

    taps = math.prod(layer.kernel_size)
    if isinstance(layer, TRANSPOSED):
        return positions(input_shape) * taps * channels * layer.filters
    outputs = positions(layer.compute_output_shape(input_shape))
    if isinstance(layer, CONVOLUTIONS):
        return outputs * taps * (channels // layer.groups) * layer.filters
    count = outputs * taps * channels * layer.depth_multiplier
    if isinstance(layer, SEPARABLE):
        count += outputs * channels * layer.depth_multiplier * layer.filters
    return count


def is_counted(layer):
    """Return whether `multiply_adds` knows a layer."""
    return isinstance(layer, COUNTED) or hasattr(layer, "multiply_adds") or is_sequence_layer(layer)


def _flat(shape):
    """Return a list of shapes, of one shape or of several."""
    return list(shape) if shape and isinstance(shape[0], (list, tuple)) else [shape]


def _is_known(shape):
    """Return whether all sizes but that of the batch are known."""
    return all(one is not None and None not in one[1:] for one in _flat(shape))


def _holds_uncounted(layer, shape):
    if isinstance(layer, SearchableLayer) or not hasattr(layer, "multiply_adds"):
        return False
    return _is_known(shape) and layer.multiply_adds(shape) is None


def _all_calls(model):
    """Return `(path, layer, input shape, times)` of `_calls` for a whole model."""
    layers = named_layers(model)
    identity = tuple(id(layer) for _, layer in layers)
    known = _cache.get(model)
    if known is None or known[0] != identity:
        places = {layer_id: place for place, layer_id in enumerate(identity)}
        calls = [(places[id(layer)], *rest) for layer, *rest in _calls(model, None, 1)]
        known = _cache[model] = (identity, calls)
    return [(*layers[place], shape, times) for place, shape, times in known[1]]


def _calls(layer, shape, times):
    """Yield `(layer, input shape, times)` of the layers that a call of `layer` calls."""
    if is_graph(layer):
        yield from _calls_of_graph(layer, shape, times)
        return
    if shape is None and layer.built:
        shape = _built_shape(layer)
    counted = is_counted(layer)
    if layer.built and (counted or _should_count(layer)):
        yield layer, None if shape is None else tuple(shape), times
    if counted:
        return
    if isinstance(layer, keras.layers.TimeDistributed) and shape and shape[1]:
        inner_shape = (shape[0], *shape[2:])
        inner = layer.layer
        yield from _calls(
            inner, [inner_shape] if is_graph(inner) else inner_shape, times * shape[1]
        )
    elif not isinstance(layer, MULTIPLYING):
        for inner in sublayers(layer):
            yield from _calls(inner, None, times)


def _calls_of_graph(graph, shape, times):
    """Yield what `_calls` does, of a Functional or Sequential model."""
    for call in Trace(graph, shape).calls:
        inner = call.operation
        if not is_layer(inner):
            continue
        several, shapes = isinstance(call.argument, (list, tuple)), shapes_of(call.argument)
        if isinstance(inner, ATTENTION):
            shapes, several = attention_shapes(call.args, call.kwargs), True
        if is_graph(inner):
            yield from _calls(inner, shapes, times)
        elif shapes:
            several = several and len(shapes) > 1
            yield from _calls(inner, shapes if several else shapes[0], times)


def _built_shape(layer):
    """Return the shape that a layer was built on, or those of query, value and key."""
    config = build_config(layer) or {}
    if isinstance(layer, ATTENTION) and "shapes_dict" in config:
        names = ("query_shape", "value_shape", "key_shape")
        shapes = [config["shapes_dict"].get(name) for name in names]
        return [tuple(shape) for shape in shapes if shape is not None]
    return config.get("input_shape")


def _should_count(layer):
    """Return whether a layer without a formula multiplies."""
    if isinstance(layer, UNCOUNTED_BY_CONVENTION):
        return False
    inside = {id(weight) for inner in sublayers(layer) for weight in inner.weights}
    own = any(id(weight) not in inside for weight in layer.weights)
    return own or isinstance(layer, MULTIPLYING)
