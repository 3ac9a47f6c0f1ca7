"""Argument checks shared by the whole package."""

import functools
import math
import numbers
import os
import re

import keras
import numpy as np

# Far above the 1 to 9 butterflies of the papers, and still traced in reasonable time.
LARGEST_DEPTH = 64
# Bounds of what is built, so that a damaged or hostile file is refused before it takes memory.
LARGEST_SIDE = 2**19  # of a K-matrix
LARGEST_KMATRIX = 2**25  # complex numbers of its butterflies together
LARGEST_MATRIX = 2**28  # numbers that one matrix is made of, 1 GiB in float32
LARGEST_NETWORK = 2**14  # operations of the network of a term
_CHECKED_AT_ONCE = 2**22  # numbers


class UnknownSizeError(ValueError):
    """A size is unknown that has to be known: of an input, or of a layer that is not built."""


def is_integer(value):
    """Return whether `value` is a whole number and not a boolean."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def positive_integer(value, name, least=1):
    """Return `value` as an `int`, or raise `ValueError` if it is not an integer ≥ `least`."""
    if not is_integer(value) or value < least:
        raise ValueError(
            f"`{name}` must be an integer of at least {least}. Received: {name}={value!r}"
        )
    return int(value)


# The same of integers ≥ 0.
nonnegative_integer = functools.partial(positive_integer, least=0)


def matrix_side(value, name):
    """Return `value` as an `int`, or raise `ValueError` if no K-matrix may have that size."""
    side = positive_integer(value, name)
    if side > LARGEST_SIDE:
        raise ValueError(
            f"`{name}`, the size of a K-matrix, must be at most {LARGEST_SIDE:,}. "
            f"Received: {name}={side}"
        )
    return side


def matrix_numbers(count, matrix, most=LARGEST_MATRIX):
    """Raise `ValueError` if a matrix of so many numbers is too large to be built."""
    if count > most:
        raise ValueError(
            f"A matrix must be made of at most {most:,} numbers. "
            f"Received: {matrix} of {count:,} numbers"
        )


def integer_tuple(value, rank, name):
    """Return `value` as a tuple of `rank` positive integers; one integer stands for all axes."""
    values = (value,) * rank if is_integer(value) else value
    if (
        not isinstance(values, (tuple, list))
        or len(values) != rank
        or not all(is_integer(v) and v > 0 for v in values)
    ):
        raise ValueError(
            f"`{name}` must be a positive integer or a tuple of {rank} positive integers. "
            f"Received: {name}={value!r}"
        )
    return tuple(int(v) for v in values)


def boolean(value, name):
    """Return `value` as a `bool`, or raise `ValueError` if it is neither of these nor 0 or 1."""
    of_numpy = getattr(getattr(value, "dtype", None), "kind", "") == "b" and value.shape == ()
    if not (isinstance(value, bool) or of_numpy or (is_integer(value) and value in (0, 1))):
        raise ValueError(f"`{name}` must be True or False. Received: {name}={value!r}")
    return bool(value)


def is_number(value):
    """Return whether `value` is a real number and not a boolean."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def real_number(value, name):
    """Return `value`, or raise `ValueError` if it is not a real number."""
    if not is_number(value):
        raise ValueError(f"`{name}` must be a number. Received: {name}={value!r}")
    return value


def positive_number(value, name):
    """Return `value` as a `float`, or raise `ValueError` if it is not above 0 and finite."""
    if not 0 < real_number(value, name) < math.inf:
        raise ValueError(f"`{name}` must be above 0 and finite. Received: {name}={value!r}")
    return float(value)


def nonnegative_number(value, name):
    """Return `value` as a `float`, or raise `ValueError` if it is not at least 0 and finite."""
    if not is_number(value) or not 0 <= value < math.inf:
        raise ValueError(f"`{name}` must be a number of at least 0. Received: {name}={value!r}")
    return float(value)


def number_within(value, ends, low, high, name):
    """Return `value` as a `float`, or raise `ValueError` if it is no number of an interval.

    `ends` are brackets, such as "(]" for numbers above `low` and at most `high`.
    """
    fits = is_number(value) and low <= value <= high
    if not fits or (ends[0] == "(" and value == low) or (ends[1] == ")" and value == high):
        interval = f"{ends[0]}{low:g}, {high:g}{ends[1]}"
        raise ValueError(f"`{name}` must be a number in {interval}. Received: {name}={value!r}")
    return float(value)


def seed(value, name="seed"):
    """Return `value`, or raise `ValueError` if it is neither `None` nor an integer ≥ 0."""
    if value is not None and (not is_integer(value) or value < 0):
        raise ValueError(
            f"`{name}` must be an integer of at least 0 or None. Received: {name}={value!r}"
        )
    return None if value is None else int(value)


