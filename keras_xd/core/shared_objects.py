"""Layers and other objects that several layers hold in common, in their configurations."""

import keras


def serialized(part):
    """Return the configuration of an object that other layers may share, or `None`."""
    if part is None:
        return None
    return {**keras.saving.serialize_keras_object(part), "shared_object_id": id(part)}


def restored(part, kind, name):
    """Return the object given to a constructor, made again if it is a configuration."""
    if isinstance(part, dict):
        part = keras.saving.deserialize_keras_object(part)
    if not isinstance(part, (kind, type(None))):
        raise ValueError(f"`{name}` must be a {kind.__name__} or None. Received: {name}={part!r}")
    return part
