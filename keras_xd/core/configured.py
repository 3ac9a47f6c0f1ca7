"""Configurations of layers, read from the arguments of their constructors."""

import inspect
from collections.abc import Mapping
from typing import Self

import keras
from keras import activations, constraints, initializers, regularizers

from keras_xd.core import shared_objects, validation
from keras_xd.core.type_aliases import Config

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
    def from_config(cls, config: Config) -> Self:
        names = cls.earlier_names
        return super().from_config({names.get(name, name): config[name] for name in config})


class ConfiguredLayer(EarlierNames):
    """Base class of a layer with an attribute of the name of each argument of its constructor."""

    fixed: tuple[str, ...] = ()

    def get_config(self) -> Config:
        config = super().get_config()
        for kind in type(self).__mro__:
            if issubclass(kind, ConfiguredLayer) and "__init__" in vars(kind):
                for name in arguments_of(kind):
                    # A subclass of a user's may keep its arguments under other names.
                    if name not in {*self.fixed, *config} and hasattr(self, name):
                        config[name] = serialized(name, getattr(self, name))
        return config


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