def depth(value, count=None, name="depth"):
    """Return the depth of a K-matrix, or of `count` of them as a tuple, or raise `ValueError`."""
    depths = positive_integer(value, name) if count is None else integer_tuple(value, count, name)
    if (depths if count is None else max(depths)) > LARGEST_DEPTH:
        raise ValueError(
            f"`{name}` must be at most {LARGEST_DEPTH}, the number of butterflies in a matrix; the "
            f"papers use 1 to 9. Received: {name}={value!r}"
        )
    return depths


def collection(value, name):
    """Return `value` as a tuple, or raise `ValueError` if it is no list, tuple or set."""
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise ValueError(f"`{name}` must be a list or tuple. Received: {name}={value!r}")
    return tuple(value)


def different(values, name):
    """Return values as a tuple, or raise `ValueError` unless there are some, all different."""
    values = collection(values, name)
    if not values or any(value in values[:n] for n, value in enumerate(values)):
        raise ValueError(f"`{name}` must be different ones. Received: {name}={values!r}")
    return values


def one_of(value, allowed, name):
    """Return `value`, or raise `ValueError` if it is not one of the `allowed` values."""
    if value not in allowed:
        options = ", ".join(repr(option) for option in allowed)
        raise ValueError(f"`{name}` must be one of {options}. Received: {name}={value!r}")
    return value


def letters(value, allowed, name):
    """Return a string, or raise `ValueError` for letters not `allowed` or that occur twice."""
    found = set(value) if isinstance(value, str) else None
    if found is None or len(found) < len(value) or not found <= set(allowed):
        raise ValueError(
            f"`{name}` must be a string of different letters among {allowed!r}. "
            f"Received: {name}={value!r}"
        )
    return value


def channel_groups(groups, filters=None, channels=None, argument="groups"):
    """Raise `ValueError` unless `groups` divides the numbers of channels that are given."""
    for count, name in ((filters, "filters"), (channels, "channels")):
        if count is not None and count % groups:
            whole = "`filters`" if name == "filters" else "the number of input channels"
            raise ValueError(
                f"`{argument}` must divide {whole}. Received: {argument}={groups}, {name}={count}"
            )


def matcher(selection, name):
    """Turn a selection of layers into a predicate `layer -> bool`."""
    if selection is None:
        return lambda layer: False
    if isinstance(selection, (str, re.Pattern)):
        try:
            pattern = re.compile(selection)
        except re.error as error:
            raise ValueError(
                f"`{name}` must hold layer names or patterns (regular expressions, such as "
                f"'conv.*'). Received: {name}={selection!r}, which is not a pattern: {error}"
            ) from error
        return lambda layer: layer.name == selection or bool(pattern.fullmatch(layer.name))
    if isinstance(selection, (list, tuple, set)):
        predicates = [matcher(item, name) for item in selection]
        return lambda layer: any(predicate(layer) for predicate in predicates)
    if callable(selection):
        return lambda layer: bool(selection(layer))
    raise ValueError(
        f"`{name}` must be a layer name, a pattern, a predicate, or a list of these. "
        f"Received: {name}={selection!r}"
    )


def check_finite_data(data, name, before=0):
    """Raise `ValueError` for the first NaN or infinite value of arrays of samples, by its place.

    Arrays and dense tensors are read, also in lists and dictionaries; anything else passes.
    `before` samples came before those of the data.
    """
    if isinstance(data, dict):
        for key, part in data.items():
            check_finite_data(part, f"{name}[{key!r}]", before)
    elif isinstance(data, (list, tuple)):
        for index, part in enumerate(data):
            check_finite_data(part, f"{name}[{index}]", before)
    elif _holds_numbers(data):
        rows = max(1, _CHECKED_AT_ONCE // max(1, math.prod(data.shape[1:])))
        for first in range(0, len(data), rows):
            array = keras.ops.convert_to_numpy(data[first : first + rows])
            finite = np.isfinite(array)
            if not finite.all():
                place = np.unravel_index(np.argmin(finite), finite.shape)
                sample, *rest = map(int, place)
                sample += before + first
                channel = f", channel {rest[-1]}" if rest else ""
                raise ValueError(
                    f"`{name}` must be finite. Received: {array[place]} in sample {sample}"
                    f"{channel}: {name}{[sample, *rest]}"
                )


def _holds_numbers(data):
    """Return whether data is an array, or a dense tensor, of floating-point numbers."""
    dense = keras.ops.is_tensor(data) and hasattr(data, "__array__")
    # Of an array that JAX has spread over several processes each sees a part.
    if not (dense and getattr(data, "is_fully_addressable", True) or isinstance(data, np.ndarray)):
        return False
    return "float" in str(data.dtype) and len(data.shape) > 0


def check_export_path(path, overwrite=False):
    """Raise `ValueError` if something exists at `path`; an empty folder is nothing."""
    if overwrite or not os.path.exists(path):
        return
    if not os.path.isdir(path) or os.listdir(path):
        raise ValueError(
            "Export never overwrites unless `overwrite=True`. "
            f"Received: path={str(path)!r}, which exists"
        )
