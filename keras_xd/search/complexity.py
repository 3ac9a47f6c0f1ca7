"""The multiply–adds of a model's searchable layers, as a differentiable tensor."""

from keras_xd.layers.searchable import searchable_layers


def complexity(model):
    """Return the multiply–adds of one sample, summed over the searchable layers of `model`.

    Each layer counts once, for the shape it was built on.

    Args:
        model: a built Keras model.

    Returns:
        A number, or a scalar tensor that is differentiable in the architecture variables.

    Raises:
        ValueError: if a layer does not keep the shape it was built on.
    """
    total = 0.0
    for layer in searchable_layers(model):
        shape = (layer.get_build_config() or {}).get("input_shape")
        if shape is None:
            raise ValueError(
                "A searchable layer must be built on one input shape for its complexity to be "
                f"counted. Received: layer '{layer.name}' with "
                f"get_build_config()={layer.get_build_config()!r}"
            )
        total = total + layer.complexity(tuple(shape))
    return total
