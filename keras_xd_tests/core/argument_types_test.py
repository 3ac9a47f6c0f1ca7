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
from keras_xd.core.argument_types import check_types, constructor_parameters
from keras_xd.core.type_aliases import Radix, Tensor
from keras_xd_tests.core.type_aliases_test import FUNCTIONS

WRONG = {"none": None, "object": object(), "text": "no such thing"}
# They take some of these: a name that is no operation, `None` as a radix, a start of any form.
UNCHECKED = {
    "keras_xd.layers.cells.genotypes.is_feature",
    "keras_xd.layers.xd.regularizers.bound",
    "keras_xd.layers.xd.warm_starts.operations.identifier",
}
PUBLIC = {
    name: getattr(importlib.import_module(function.__module__), function.__name__)
    for name, function in FUNCTIONS.items()
    if function.__qualname__ == name.rpartition(".")[2] and name not in UNCHECKED
}


def refuses(value, hint):
    @check_types
    def function(argument: hint):
        return None

    try:
        function(value)
    except ValueError as error:
        return "`argument` must be" in str(error)
    return False


def test_what_fits():
    fitting = [
        (3, int),
        (np.int64(3), int),
        (3, float),
        (np.float32(0.5), float),
        (np.bool_(True), bool),
        (None, int | None),
        ("a", str | int),
        ("anything", typing.Any),
        ([1, 2], collections.abc.Sequence[int]),
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
    ]
    assert [pair for pair in fitting if refuses(*pair)] == []


def test_what_does_not_fit():
    wrong = [
        (2.5, int),
        (True, int),
        ("3", float),
        (1, bool),
        (None, int),
        (2, str | None),
        ("ab", list[str]),
        ("ab", collections.abc.Sequence[str]),
        ([1, "2"], list[int]),
        ([1] * 50 + ["2"], collections.abc.Sequence[int]),
        ((1, 2, 3), tuple[int, int]),
        (3, collections.abc.Callable[[int], int]),
        ("no", np.ndarray),
        (None, Tensor),
        (3, str | os.PathLike),
        (3, keras_xd.layers.XDConv1D),
    ]
    assert [pair for pair in wrong if not refuses(*pair)] == []


def test_the_decorator():
    @check_types
    def scaled(values: list[float], factor: "int" = 2, *others: int, name=None, **rest: int) -> str:
        """Documentation."""
        return [factor * value for value in values]

    assert scaled([1.0], 3, 4, name=object(), more=object()) == [3.0]
    with pytest.raises(ValueError, match="`others` must be an integer. Received: others='5'"):
        scaled([1.0], 3, 4, "5")
    assert scaled.__doc__ == "Documentation." and "factor" in inspect.signature(scaled).parameters
    assert inspect.signature(scaled).return_annotation is str
    with pytest.raises(ValueError, match="`factor` must be an integer. Received: factor='3'"):
        scaled([1.0], factor="3")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'values'"):
        scaled()


def required(function):
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if inspect.isclass(function):
        parameters = constructor_parameters(function).values()
    else:
        parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.default is p.empty and p.kind not in kinds]
    return [p for p in named if p.name != "self"]


@pytest.mark.parametrize("wrong", WRONG)
def test_public_functions_refuse_wrong_types(wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    accepted = [name for name in sorted(PUBLIC) if not refuses_wrong(PUBLIC[name], wrong)]
    assert accepted == []


def refuses_wrong(function, wrong):
    """Return whether a function refuses a value in the place of each argument that it needs."""
    needed = required(function)
    by_name = {p.name: WRONG[wrong] for p in needed if p.kind is p.KEYWORD_ONLY}
    by_place = [WRONG[wrong] for p in needed if p.kind is not p.KEYWORD_ONLY]
    if not needed:  # all arguments are options, of which the first is wrong
        parameters = list(inspect.signature(function).parameters.values())
        if not parameters or wrong == "none" or parameters[0].kind is parameters[0].VAR_KEYWORD:
            return True  # there is nothing that could be wrong
        by_name = {parameters[0].name: WRONG[wrong]}
        if parameters[0].kind is parameters[0].VAR_POSITIONAL:
            by_place, by_name = [WRONG[wrong]], {}
    try:
        function(*by_place, **by_name)
    except ValueError:
        return True
    return False


def test_public_functions_check_their_options():
    """Any option but the first is refused by its type alone, whatever the other arguments are."""
    accepted = []
    for name in sorted(PUBLIC):
        function = inspect.unwrap(PUBLIC[name])
        hints = typing.get_type_hints(function, include_extras=True)
        for parameter in inspect.signature(function).parameters.values():
            hint = hints[parameter.name]
            if hint is not typing.Any:
                assert PUBLIC[name] is not function, f"{name} has no @check_types"
            if parameter.default is not parameter.empty and hint is not typing.Any:
                if not refuses(object(), hint):
                    accepted.append((name, parameter.name))
    assert accepted == []


def constructors():
    """Return the public layers, callbacks and starts, with what their constructors need."""
    needed = {"filters": 2, "kernel_size": 3, "units": 3, "rank": 1, "modes": 4, "blocks": 2}
    needed |= {"log_dir": "logs", "first_period": 1, "schedule": float, "sizes": 4}
    modules = (keras_xd.layers, keras_xd.layers.warm_starts, keras_xd.callbacks)
    for kind in [kind for module in modules for kind in vars(module).values()]:
        if inspect.isclass(kind) and kind.__module__.startswith("keras_xd"):
            names = {p.name for p in required(kind)}
            if names <= set(needed) and not kind.__name__.startswith("Masked"):
                yield kind, {name: needed[name] for name in names}


# What Keras checks, or not, in the constructors of its own layers.
OF_KERAS = {
    *inspect.signature(keras.layers.Layer.__init__).parameters,
    *inspect.signature(keras.layers.Conv2D.__init__).parameters,
    *inspect.signature(keras.layers.SeparableConv2D.__init__).parameters,
    *("args", "kwargs"),
} - {"filters", "kernel_size", "strides", "padding", "dilation_rate", "groups", "use_bias"}


def test_constructors_refuse_wrong_types(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    accepted, names = [], set()
    for kind, needed in constructors():
        kind(**needed)
        names.add(kind.__name__)
        for parameter in set(constructor_parameters(kind)) - OF_KERAS:
            try:
                kind(**{**needed, parameter: WRONG["object"]})
            except ValueError:
                continue
            accepted.append((kind.__name__, parameter))
    assert names >= {"XDConv2D", "StructuredDense", "CKConv1D", "Convolution", "ArchitectureBoard"}
    assert accepted == []
