"""The protocol of searchable layers, and checks of it."""

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_xd.core.validation import UnknownSizeError, is_integer, matrix_numbers

NAMES = (
    *("architecture_variables", "complexity", "finalize", "describe"),
    *("architecture_signature", "random_architecture"),
)


def require_built(layer_class):
    """Make the methods and properties of `NAMES` that a class itself has refuse unbuilt layers."""
    for name in NAMES:
        own = vars(layer_class).get(name)
        if isinstance(own, property) and own.fget is not None:
            setattr(layer_class, name, property(of_built_layer(own.fget)))
        elif inspect.isfunction(own):
            setattr(layer_class, name, of_built_layer(own))


def of_built_layer(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method, or what a property calls, that raises an error for an unbuilt layer."""

    @functools.wraps(function)
    def checked(self, *args, **kwargs):
        if not self.built:
            raise UnknownSizeError(
                f"A layer must be built before its `{function.__name__}` is asked for: call it on "
                f"data, or give its model a `keras.Input`. Received: layer '{self.name}', {self!r}"
            )
        return function(self, *args, **kwargs)

    return checked


def add_bounded_weight(
    layer: keras.layers.Layer, shape: Sequence[int] | None = None, *args: Any, **kwargs: Any
) -> keras.Variable:
    """Return a new weight, or raise `ValueError` for a size that no sound file asks for."""
    sizes = tuple(shape or ())
    if all(map(is_integer, sizes)):
        matrix_numbers(math.prod(sizes), f"a weight of layer '{layer.name}'")
    return keras.layers.Layer.add_weight(layer, shape, *args, **kwargs)


def refuse_to_quantize(layer: Any, *args: Any, **kwargs: Any) -> None:
    """Raise `ValueError`: `keras_xd.finalize` comes before `quantize`."""
    raise ValueError(
        "What is quantized is the result of a search: `keras_xd.finalize(model).quantize(mode)`. "
        f"Received: the {type(layer).__name__} '{layer.name}', which is not finalized"
    )


def refuse_lora(layer: Any, *args: Any, **kwargs: Any) -> None:
    """Raise `ValueError`: `keras_xd.finalize` comes before `enable_lora`."""
    raise ValueError(
        "LoRA is for the result of a search: `keras_xd.finalize` comes before it. "
        f"Received: the {type(layer).__name__} '{layer.name}', which is not finalized"
    )
