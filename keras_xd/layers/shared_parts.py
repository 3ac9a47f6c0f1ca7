"""Layers that several layers hold in common, in their configurations."""

import keras


def serialized(part):
    """Return the configuration of a layer that others may share, or `None`.

    By its key "shared_object_id" `load_model` makes the layer once, wherever it occurs.

    Args:
        part: a Keras layer or `None`.
    """
    if part is None:
        return None
    return {**keras.saving.serialize_keras_object(part), "shared_object_id": id(part)}


def restored(part, kind, name):
    """Return the layer given to a constructor, made again if it is a configuration.

    Args:
        part: a layer, what `serialized` returned of one, or `None`.
        kind: the class that it must have.
        name: the argument's name, for the error message.

    Raises:
        ValueError: if it is something else.
    """
    if isinstance(part, dict):
        part = keras.saving.deserialize_keras_object(part)
    if not isinstance(part, (kind, type(None))):
        raise ValueError(f"`{name}` must be a {kind.__name__} or None. Received: {name}={part!r}")
    return part
