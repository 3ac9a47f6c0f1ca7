"""Layers and their variables made in less time, for tests, which make thousands of them.

What is made is the same. TensorFlow enters several scopes for each variable, also where there is
no graph. Keras looks for layers and variables in every number that a layer keeps, and reads the
signature of its constructor again for each layer. Both ask at every operation whether tracebacks
shall be shortened.
"""

import functools
import inspect
import types
import weakref

import keras
from keras.src.layers import layer
from keras.src.ops import operation
from keras.src.utils import traceback_utils as tracebacks_of_keras
from tensorflow.python.eager import context, record
from tensorflow.python.framework import ops
from tensorflow.python.ops import gen_resource_variable_ops, handle_data_util
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable, ResourceVariable
from tensorflow.python.trackable import base, data_structures
from tensorflow.python.util import traceback_utils as tracebacks_of_tensorflow

MAKE_VARIABLE = ResourceVariable._init_from_args
# Variables that have any of these are made as TensorFlow does it.
OTHERS = ("collections", "caching_device", "constraint", "distribute_strategy", "shape")
HANDLE_DATA = functools.lru_cache(1024)(handle_data_util.create_handle_data)
SET_ATTRIBUTE = keras.Layer.__setattr__
# What is no part of a layer, nor has any, is of none of these classes.
PARTS = (base.Trackable, data_structures.NoDependency, keras.Variable, keras.Metric)
PARTS += (keras.random.SeedGenerator, dict, list, tuple, set)


def make_layers_quickly(patch):
    """Let Keras and TensorFlow make layers and variables as this module does.

    Args:
        patch: pytest's `MonkeyPatch` that undoes it.
    """
    patch.setattr(ResourceVariable, "_init_from_args", make_variable)
    for module in (operation, layer):
        patch.setattr(module, "inspect", Inspect("inspect"))
    for module in (tracebacks_of_keras, tracebacks_of_tensorflow):
        patch.setattr(module, "is_traceback_filtering_enabled", bool)  # `False`, at no cost
    if keras.backend.backend() == "tensorflow":
        patch.setattr(keras.Layer, "__setattr__", set_attribute)


def make_variable(variable, initial_value=None, name=None, dtype=None, **options):
    """Make a variable, in a few steps if it is a plain one in no graph."""
    plain = callable(initial_value) and all(options.get(other) is None for other in OTHERS)
    restored = isinstance(initial_value, base.CheckpointInitialValueCallable)
    if not plain or restored or not context.executing_eagerly():
        MAKE_VARIABLE(variable, initial_value, name=name, dtype=dtype, **options)
        return
    with record.stop_recording():
        value = ops.convert_to_tensor(initial_value(), dtype)
        name = f"{context.context().scope_name}{name or 'Variable'}"
        handle = _handle(value, name)
        handle._parent_trackable = weakref.ref(variable)
        handle._name, handle._unique_id = f"{name}:0", f"{name}_{ops.uid()}"
        gen_resource_variable_ops.assign_variable_op(handle, value)
    BaseResourceVariable.__init__(
        variable,
        trainable=options.get("trainable"),
        shape=value.shape,
        dtype=value.dtype,
        handle=handle,
        synchronization=options.get("synchronization"),
        aggregation=options.get("aggregation"),
        name=name,
        unique_id=handle._unique_id,
        handle_name=name,
        in_graph_mode=False,
    )


def _handle(value, name):
    """Return the handle of a variable of the shape and data type of a value."""
    handle = gen_resource_variable_ops.var_handle_op(
        shape=value.shape, dtype=value.dtype, shared_name=context.anonymous_name(), name=name
    )
    handle._handle_data = HANDLE_DATA(value.shape, value.dtype)
    return handle


@functools.lru_cache(4096)
def _may_be_part(kind):
    return issubclass(kind, PARTS)


def set_attribute(owner, name, value):
    """Set an attribute of a layer; what has no parts is not tracked."""
    values = value if type(value) is tuple else (value,)
    if not any(map(_may_be_part, map(type, values))) and "_tracker" in owner.__dict__:
        try:
            object.__setattr__(owner, name, value)
            return
        except AttributeError:  # a property, which may have this value already
            pass
    SET_ATTRIBUTE(owner, name, value)


class Inspect(types.ModuleType):
    """The module `inspect`, which reads the signature of a function once."""

    def __getattr__(self, name):
        return getattr(inspect, name)

    @staticmethod
    def signature(function):
        """As `inspect.signature`, which leaves out the first argument of a method."""
        whole = getattr(function, "__func__", function)
        if not isinstance(whole, types.FunctionType):
            return inspect.signature(function)
        return _signature(whole, whole is not function)

    @staticmethod
    def getfullargspec(function):
        """As `inspect.getfullargspec`."""
        if not isinstance(function, types.FunctionType):
            return inspect.getfullargspec(function)
        return _argument_names(function)


_argument_names = functools.lru_cache(1024)(inspect.getfullargspec)


@functools.lru_cache(1024)
def _signature(function, is_method):
    return inspect.signature(types.MethodType(function, object()) if is_method else function)
