"""Type hints: every exported function, and every method of an exported class, has them.

That includes layers, models, optimizers and callbacks, though Keras' own have none.
"""

import ast
import importlib
import inspect
import os
import typing

import keras
import numpy as np

from keras_xd_tests.imports_test import MODULES, PACKAGES, ROOT, module_name, tree

# Modules that users import by their path; what is in the package files is found there.
OTHERS = ("keras_xd.grammar.primitives", "keras_xd.searching")
# Names that modules without Keras or NumPy import for their hints alone.
NAMES = {"keras": keras, "np": np}


def exported():
    """Return everything that `__all__` of a package or module names, and the modules `OTHERS`."""
    values = [importlib.import_module(name) for name in OTHERS]
    for path in MODULES:
        if any(ast.unparse(node).startswith("__all__") for node in tree(path).body):
            module = importlib.import_module(module_name(path))
            values += [getattr(module, name) for name in module.__all__]
    return values


def functions_of(value):
    """Return `{full name: function}` of a module, a class or a function; nothing of a package."""
    if inspect.ismodule(value):
        found = {}
        for name, part in ({} if hasattr(value, "__path__") else vars(value)).items():
            if not name.startswith("_") and getattr(part, "__module__", "") == value.__name__:
                found |= functions_of(part)
        return found
    if inspect.isclass(value):
        return methods_of(value)
    function = inspect.unwrap(value) if callable(value) else None
    if not inspect.isfunction(function):
        return {}
    return {f"{function.__module__}.{function.__qualname__}": function}


def methods_of(kind):
    """Return the public methods and properties of a class, those of its bases here included.

    Methods by which Python's operators work, such as `__call__`, are public too. A data class has
    written some itself, without hints for what they return.
    """
    found = {}
    for base in kind.__mro__:
        if not base.__module__.startswith(("keras_xd", "tuner_integration")):
            continue
        for name, member in vars(base).items():
            member = member.fget if isinstance(member, property) else member
            member = getattr(member, "func", getattr(member, "__func__", member))
            public = not name.startswith("_") or name.endswith("__")
            if inspect.isfunction(member) and public and in_file(member):
                found[f"{base.__module__}.{base.__qualname__}.{name}"] = member
    return found


def in_file(function):
    """Return whether a function stands in a file of the project, not in Python's or Keras' code."""
    file = inspect.unwrap(function).__code__.co_filename
    return any(file.startswith(f"{ROOT / package}{os.sep}") for package in PACKAGES)


def missing_hints(name, function):
    """Return the names of a function's parameters without hints, and "return".

    A constructor needs no hint for what it returns where it has one for a parameter.
    """
    parameters = list(inspect.signature(function).parameters.values())
    if "." in function.__qualname__.rpartition("<locals>.")[2]:
        parameters = [p for p in parameters if p.name not in ("self", "cls")]
    missing = [p.name for p in parameters if p.annotation is p.empty]
    constructor = name.endswith(".__init__") and function.__annotations__
    if "return" not in function.__annotations__ and not constructor:
        missing.append("return")
    return missing


FUNCTIONS = {}
for exported_value in exported():
    FUNCTIONS |= functions_of(exported_value)


def test_functions_have_hints():
    missing = {name: missing_hints(name, f) for name, f in FUNCTIONS.items()}
    assert not {name: parts for name, parts in missing.items() if parts}


def test_names_in_hints_exist():
    for function in FUNCTIONS.values():
        typing.get_type_hints(function, localns=NAMES)
