"""What is public, as `__all__` says."""

import ast
import importlib
import inspect
import pydoc
import re

import pytest

import keras_xd
import tuner_integration
from keras_xd_tests import docs_test
from keras_xd_tests.imports_test import MODULES, module_name, tree

PACKAGES = [path for path in MODULES if path.name == "__init__.py"]
# The packages that lie in no other one.
PARENTS = {"keras_xd": keras_xd, "tuner_integration": tuner_integration}
# What a package file binds for itself.
OWN = {"TYPE_CHECKING"}


def bound_names(syntax):
    """Return the names without underscore that a file binds when it runs, at its top."""
    found, open_nodes = set(), list(syntax.body)
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {part.id for target in node.targets for part in names_in(target)}
        elif isinstance(node, ast.AnnAssign):
            found |= {part.id for part in names_in(node.target)}
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            open_nodes += node.orelse
        else:
            open_nodes += [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)]
            open_nodes += [n for handler in getattr(node, "handlers", ()) for n in handler.body]
    return {name for name in found if not name.startswith("_")}


def names_in(target):
    return [part for part in ast.walk(target) if isinstance(part, ast.Name)]


def public_modules():
    """Return the names of the packages and modules whose `__all__` names something."""
    paths = [path for path in MODULES if "__all__" in path.read_text(encoding="utf-8")]
    names = [module_name(path) for path in paths]
    return [name for name in names if importlib.import_module(name).__all__]


def test_every_package_says_what_is_public():
    for path in PACKAGES:
        assert isinstance(importlib.import_module(module_name(path)).__all__, list), path
    assert set(public_modules()) >= {"keras_xd", "keras_xd.layers", "tuner_integration"}


def test_public_names_exist_and_are_imported_by_star():
    for name in public_modules():
        module, found = importlib.import_module(name), {}
        exec(f"from {name} import *", found)
        del found["__builtins__"]
        assert set(found) == set(module.__all__)
        assert sorted(module.__all__) == module.__all__ and len(found) == len(module.__all__)


def test_public_names_are_documented():
    listed = {id(docs_test.resolve(entry)) for entry in docs_test.entries()}
    pages = "".join(page.read_text(encoding="utf-8") for page in docs_test.PAGES)
    missing = []
    for name in public_modules():
        module = importlib.import_module(name)
        for public in module.__all__:
            value = getattr(module, public)
            if inspect.isclass(value) or inspect.isfunction(value):
                documented = id(value) in listed
            else:  # a module or a constant
                documented = re.search(rf"\b{public}\b", pages)
            if not documented:
                missing.append(f"::: {name}.{public}")
    assert not missing, "add it to a page of docs/api"


def test_documented_names_are_public():
    for entry in docs_test.entries():
        package, _, name = entry.rpartition(".")
        module = PARENTS.get(package) or docs_test.resolve(package)
        assert name in module.__all__, f"{entry} is not in `__all__`"


def test_packages_bind_no_other_public_names():
    for path in PACKAGES:
        module = importlib.import_module(module_name(path))
        left_out = {"visualization"} if module is keras_xd else set()
        assert bound_names(tree(path)) - OWN <= {*module.__all__, *left_out}, path


def test_other_names_are_still_missing():
    assert not hasattr(keras_xd, "visualisation")
    assert set(dir(keras_xd)) >= {"visualization", "rewrite", "nearest_operation"}


def test_names_of_before_say_the_new_ones():
    modules = [importlib.import_module(module_name(path)) for path in PACKAGES]
    modules = [module for module in modules if hasattr(module, "_MOVED")]
    assert len(modules) == 12
    for module in modules:
        for old, new in module._MOVED.items():
            with pytest.raises(AttributeError, match=f"no attribute '{old}'; it is now "):
                getattr(module, old)
            if new.startswith(("keras_xd.", "tuner_integration.")):
                assert pydoc.locate(new) is not None, new
        assert not hasattr(module, "Conv4D")
