"""A decorator by which a function refuses arguments that do not fit its type hints."""

import collections.abc
import functools
import inspect
import numbers
import os
import sys
import types
import typing

from keras_xd.core.type_aliases import Tensor

NAMES = {
    int: "an integer",
    float: "a number",
    complex: "a number",
    bool: "True or False",
    str: "a string",
    bytes: "bytes",
    dict: "a dictionary",
    type: "a class",
    os.PathLike: "a path",
    type(None): "None",
    collections.abc.Mapping: "a dictionary",
    collections.abc.Callable: "a function",
}
# By name, because the grammars work without NumPy.
OF_NUMPY = {"ndarray": "an array", "Generator": "a numpy.random.Generator"}
SEQUENCES = (
    list,
    tuple,
    set,
    frozenset,
    collections.abc.Sequence,
    collections.abc.Iterable,
    collections.abc.Collection,
    collections.abc.Iterator,
)
LONGEST_VALUE = 200
# A function or class, whose type the decorator leaves as it is.
Decorated = typing.TypeVar("Decorated", bound=collections.abc.Callable)


def check_types(function: Decorated) -> Decorated:
    """Make a function raise `ValueError` for an argument of a type that its hints do not name.

    Only what is certainly wrong is refused: whole numbers of NumPy are integers, anything with a
    shape is an array, and what is in long or lazy sequences is not looked at.

    Args:
        function: a function or method with type hints, or a data class.

    Returns:
        The function with the check before it; the class with the check in its constructor.

    Example:

    >>> from keras_xd.core.argument_types import check_types
    >>> @check_types
    ... def repeated(text: str, times: int = 2) -> str:
    ...     return text * times
    >>> repeated("ab")
    'abab'
    >>> repeated("ab", times="no")
    Traceback (most recent call last):
    ValueError: `times` must be an integer. Received: times='no'
    """
    if inspect.isclass(function):
        function.__init__ = check_types(function.__init__)
        return function
    signature = inspect.signature(function)
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}

    @functools.wraps(function)
    def checked(*args, **kwargs):
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # raises Python's own error for its arguments
        hints = _hints(inspect.unwrap(function))
        for name in [name for name in given if name in hints]:
            if kinds[name] is inspect.Parameter.VAR_KEYWORD:
                continue
            several = kinds[name] is inspect.Parameter.VAR_POSITIONAL
            for value in given[name] if several else [given[name]]:
                _check(value, name, hints[name])
        return function(*args, **kwargs)

    return checked


def _check(value, name, hint):
    if not fits(value, hint):
        text = repr(value)
        text = f"{text[:LONGEST_VALUE]}…" if len(text) > LONGEST_VALUE else text
        raise ValueError(f"`{name}` must be {described(hint)}. Received: {name}={text}")


@functools.cache
def _hints(function):
    # Some modules import these for their hints alone.
    names = {"keras": sys.modules.get("keras"), "np": sys.modules.get("numpy")}
    return typing.get_type_hints(function, localns=names, include_extras=True)


def fits(value, hint):
    """Return whether a value may be what a type hint names."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, argument) for argument in arguments)
    if hint == Tensor:
        return isinstance(value, (numbers.Number, list, tuple)) or hasattr(value, "shape")
    if hint is None or hint is typing.Any:
        return hint is typing.Any or value is None
    kind = origin or hint
    if not isinstance(kind, type) or kind is object:  # Any, and what has no class
        return True
    if kind in SEQUENCES:
        return _fits_sequence(value, kind, arguments)
    if kind is collections.abc.Callable:
        return callable(value)
    if _is_of_numpy(kind, "ndarray"):
        return isinstance(value, (list, tuple)) or hasattr(value, "shape")
    if kind is bool:
        return isinstance(value, bool) or _is_of_numpy(type(value), "bool", "bool_")
    if kind is int:
        return isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if kind is float:
        single = hasattr(value, "__float__") and not isinstance(value, str)
        return isinstance(value, numbers.Real) or single
    if kind is complex:
        return isinstance(value, numbers.Number) or hasattr(value, "__complex__")
    return isinstance(value, kind)


def _is_of_numpy(kind, *names):
    return kind.__module__.partition(".")[0] == "numpy" and kind.__name__ in names


def _fits_sequence(value, kind, arguments):
    if isinstance(value, (str, bytes, collections.abc.Mapping)):
        return False
    if kind is not collections.abc.Iterator and hasattr(value, "shape"):
        return len(value.shape) > 0
    if not isinstance(value, collections.abc.Iterable):
        return False
    if not isinstance(value, (list, tuple)) or len(value) > LONGEST_VALUE:
        return True
    if kind is tuple and arguments and arguments[-1] is not Ellipsis:
        return len(value) == len(arguments) and all(map(fits, value, arguments))
    return not arguments or all(fits(item, arguments[0]) for item in value)


def described(hint):
    """Return what a type hint names, as text."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        *texts, last = dict.fromkeys(described(argument) for argument in arguments)
        return f"{', '.join(texts)} or {last}" if texts else last
    if hint == Tensor:
        return "a tensor or array"
    kind = origin or hint
    if kind in NAMES:
        return NAMES[kind]
    if kind in SEQUENCES:
        inside = [a for a in arguments if a is not Ellipsis]
        if kind is tuple and inside == list(arguments) and inside:
            return f"a tuple of {len(inside)}"
        return f"a sequence, each item {described(inside[0])}" if inside else "a sequence"
    if _is_of_numpy(kind, *OF_NUMPY):
        return OF_NUMPY[kind.__name__]
    if kind.__module__.startswith("keras."):
        return f"a Keras {kind.__name__.lower()}"
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    return f"{article} {kind.__name__}"
