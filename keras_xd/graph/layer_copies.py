"""New layers like others: from their configurations, or from attributes that say the same."""

import inspect

import keras

from keras_xd.core.argument_types import constructor_parameters

_SIMPLE = (bool, int, float, complex, str, bytes, type(None))
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def copy_layer(operation, parts=None):
    """Return a new layer or operation from the configuration of `operation`.

    Args:
        operation: the layer or operation.
        parts: dictionary, filled here, of the copies of what layers hold in common: their
            `shared_parts`, objects by the name of the argument.

    Raises:
        ValueError: if it cannot be made again.
    """
    parts = {} if parts is None else parts
    try:
        config = configuration(operation)
        for name, part in getattr(operation, "shared_parts", {}).items():
            if id(part) not in parts:
                parts[id(part)] = type(part).from_config(part.get_config())
            config = {**config, name: parts[id(part)]}
        if type(operation) is keras.layers.Lambda:
            return _copy_lambda(operation, config)
        return from_config(type(operation), config)
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:  # what Keras raises
        raise ValueError(
            "Every layer of the model must be able to be made again by `from_config(get_config())`."
            f" Received: {type(operation).__name__} '{operation.name}', which fails with: {error}"
        ) from error


def configuration(operation):
    """Return `operation.get_config()`, or where that fails the same from its attributes.

    A class without a `get_config` of its own, or with one that fails, is made again by the
    attributes that have the names of its constructor's arguments. They must be those that the new
    one gets, too, so that an argument which is kept as something else is found.

    Raises:
        Exception: what `get_config` raised, if the attributes do not tell.
    """
    try:
        return operation.get_config()
    except Exception:  # of a method that anybody may have written
        config = _from_attributes(operation)
        if config is None:
            raise
        return config


def serialized(layer):
    """Return `keras.saving.serialize_keras_object(layer)`, by `configuration` where that fails."""
    try:
        return keras.saving.serialize_keras_object(layer)
    except Exception:  # of a method that anybody may have written
        config = _from_attributes(layer)
        if config is None:
            raise
        registered = keras.saving.get_registered_name(type(layer))
        return {
            "module": type(layer).__module__,
            "class_name": type(layer).__name__,
            "config": {
                name: keras.saving.serialize_keras_object(value) for name, value in config.items()
            },
            "registered_name": registered,
        }


def from_config(operation_class, config):
    """Return an operation from its configuration, which may say more than its class takes.

    Args:
        operation_class: class of the layer or operation.
        config: what `get_config` returned.
    """
    try:
        return operation_class.from_config(config)
    except TypeError:  # what Keras raises for an argument that is none
        taken = set()
        for base in operation_class.__mro__:
            taken |= set(constructor_parameters(base))
        known = {name: value for name, value in config.items() if name in taken}
        if len(known) == len(config):
            raise
        return operation_class.from_config(known)


def _from_attributes(operation):
    """Return arguments that make an operation of this class again, or `None`."""
    if not isinstance(operation, keras.layers.Layer):
        return None
    parameters = constructor_parameters(type(operation)).values()
    names = [p.name for p in parameters if p.kind not in _VARIADIC]
    config = {}
    for name in names:
        if not hasattr(operation, name):
            return None
        config[name] = getattr(operation, name)
        leaves = keras.tree.flatten(config[name])
        if any(isinstance(leaf, (keras.layers.Layer, keras.Variable)) for leaf in leaves):
            return None  # it would be that of two layers
    own = {"name": operation.name, "dtype": operation.dtype_policy}
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        config = {**own, **config}
    config.update({name: value for name, value in own.items() if name in names})
    try:
        new = type(operation)(**config)
    except Exception:  # of a constructor that anybody may have written
        return None
    given = [name for name in names if name not in own]
    same = all(_same(getattr(new, name, None), config[name]) for name in given)
    return config if same else None


def _same(new, old):
    """Tell whether two attributes are equal, as far as that can be told of them."""
    new, old = keras.tree.flatten(new), keras.tree.flatten(old)
    return len(new) == len(old) and all(
        type(a) is type(b) and (not isinstance(a, _SIMPLE) or a == b)
        for a, b in zip(new, old, strict=True)
    )


def _copy_lambda(layer, config):
    """Return a copy that calls the same function; made from its code it would lose its globals."""
    if isinstance(config.get("output_shape"), dict):  # a function too, which only the config has
        return type(layer).from_config(config, safe_mode=False)
    return type(layer)(
        layer.function,
        output_shape=config.get("output_shape"),
        mask=layer.mask,
        arguments=layer.arguments,
        name=layer.name,
        dtype=layer.dtype_policy,
    )
