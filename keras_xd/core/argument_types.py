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
    """Make a function raise `ValueError` for an argument of a type that its hints do not name."""
    if inspect.isclass(function):
        function.__init__ = check_types(function.__init__)  # type: ignore[method-assign]  # a class
        return function
    signature = inspect.signature(function)
    parameters = signature.parameters

    @functools.wraps(function)
    def checked(*args, **kwargs):
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:  # which the call raises by itself
            return function(*args, **kwargs)
        hints = _hints(inspect.unwrap(function))
        for name, value in given.items():
            kind = parameters[name].kind
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


def _check(value, name, hint):
    if not check_of(hint)(value):
        text = repr(value)
        text = f"{text[:LONGEST_VALUE]}…" if len(text) > LONGEST_VALUE else text
        raise ValueError(f"`{name}` must be {described(hint)}. Received: {name}={text}")


@functools.cache
def _hints(function):
    # Some modules import these for their hints alone.
    names = {"keras": sys.modules.get("keras"), "np": sys.modules.get("numpy")}
    return typing.get_type_hints(function, localns=names, include_extras=True)


@functools.cache
def check_of(hint):
    """Return a function that returns whether a value may be what a type hint names."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        checks = [check_of(argument) for argument in arguments]
        return lambda value: any(fit(value) for fit in checks)
    if hint == Tensor:
        return lambda value: (
            hasattr(value, "shape") or isinstance(value, (numbers.Number, list, tuple))
        )
    if hint is None or hint is typing.Any:
        return _anything if hint is typing.Any else lambda value: value is None
    kind = origin or hint
    if not isinstance(kind, type) or kind is object:  # Any, and what has no class
        return _anything
    if kind in SEQUENCES:
        return _check_of_sequence(kind, arguments)
    if _is_of_numpy(kind, "ndarray"):
        return lambda value: isinstance(value, (list, tuple)) or hasattr(value, "shape")
    return CHECKS.get(kind, lambda value: isinstance(value, kind))


def _anything(value):
    return True


def _fits_bool(value):
    return isinstance(value, bool) or _is_of_numpy(type(value), "bool", "bool_")


def _fits_int(value):
    return type(value) is int or (
        isinstance(value, numbers.Integral) and not isinstance(value, bool)
    )


def _fits_float(value):
    single = hasattr(value, "__float__") and not isinstance(value, str)
    return single or isinstance(value, numbers.Real)


def _fits_complex(value):
    return isinstance(value, numbers.Number) or hasattr(value, "__complex__")


CHECKS: dict[typing.Any, typing.Any] = {
    bool: _fits_bool,
    int: _fits_int,
    float: _fits_float,
    complex: _fits_complex,
    collections.abc.Callable: callable,
}


def _is_of_numpy(kind, *names):
    return kind.__module__.partition(".")[0] == "numpy" and kind.__name__ in names


def _check_of_sequence(kind, arguments):
    """Return the check of a sequence's kind, and of its items where it is short and not lazy."""
    items = [_anything if item is Ellipsis else check_of(item) for item in arguments]
    fixed = kind is tuple and arguments and arguments[-1] is not Ellipsis

    def fit(value):
        if isinstance(value, (list, tuple)) and not hasattr(value, "shape"):
            if len(value) > LONGEST_VALUE:
                return True
            if fixed:
                pairs = zip(items, value, strict=False)
                return len(value) == len(items) and all(own(item) for own, item in pairs)
            return not items or all(map(items[0], value))
        if isinstance(value, (str, bytes, collections.abc.Mapping)):
            return False
        if kind is not collections.abc.Iterator and hasattr(value, "shape"):
            return len(value.shape) > 0
        return isinstance(value, collections.abc.Iterable)

    return fit


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
