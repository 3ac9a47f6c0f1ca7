"""A decorator by which a function refuses arguments that do not fit its type hints."""

import functools
import inspect
import numbers
import os
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from keras_xd.core.type_aliases import Tensor
from keras_xd.core.validation import is_integer

NAMES = {
    int: "an integer",
    float: "a number",
    bool: "True or False",
    str: "a string",
    dict: "a dictionary",
    type: "a class",
    os.PathLike: "a path",
    type(None): "None",
    np.random.Generator: "a numpy.random.Generator",
    Mapping: "a dictionary",
    Callable: "a function",
    np.ndarray: "an array",
    Tensor: "a tensor or array",
}
UNIONS = (typing.Union, types.UnionType)
SEQUENCES = (list, tuple, set, frozenset, Sequence, Iterable, Collection, Iterator)
# What a hint names too, beside the class itself.
WIDER: dict[typing.Any, typing.Any] = {bool: (bool, np.bool_), float: typing.SupportsFloat}
LONGEST = 200
# A function or class, whose type the decorator leaves as it is.
Decorated = typing.TypeVar("Decorated", bound=Callable)


def check_types(function: Decorated) -> Decorated:
    """Make a function raise `ValueError` for an argument of a type that its hints do not name."""
    if inspect.isclass(function):
        function.__init__ = check_types(function.__init__)  # type: ignore[method-assign]  # a class
        return function

    @functools.wraps(function)
    def checked(*args, **kwargs):
        signature = _signature(function)
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:  # which the call raises by itself
            return function(*args, **kwargs)
        hints = _hints(inspect.unwrap(function))
        for name, value in given.items():
            kind = signature.parameters[name].kind
            if name in hints and kind is not inspect.Parameter.VAR_KEYWORD:
                several = kind is inspect.Parameter.VAR_POSITIONAL
                for one in value if several else (value,):
                    _check(one, name, hints[name])
        return function(*args, **kwargs)

    return typing.cast(Decorated, checked)


def constructor_parameters(kind: typing.Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a class' constructor by name, without `self`."""
    if hasattr(kind, "__signature__"):
        return dict(kind.__signature__.parameters)
    parameters = inspect.signature(kind.__init__).parameters
    return dict(list(parameters.items())[1:])


_signature = functools.cache(inspect.signature)
_hints = functools.cache(functools.partial(typing.get_type_hints, include_extras=True))


def _check(value, name, hint):
    if not _fits(value, hint):
        text = repr(value)
        text = f"{text[:LONGEST]}…" if len(text) > LONGEST else text
        raise ValueError(f"`{name}` must be {_described(hint)}. Received: {name}={text}")


@functools.cache
def _parts(hint):
    """Return the class or form of a type hint, and what it is of."""
    if hint in (Tensor, ArrayLike):
        return Tensor, ()
    return typing.get_origin(hint) or hint, typing.get_args(hint)


def _fits(value, hint):
    """Return whether a value may be what a type hint names."""
    if type(value) is hint:
        return True
    kind, items = _parts(hint)
    if kind is Tensor or kind is np.ndarray:
        number = isinstance(value, numbers.Number) and kind is not np.ndarray
        listed = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
        return number or listed or hasattr(value, "shape")
    if kind in UNIONS:
        return any(_fits(value, item) for item in items)
    if kind in SEQUENCES:
        return _fits_sequence(value, kind, items)
    if kind is int:
        return is_integer(value)
    known = isinstance(kind, type) and kind is not typing.Any
    return not known or isinstance(value, WIDER.get(kind, kind))


def _fits_sequence(value, kind, items):
    """Return the same of a sequence's hint; a lazy or long one is not read through."""
    if isinstance(value, (list, tuple)):
        if kind is tuple and items and items[-1] is not Ellipsis:
            return len(value) == len(items) and all(map(_fits, value, items))
        return not items or all(_fits(item, items[0]) for item in value[:LONGEST])
    if hasattr(value, "shape"):
        return kind is not Iterator and len(value.shape) > 0
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def _described(hint):
    """Return what a type hint names, as text."""
    kind, items = _parts(hint)
    if kind in NAMES:
        return NAMES[kind]
    if kind in UNIONS:
        return " or ".join(dict.fromkeys(map(_described, items)))
    if kind is tuple and items and items[-1] is not Ellipsis:
        return f"a tuple of {len(items)}"
    if kind in SEQUENCES:
        return f"a sequence, each item {_described(items[0])}" if items else "a sequence"
    if kind.__module__.startswith("keras."):
        return f"a Keras {kind.__name__.lower()}"
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
