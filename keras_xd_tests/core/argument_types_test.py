"""Arguments of wrong types: the decorator, and every public function and constructor."""

import collections.abc
import importlib
import inspect
import os
import typing

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd.core.argument_types import check_types, constructor_parameters, described, fits
from keras_xd.core.type_aliases import Radix, Tensor
from keras_xd_tests.core.type_aliases_test import FUNCTIONS

WRONG = {"none": None, "object": object(), "text": "no such thing"}
# They take some of these: a name that is no operation, `None` as a radix, a start of any form.
UNCHECKED = {
    "keras_xd.layers.cells.genotypes.is_feature",
    "keras_xd.kmatrix.radix.check_radix",
    "keras_xd.layers.xd.penalties.bound",
    "keras_xd.layers.xd.warm_starts.operations.identifier",
}
PUBLIC = {
    name: getattr(importlib.import_module(function.__module__), function.__name__)
    for name, function in FUNCTIONS.items()
    if "." not in function.__qualname__ and name not in UNCHECKED
}


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (3, int),
        (np.int64(3), int),
        (3, float),
        (np.float32(0.5), float),
        (np.bool_(True), bool),
        (None, int | None),
        ("a", str | int),
        ("anything", typing.Any),
        ([1, 2], collections.abc.Sequence[int]),
        (np.arange(3), collections.abc.Sequence[int]),
        ((1, 2), tuple[int, int]),
        ((1, 2, 3), tuple[int, ...]),
        (iter([1]), collections.abc.Iterable[int]),
        ({"a": 1}, dict[str, int]),
        (len, collections.abc.Callable[[list], int]),
        ([[1.0]], np.ndarray),
        (np.ones(2), Tensor),
        (1.5, Tensor),
        (keras.KerasTensor((2,)), Tensor),
        (((2, 2), (4,)), Radix),
        ("folder/file", str | os.PathLike),
        (keras.Sequential(), keras.layers.Layer),
    ],
)
def test_what_fits(value, hint):
    assert fits(value, hint)


@pytest.mark.parametrize(
    ("value", "hint", "text"),
    [
        (2.5, int, "an integer"),
        (True, int, "an integer"),
        ("3", float, "a number"),
        (1, bool, "True or False"),
        (None, int, "an integer"),
        (2, str | None, "a string or None"),
        ("ab", list[str], "a sequence, each item a string"),
        ([1, "2"], list[int], "a sequence, each item an integer"),
        ((1, 2, 3), tuple[int, int], "a tuple of 2"),
        (np.float32(1), collections.abc.Sequence[float], "a sequence, each item a number"),
        ([("a", 1)], collections.abc.Mapping[str, int], "a dictionary"),
        (3, collections.abc.Callable[[int], int], "a function"),
        ("no", np.ndarray, "an array"),
        (None, Tensor, "a tensor or array"),
        (3, str | os.PathLike, "a string or a path"),
        (keras.layers.ReLU(), keras.Model, "a Keras model"),
        (3, keras_xd.layers.XDConv1D, "a XDConv1D"),
    ],
)
def test_what_does_not_fit(value, hint, text):
    assert not fits(value, hint)
    assert described(hint) == text


def test_the_decorator():
    @check_types
    def scaled(values: list[float], factor: "int" = 2, *others: int, name=None, **rest: int):
        """Documentation."""
        return [factor * value for value in values]

    assert scaled([1.0], 3, 4, name=object(), more="unchecked") == [3.0]
    with pytest.raises(ValueError, match="^`others` must be an integer. Received: others='5'$"):
        scaled([1.0], 3, 4, "5")
    assert scaled.__doc__ == "Documentation." and "factor" in inspect.signature(scaled).parameters
    with pytest.raises(ValueError, match="^`factor` must be an integer. Received: factor='3'$"):
        scaled([1.0], factor="3")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'values'"):
        scaled()
    with pytest.raises(ValueError, match=r"Received: values='a{199}…$"):
        scaled("a" * 1000)


def test_parameters_are_those_of_the_constructor():
    assert list(constructor_parameters(keras.layers.Dense))[:2] == ["units", "activation"]
    assert "kwargs" in constructor_parameters(keras_xd.layers.XDConv2D)
    assert list(constructor_parameters(Sized)) == ["size", "name"]


