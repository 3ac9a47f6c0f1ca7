"""Configurations of layers, read from the arguments of their constructors."""

import functools
import inspect
import types
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Self, Unpack

import keras
from keras import activations, constraints, initializers, regularizers

from keras_xd.core import shared_objects, validation
from keras_xd.core.type_aliases import (
    Activation,
    BaseOptions,
    Config,
    Constraint,
    Initializer,
    Regularizer,
)

# What Keras makes of an argument, by the last word of its name.
KERAS_OBJECTS = {
    "activation": activations,
    "initializer": initializers,
    "regularizer": regularizers,
    "constraint": constraints,
}


class EarlierNames(keras.layers.Layer):
    """Base class of a layer that reads configurations with earlier names of its arguments."""

    earlier_names: Mapping[str, str] = {}

    @classmethod
    def with_new_names(cls, config: Config) -> Config:
        """Return a configuration with the names that the arguments have now."""
        return {cls.earlier_names.get(name, name): value for name, value in config.items()}

    @classmethod
    def from_config(cls, config: Config) -> Self:
        return super().from_config(cls.with_new_names(config))


class ClassSignature:
    """The `__signature__` of a class, found when it is first read; its instances do not have it,
    as theirs is of `__call__`.
    """

    def __init__(self, find: Callable[[type], inspect.Signature]):
        self.find = functools.cache(find)

    def __get__(self, instance: Any, owner: type) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        return self.find(owner)


def joined_signature(kind: Any) -> inspect.Signature:
    """Return a constructor's signature with the arguments that it hands on to those of its bases,
    and to that of the layer of Keras that the class is `like`.
    """
    found: dict[str, inspect.Parameter] = {}
    constructors = [
        vars(base)["__init__"]
        for base in kind.__mro__
        if "__init__" in vars(base)
        and issubclass(base, keras.layers.Layer)
        and base.__module__.partition(".")[0] != "keras"
    ]
    by_position = True
    for constructor in [*constructors, kind.like.__init__] if kind.like else constructors:
        parameters = list(inspect.signature(constructor).parameters.values())[1:]
        kinds = {p.kind for p in parameters}
        if kinds == {inspect.Parameter.VAR_KEYWORD}:
            continue
        for p in parameters:
            if not by_position and p.kind is not p.VAR_KEYWORD:
                if p.default is p.empty:  # which is given by the constructor before
                    continue
                p = p.replace(kind=p.KEYWORD_ONLY)
            found.setdefault("kwargs" if p.kind is p.VAR_KEYWORD else p.name, p)
        by_position = by_position and inspect.Parameter.VAR_POSITIONAL in kinds
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            break
    shown = [
        p
        for name, p in found.items()
        if name not in kind.fixed and not (kind.like and p.kind is p.VAR_POSITIONAL)
    ]
    return inspect.Signature(sorted(shown, key=lambda p: p.kind))


class ConfiguredLayer(EarlierNames):
    """Base class of a layer with an attribute of the name of each argument of its constructor."""

    # Names of arguments of its bases and of Keras that a class does not take.
    fixed: tuple[str, ...] = ()
    # A layer of Keras with the arguments that the class hands on.
    like: Any = None
    __signature__ = ClassSignature(joined_signature)

    def get_config(self) -> Config:
        config = super().get_config()
        for kind in type(self).__mro__:
            if issubclass(kind, ConfiguredLayer) and "__init__" in vars(kind):
                for name in arguments_of(kind):
                    # A subclass of a user's may keep its arguments under other names.
                    if name not in {*self.fixed, *config} and hasattr(self, name):
                        config[name] = serialized(name, getattr(self, name))
        return config


class BiasedLayer(ConfiguredLayer):
    """Base class of a layer with an activation and a bias, as Keras' linear layers have."""

    def __init__(
        self,
        *,
        activation: Activation = None,
        use_bias: bool = True,
        bias_initializer: Initializer = "zeros",
        bias_regularizer: Regularizer = None,
        bias_constraint: Constraint = None,
        activity_regularizer: Regularizer = None,
        **kwargs: Unpack[BaseOptions],
    ):
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.activation = activations.get(activation)
        self.use_bias = validation.boolean(use_bias, "use_bias")
        self.bias_initializer = initializers.get(bias_initializer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.bias_constraint = constraints.get(bias_constraint)

    def activated(self, outputs: Any) -> Any:
        """Return the activation of outputs, whose channels are last, and the bias."""
        return self.activation(outputs if self.bias is None else outputs + self.bias)


def config_with_functions(layer: Any) -> Config:
    """Return `get_config()` with activations as they are: a configuration has no lambda functions.

    It is for a layer that is made at once, not for a file.
    """
    with warnings.catch_warnings():  # that a file could not be loaded
        warnings.filterwarnings("ignore", "The object being serialized includes a `lambda`")
        config = layer.get_config()
    for owner in (layer, getattr(layer, "cell", None)):  # a recurrent layer's are its cell's
        for name in config:
            if name.endswith("activation") and not isinstance(config[name], str):
                function = getattr(owner, name, None)
                if isinstance(function, types.FunctionType):
                    config[name] = function
    return config


def built_like(layer: Any, kind: Any, *args: Any, **arguments: Any) -> Any:
    """Return a built layer of a class with the name, types and input shape of another one."""
    made = kind(
        *args, name=layer.name, dtype=layer.dtype_policy, trainable=layer.trainable, **arguments
    )
    made.build(layer.get_build_config()["input_shape"])
    return made


def arguments_of(kind):
    """Return the names of the arguments that a class has beyond those that it hands on."""
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    return [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def checked_data_format(value):
    """Return a data format, Keras' own for `None`, or raise `ValueError`."""
    value = keras.config.image_data_format() if value is None else value
    return validation.one_of(value, ("channels_last", "channels_first"), "data_format")


def bias_of(layer, shape):
    """Add the bias to a layer in its `build`, if there is to be one; return it or `None`."""
    if not layer.use_bias:
        return None
    return layer.add_weight(
        name="bias",
        shape=shape,
        initializer=layer.bias_initializer,
        regularizer=layer.bias_regularizer,
        constraint=layer.bias_constraint,
    )


def serialized(name, value):
    """Return an argument of a constructor as it stands in a configuration."""
    module = KERAS_OBJECTS.get(name.rpartition("_")[2])
    if module is not None:
        return module.serialize(value)
    return shared_objects.serialized(value) if isinstance(value, keras.layers.Layer) else value
