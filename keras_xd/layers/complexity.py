"""The multiply–adds of a model."""

import math
import weakref

import keras

from keras_xd.hints import Tensor
from keras_xd.layers.cloning import layer_calls, shapes_of
from keras_xd.layers.searchable import (
    SearchableLayer,
    is_graph,
    named_layers,
    sublayers,
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

_cache = weakref.WeakKeyDictionary()


def complexity(model: keras.layers.Layer) -> float | Tensor:
    """Return the multiply–adds of one sample through `model`.

    Counted are the searchable layers, by their own `complexity`, other layers that have a method
    `multiply_adds(input_shape)`, and Keras' convolutions (plain, transposed, depthwise and
    separable) and `Dense` layers; other layers, such as normalizations and recurrent ones, are not.
    Each call of a shared layer counts, at the shape of that call, and `TimeDistributed` counts its
    layer once a step. Layers inside other layers or subclassed models count once, at the shape they
    were built on, since how often these call them is unknown.

    Args:
        model: a built Keras model (a `SearchModel` too) or a single built layer.

    Returns:
        A number, or a scalar tensor that is differentiable in the architecture variables if one of
        the searchable layers' is.

    Raises:
        ValueError: if a counted layer is called with a shape not known but for the batch size.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> keras_xd.complexity(keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)]))
    12
    """
    total = 0
    for _, layer, shape, times in model_calls(model):
        count = multiply_adds(layer, shape)
        if count is None:
            raise ValueError(
                "Multiply–adds can be counted only at shapes known but for the batch size. Give "
                f"the model's Input a complete shape. Received: layer '{layer.name}' called with "
                f"shape {shape}"
            )
        total = total + times * count
    return total


def model_calls(model):
    """Return `(path, layer, input shape, times)` of every call of a counted layer.

    `times` is the number of equal calls: the steps of a `TimeDistributed`, or 1. A layer inside a
    searchable layer is part of it and has no entry. The result is kept for the next time.
    """
    layers = named_layers(model)
    identity = tuple(id(layer) for _, layer in layers)
    known = _cache.get(model)
    if known is None or known[0] != identity:
        places = {layer_id: place for place, layer_id in enumerate(identity)}
        calls = [(places[id(layer)], *rest) for layer, *rest in _calls(model, None, 1)]
        known = _cache[model] = (identity, calls)
    return [(*layers[place], shape, times) for place, shape, times in known[1]]


def multiply_adds(layer, input_shape):
    """Return the multiply–adds of one sample through one layer; biases are not counted.

    Args:
        layer: a built searchable layer, one with a method `multiply_adds`, or one of Keras'
            convolutions and `Dense`.
        input_shape: shape of its input, batch size included, or a list of those of several inputs.

    Returns:
        A number (of a searchable layer perhaps a tensor), or `None` if a size is unknown or the
        layer is not of these.
    """
    several = bool(input_shape) and isinstance(input_shape[0], (list, tuple))
    shapes = input_shape if several else [input_shape]
    if None in shapes or any(None in shape[1:] for shape in shapes) or not is_counted(layer):
        return None
    if isinstance(layer, SearchableLayer):
        return layer.complexity(input_shape)
    if hasattr(layer, "multiply_adds"):
        return layer.multiply_adds(input_shape)
    if isinstance(layer, keras.layers.Dense):
        return math.prod(input_shape[1:]) * layer.units
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
    return isinstance(layer, COUNTED) or hasattr(layer, "multiply_adds")


def _calls(layer, shape, times):
    """Yield `(layer, input shape, times)` of the counted layers that a call of `layer` calls.

    `shape` is the shape of its input, or a flat list of them for a model; `None` for those it was
    built on.
    """
    if is_graph(layer):
        for inner, argument in layer_calls(layer, shapes=shape):
            shapes = shapes_of(argument)
            if is_graph(inner):
                yield from _calls(inner, shapes, times)
            elif shapes:
                several = isinstance(argument, (list, tuple)) and len(shapes) > 1
                yield from _calls(inner, shapes if several else shapes[0], times)
        return
    if shape is None:
        shape = (layer.get_build_config() or {}).get("input_shape") if layer.built else None
    if is_counted(layer):
        if layer.built:
            yield layer, None if shape is None else tuple(shape), times
    elif isinstance(layer, keras.layers.TimeDistributed) and shape and shape[1]:
        inner_shape = (shape[0], *shape[2:])
        inner = layer.layer
        yield from _calls(
            inner, [inner_shape] if is_graph(inner) else inner_shape, times * shape[1]
        )
    else:
        for inner in sublayers(layer):
            yield from _calls(inner, None, times)
