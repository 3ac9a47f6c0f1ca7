"""A decorator by which a public function refuses arguments that do not fit its type hints."""

import inspect
import numbers
from collections.abc import Callable, Sequence
from typing import Annotated, SupportsFloat, TypeVar

import numpy as np
from beartype import BeartypeConf, FrozenDict, beartype
from beartype.vale import IsInstance

from keras_xd.core.type_aliases import Array

Decorated = TypeVar("Decorated", bound=Callable)


# Integers of NumPy are integers and booleans are not, whatever has a `float` is a number, and one
# string is no sequence of strings.
HINTS = {
    int: Annotated[numbers.Integral, ~IsInstance[bool]],
    float: SupportsFloat,
    bool: bool | np.bool_,
    np.ndarray: Array | list | tuple,
    Sequence[str]: Annotated[Sequence, ~IsInstance[str, bytes]],
}
CONFIGURATION = BeartypeConf(violation_param_type=ValueError, hint_overrides=FrozenDict(HINTS))


def check_types(function: Decorated) -> Decorated:
    """Make a function raise `ValueError` for an argument of a type that its hints do not name.

    What the function returns is not checked.

    Args:
        function: a function or method with type hints, or a data class.

    Example:

    >>> from keras_xd.core.argument_types import check_types
    >>> @check_types
    ... def repeated(text: str, times: int = 2) -> str:
    ...     return text * times
    >>> repeated("ab")
    'abab'
    >>> repeated("ab", times="no")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: ...parameter times='no' violates type hint...
    """
    if inspect.isclass(function):
        function.__init__ = check_types(function.__init__)
        return function
    hints = function.__annotations__
    function.__annotations__ = {name: hint for name, hint in hints.items() if name != "return"}
    checked = beartype(conf=CONFIGURATION)(function)
    checked.__annotations__ = function.__annotations__ = hints
    return checked


def constructor_parameters(kind: type) -> dict[str, inspect.Parameter]:
    """Return the parameters of a class' constructor by name, without `self`.

    `inspect.signature` of a layer is that of Keras' `__new__` in early releases of Python 3.11.

    Example:

    >>> import keras
    >>> from keras_xd.core.argument_types import constructor_parameters
    >>> list(constructor_parameters(keras.layers.Dense))[:2]
    ['units', 'activation']
    """
    parameters = inspect.signature(kind.__init__).parameters
    return dict(list(parameters.items())[1:])
