"""Functions that a backend traces once, however often a graph calls them; shapes alone."""

import contextlib
import functools
import weakref
from collections.abc import Callable
from typing import Any

import keras

from keras_xd.core.scoped import Scoped
from keras_xd.core.type_aliases import Tensor

_CACHED = 128
_SHAPES_ALONE = Scoped(False)
_CALLS_KEPT = Scoped(False)
# Whether XLA compiles a graph of TensorFlow, found out once for each.
_GRAPHS_IN_XLA: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def shapes_alone() -> contextlib.AbstractContextManager[None]:
    """Let searched and finalized operations give zeros of the shapes of their outputs."""
    return _SHAPES_ALONE.set_to(True)


def calls_kept() -> contextlib.AbstractContextManager[None]:
    """Let graphs keep the calls of shared functions, which TensorFlow then optimizes once."""
    return _CALLS_KEPT.set_to(True)


def stand_in(layer: keras.layers.Layer, inputs: Tensor) -> Tensor | None:
    """Return zeros for the outputs of a layer where shapes alone are asked for, else `None`."""
    built = layer.get_build_config() if _SHAPES_ALONE.value else None
    if built is None or tuple(inputs.shape[1:]) != tuple(built["input_shape"][1:]):
        return None
    shape = layer.compute_output_shape(tuple(inputs.shape))
    if None in shape[1:]:
        return None
    return keras.ops.zeros((keras.ops.shape(inputs)[0], *shape[1:]), layer.compute_dtype)


def traced_once(function: Callable[..., Any], *, inlined: bool = False) -> Callable[..., Any]:
    """Return a function that is traced once for all calls with inputs of equal shapes.

    TensorFlow optimizes it once too, unless its calls are `inlined`.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return _traced_by_tensorflow(function, {} if inlined else {"_noinline": True})
    if backend == "jax":
        import jax

        return jax.jit(function)
    return function


def _traced_by_tensorflow(function, attributes):
    import tensorflow as tf

    def as_bits(*arguments):
        result, aside = function(*arguments)
        return result, tf.nest.map_structure(lambda x: tf.bitcast(x, "int32"), aside)

    @functools.lru_cache(maxsize=_CACHED)
    def traced(shapes):
        # Inlined, every call would be optimized again; and so it would with the zeros that
        # TensorFlow passes as gradients of outputs that have none, which integers do not have.
        # Of its own for each shape: TensorFlow warns of code that is traced often, and tells a
        # partial function by itself.
        own = functools.partial(as_bits)
        return tf.function(own, autograph=False, experimental_attributes=attributes)

    def call(*arguments):
        if _in_xla():
            return function(*arguments)
        # Keras' variables count as tensors, but TensorFlow would take them for arrays.
        arguments = tf.nest.map_structure(
            lambda x: x if x is None else tf.convert_to_tensor(x), arguments
        )
        shapes = tuple(
            None if x is None else (x.shape, x.dtype) for x in tf.nest.flatten(arguments)
        )
        result, aside = traced(shapes)(*arguments)
        return result, tf.nest.map_structure(lambda x: tf.bitcast(x, "float32"), aside)

    return call


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of tensors as the backend runs a model's call, without XLA by choice."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False)
    return traced_once(function)


def shared_by_graphs(function: Callable[..., Any], *fixed: Any) -> Callable[..., Any]:
    """Return a function whose first arguments are fixed, the same each time, and traced once.

    That holds for graphs of TensorFlow without XLA, and for calls of JAX outside of what it traces.
    In eager TensorFlow and on torch it is the function itself. Graphs inline its calls, as LiteRT
    needs, outside of `calls_kept`.
    """

    def call(*given):
        if _shares_traces(given):
            return _shared_part(not _CALLS_KEPT.value, function, *fixed)(*given)[0]
        return function(*fixed, *given)

    return call


def _shares_traces(given):
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return not tf.executing_eagerly()
    if backend == "jax":
        import jax

        return not any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(given))
    return False


@functools.lru_cache(maxsize=_CACHED)
def _shared_part(inlined, function, *fixed):
    return traced_once(functools.partial(_with_nothing_aside, function, *fixed), inlined=inlined)


def _with_nothing_aside(function, *arguments):
    return function(*arguments), ()


def calls_traced_functions() -> bool:
    """Return whether a call of what `traced_once` returns is one node of a graph, or eager."""
    return keras.backend.backend() == "tensorflow" and not _in_xla()


def _in_xla():
    """Return whether TensorFlow is tracing what XLA compiles as one, `jit_compile=True`."""
    import tensorflow as tf

    if tf.executing_eagerly():
        return False
    graph = tf.compat.v1.get_default_graph()
    if graph not in _GRAPHS_IN_XLA:
        # TensorFlow has no public name for it, but it marks conditions unless XLA compiles them.
        # The condition is read by nothing, so it is pruned.
        condition = tf.cond(tf.constant(True), lambda: 1.0, lambda: 0.0).op
        if condition.type == "Identity":
            condition = condition.inputs[0].op
        _GRAPHS_IN_XLA[graph] = "_lower_using_switch_merge" not in condition.node_def.attr
    return _GRAPHS_IN_XLA[graph]


@functools.lru_cache(maxsize=_CACHED)
def traced_part(function: Callable[..., Any], *fixed: Any) -> Callable[..., Any]:
    """Return `traced_once` of a function whose first arguments are fixed, the same each time."""
    return traced_once(functools.partial(function, *fixed))