class Sized:
    """A class with a `__new__` that takes anything, as Keras' layers are."""

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)

    def __init__(self, size, name=None):
        self.size, self.name = size, name


def required(function):
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    function = function.__init__ if inspect.isclass(function) else function
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.default is p.empty and p.kind not in kinds]
    return [p for p in named if p.name != "self"]


def refuses(name, wrong):
    """Return whether a public function refuses a wrong value for all that it needs."""
    needed = required(PUBLIC[name])
    by_name = {p.name: WRONG[wrong] for p in needed if p.kind is p.KEYWORD_ONLY}
    by_place = [WRONG[wrong] for p in needed if p.kind is not p.KEYWORD_ONLY]
    if not needed:  # all arguments are options, of which the first is wrong
        parameters = list(inspect.signature(PUBLIC[name]).parameters.values())
        if not parameters or wrong == "none" or parameters[0].kind is parameters[0].VAR_KEYWORD:
            return True  # there is nothing that could be wrong
        by_name = {parameters[0].name: WRONG[wrong]}
        if parameters[0].kind is parameters[0].VAR_POSITIONAL:
            by_place, by_name = [WRONG[wrong]], {}
    try:
        PUBLIC[name](*by_place, **by_name)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize("wrong", WRONG)
def test_public_functions_refuse_wrong_types(wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not [name for name in PUBLIC if not refuses(name, wrong)]


def unchecked_options(name):
    """Return the options of a public function that are not refused by their type."""
    function = inspect.unwrap(PUBLIC[name])
    names = {"keras": keras, "np": np}
    hints = typing.get_type_hints(function, localns=names, include_extras=True)
    optional = {
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.default is not p.empty and hints[p.name] is not typing.Any
    }
    if PUBLIC[name] is function:
        return ["no @check_types"]
    return [option for option in optional if fits(object(), hints[option])]


def test_public_functions_check_their_options():
    """Any option but the first is refused by its type alone, whatever the other arguments are."""
    found = {name: unchecked_options(name) for name in PUBLIC}
    assert not {name: options for name, options in found.items() if options}


def constructors():
    """Return the public layers, callbacks and starts, with what their constructors need."""
    needed = {"filters": 2, "kernel_size": 3, "units": 3, "rank": 1, "modes": 4, "blocks": 2}
    needed |= {"log_dir": "logs", "first_period": 1, "schedule": float, "sizes": 4}
    modules = (keras_xd.layers, keras_xd.layers.warm_starts, keras_xd.callbacks)
    found = {}
    for kind in [kind for module in modules for kind in vars(module).values()]:
        if inspect.isclass(kind) and kind.__module__.startswith("keras_xd"):
            names = {p.name for p in required(kind)}
            if names <= set(needed) and not kind.__name__.startswith("Masked"):
                found[kind.__name__] = (kind, {name: needed[name] for name in names})
    return found


CONSTRUCTORS = constructors()
# What Keras checks, or not, in the constructors of its own layers.
OF_KERAS = {
    *inspect.signature(keras.layers.Layer.__init__).parameters,
    *inspect.signature(keras.layers.Conv2D.__init__).parameters,
    *inspect.signature(keras.layers.SeparableConv2D.__init__).parameters,
} - {"filters", "kernel_size", "strides", "padding", "dilation_rate", "groups", "use_bias"}


def test_constructors_are_found():
    assert {"XDConv2D", "KDense", "CKConv1D", "Convolution", "ArchitectureBoard"} <= set(
        CONSTRUCTORS
    )


def test_constructors_refuse_wrong_types(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    accepted = []
    for name, (kind, needed) in CONSTRUCTORS.items():
        kind(**needed)
        for parameter in inspect.signature(kind.__init__).parameters:
            if parameter in OF_KERAS or parameter in ("self", "args", "kwargs"):
                continue
            try:
                kind(**{**needed, parameter: WRONG["object"]})
            except ValueError:
                continue
            accepted.append((name, parameter))
    assert not accepted
