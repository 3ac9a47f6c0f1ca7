"""The multiply–adds of a model's searchable layers, as a differentiable tensor."""

import keras

from keras_xd.layers.searchable import SearchableLayer, searchable_layers


def complexity(model):
    """Return the multiply–adds of one sample, summed over the searchable layers of `model`.

    In Functional and Sequential models, nested ones too, a layer counts for every place where it
    is used, with the shape it has there. Inside subclassed models and other layers it counts
    once, for the shape it was built on.

    Args:
        model: a built Keras model.

    Returns:
        A number, or a scalar tensor that is differentiable in the architecture variables.

    Raises:
        ValueError: if the input shape of a layer is not known.
    """
    return sum(layer.complexity(shape) for layer, shape in _uses(model))


def _uses(layer):
    """Yield each searchable layer inside `layer` with its input shape, for each use."""
    if isinstance(layer, SearchableLayer):
        yield layer, _built_shape(layer)
    elif isinstance(layer, keras.Sequential):
        for child in layer.layers:
            yield from _uses(child)
    elif isinstance(layer, keras.Model) and hasattr(layer, "operations"):
        yield from _uses_in_graph(layer)
    else:
        for child in searchable_layers(layer):
            yield child, _built_shape(child)


def _uses_in_graph(model):
    """Yield the uses in a Functional model; its configuration lists the calls of each layer."""
    calls = {
        entry["name"]: entry.get("inbound_nodes") for entry in model.get_config().get("layers", [])
    }
    for child in model.layers:
        # A subclass with a constructor of its own has another configuration.
        for call in calls.get(child.name) or [None]:
            if call is None or not isinstance(child, SearchableLayer):
                yield from _uses(child)
            else:
                yield child, _first_shape([call["args"], call["kwargs"]])


def _first_shape(arguments):
    """Return the shape of the first tensor in the serialized arguments of a call, or `None`."""
    if isinstance(arguments, dict):
        if arguments.get("class_name") == "__keras_tensor__":
            return tuple(arguments["config"]["shape"])
        arguments = list(arguments.values())
    if isinstance(arguments, (list, tuple)):
        shapes = (_first_shape(argument) for argument in arguments)
        return next((shape for shape in shapes if shape is not None), None)
    return None


def _built_shape(layer):
    config = layer.get_build_config() or {}
    if config.get("input_shape") is None:
        raise ValueError(
            "A searchable layer must be built on one input shape for its complexity to be "
            f"counted. Received: layer '{layer.name}' with get_build_config()={config!r}"
        )
    return tuple(config["input_shape"])
