"""Layers and other objects that several layers hold in common, in their configurations."""

import keras


def serialized(part):
    """Return the configuration of an object that other layers may share, or `None`.

    By its key "shared_object_id" `load_model` makes the object once. Keras sets it from the second
    occurrence on; set everywhere it does not matter where in a nested model an occurrence stands.

    Args:
        part: a Keras layer, another object that Keras can serialize, or `None`.
    """
    if part is None:
        return None
    return {**keras.saving.serialize_keras_object(part), "shared_object_id": id(part)}


def restored(part, kind, name):
    """Return the object given to a constructor, made again if it is a configuration.

    Args:
        part: an object, what `serialized` returned of one, or `None`.
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
