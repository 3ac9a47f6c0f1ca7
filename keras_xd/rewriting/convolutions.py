"""Which convolutions of a model can be rewritten."""

import keras

from keras_xd import layers
from keras_xd.layers import cloning
from keras_xd.layers.complexity import CONVOLUTIONS, DEPTHWISE, SEPARABLE, TRANSPOSED
from keras_xd.layers.searchable import is_graph, named_layers

SEARCH_SPACES = {
    "xd": {
        keras.layers.Conv1D: layers.XDConv1D,
        keras.layers.Conv2D: layers.XDConv2D,
        keras.layers.Conv3D: layers.XDConv3D,
    },
}
ANY_CONVOLUTION = (*CONVOLUTIONS, *TRANSPOSED, *DEPTHWISE, *SEPARABLE)


def check_graph(model):
    """Raise `ValueError` unless `model` is a built Sequential or Functional model."""
    if is_graph(model):
        return
    if isinstance(model, keras.Sequential):
        raise ValueError(
            "`model` must be built: give it an Input, or call it on data. "
            f"Received: Sequential model '{model.name}', which is not"
        )
    if not isinstance(model, keras.Model):
        raise ValueError(f"`model` must be a Keras model. Received: model={model!r}")
    raise ValueError(
        "`model` must be a Sequential or Functional model, because the calls inside a subclassed "
        "model cannot be seen from outside. Make it Functional (`keras.Model(inputs, outputs)`), "
        "take the Functional model in it, or use the layers of `keras_xd.layers` in its class. "
        f"Received: '{model.name}' of class {type(model).__name__}"
    )


def convolutions(model, classes=SEARCH_SPACES["xd"]):
    """Return `(path, layer, input shape, reason)` of every convolution in `model`.

    `reason` tells why it cannot be rewritten, or is `None`; then the shape's spatial sizes are
    known.

    Args:
        model: a Functional or built Sequential model.
        classes: the search space's layer class for each Keras class.
    """
    shapes, paths = {}, named_layers(model)

    def note_calls(graph, graph_shapes):
        for layer, argument in cloning.layer_calls(graph, graph_shapes):
            called = cloning.shapes_of(argument)
            if is_graph(layer):
                note_calls(layer, called)
            elif called:
                shapes.setdefault(id(layer), set()).add((None, *called[0][1:]))

    note_calls(model, None)
    places = dict(paths)
    result = []
    for path, layer in paths:
        if isinstance(layer, ANY_CONVOLUTION):
            holder = places.get(path.rpartition("/")[0])
            reason = _reason(layer, shapes.get(id(layer)), holder, classes)
            shape = None if id(layer) not in shapes else min(shapes[id(layer)], key=str)
            result.append((path, layer, shape, reason))
    return result


def _reason(layer, shapes, holder, classes):
    """Return why a convolution cannot be rewritten, or `None`."""
    kind = type(layer).__name__
    if type(layer) not in classes:
        keras_class = next((c for c in classes if isinstance(layer, c)), None)
        if keras_class is None:
            return f"there is no searchable {kind}"
        return f"{kind} is a subclass of {keras_class.__name__}"
    if not shapes:
        inside = "" if holder is None else f" {type(holder).__name__} '{holder.name}'"
        return f"it is called inside the layer{inside}"
    if getattr(layer, "lora_enabled", False):
        return "LoRA is enabled"
    if getattr(layer, "quantization_mode", None) is not None:
        return f"it is quantized ({layer.quantization_mode})"
    activation = layer.activation
    if isinstance(activation, keras.layers.Layer):
        if activation.weights or not activation.built:  # a layer without weights is born built
            return "its activation is a layer with weights"
    if len(shapes) > 1:
        return f"it is called at several shapes, {', '.join(map(str, sorted(shapes, key=str)))}"
    (shape,) = shapes
    if None in shape[1:]:
        return f"its spatial size is unknown, {shape}"
    return None
