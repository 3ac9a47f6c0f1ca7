"""The protocol of searchable layers, and checks of it."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from keras_xd.core.validation import UnknownSizeError

# A method, whose type the decorator leaves as it is.
Method = TypeVar("Method", bound=Callable)

NAMES = (
    *("architecture_variables", "complexity", "finalize", "describe"),
    *("architecture_signature", "random_architecture"),
)


def require_built(layer_class):
    """Make the methods and properties of `NAMES` that a class itself has refuse unbuilt layers."""
    for name in NAMES:
        own = vars(layer_class).get(name)
        if isinstance(own, property):
            setattr(layer_class, name, property(of_built_layer(own.fget)))
        elif inspect.isfunction(own):
            setattr(layer_class, name, of_built_layer(own))


def of_built_layer(function: Method) -> Method:
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


def refuse_to_quantize(layer: Any, *args: Any, **kwargs: Any) -> None:
    """Raise `ValueError`: `keras_xd.finalize` comes before `quantize`."""
    raise ValueError(
        "What is quantized is the result of a search: `keras_xd.finalize(model).quantize(mode)`. "
        f"Received: the {type(layer).__name__} '{layer.name}', which is still searched"
    )


def refuse_lora(layer: Any, *args: Any, **kwargs: Any) -> None:
    """Raise `ValueError`: `keras_xd.finalize` comes before `enable_lora`."""
    raise ValueError(
        "LoRA is for the result of a search: `keras_xd.finalize` comes before it. "
        f"Received: the {type(layer).__name__} '{layer.name}', which is still searched"
    )
