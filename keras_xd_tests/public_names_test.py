"""What is public, as `__all__` says, and what `import keras_xd` brings in a process of its own."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
import textwrap

import pytest

import keras_xd
import tuner_integration
from keras_xd_tests import docs_test
from keras_xd_tests.imports_test import MODULES, ROOT, module_name, tree

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


@pytest.mark.parametrize("name", public_modules())
def test_public_names_exist_and_are_imported_by_star(name):
    module, found = importlib.import_module(name), {}
    exec(f"from {name} import *", found)
    del found["__builtins__"]
    assert set(found) == set(module.__all__)
    assert sorted(module.__all__) == module.__all__ and len(found) == len(module.__all__)


@pytest.mark.parametrize("name", public_modules())
def test_public_names_are_documented(name):
    module = importlib.import_module(name)
    listed = {id(docs_test.resolve(entry)) for entry in docs_test.entries()}
    pages = "".join(page.read_text(encoding="utf-8") for page in docs_test.PAGES)
    for public in module.__all__:
        value = getattr(module, public)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert id(value) in listed, f"add `::: {name}.{public}` to a page of docs/api"
        else:  # a module or a constant
            assert re.search(rf"\b{public}\b", pages), f"no page names {name}.{public}"


def test_documented_names_are_public():
    for entry in docs_test.entries():
        package, _, name = entry.rpartition(".")
        module = PARENTS.get(package) or docs_test.resolve(package)
        assert name in module.__all__, f"{entry} is not in `__all__`"


@pytest.mark.parametrize("path", PACKAGES, ids=module_name)
def test_a_package_binds_no_other_public_names(path):
    module = importlib.import_module(module_name(path))
    left_out = {"visualization"} if module is keras_xd else set()
    assert bound_names(tree(path)) - OWN <= {*module.__all__, *left_out}


def test_the_reader_finds_names():
    text = """
        import a.b
        from c import d as e, _f
        if TYPE_CHECKING:
            import g
        elif True:
            (h, i), j = 1, [k for k in ()]
        else:
            def l():
                m = 1
        try:
            n: int = 1
        except ImportError:
            o = 1
        """
    assert bound_names(ast.parse(textwrap.dedent(text))) == set("aehijlno")


def run(program):
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_earlier_paths_are_found_and_pictures_alone_need_matplotlib():
    """In one process, which imports TensorFlow once."""
    printed = run(
        """
        import sys
        sys.modules["matplotlib"] = None  # as if it was not installed
        from keras_xd.genotypes import NOS_OPERATIONS
        from keras_xd.layers.rewritten import Rewritten
        import keras_xd.masks
        import keras_xd.layers.masked.masks
        print(Rewritten.__name__, keras_xd.masks is keras_xd.layers.masked.masks)
        print("keras_xd.visualization" in sys.modules, "visualization" in dir(keras_xd))
        try:
            keras_xd.visualization
        except ImportError as error:
            print(error)
        del sys.modules["matplotlib"]
        print(keras_xd.visualization.plot_operators.__name__, "matplotlib" in sys.modules)
        """
    )
    paths, first, error, last = printed.splitlines()
    assert paths.split() == ["Rewritten", "True"]
    assert first == "False True"
    assert "matplotlib" in error and "extra `plot`" in error and "keras_xd[plot]" in error
    assert last == "plot_operators True"


def test_grammars_do_without_keras_and_files_load_after_a_mere_import():
    """In one process: Keras is imported last, and finds the layers of files registered."""
    data = ROOT / "keras_xd_tests" / "data" / "version_0_1_0"
    printed = run(
        f"""
        import sys
        import keras_xd.grammar
        from keras_xd import grammar
        term = grammar.spaces.einspace().first()
        print(keras_xd.grammar.growth(grammar.spaces.einspace()) < 1, keras_xd.__version__)
        print("rewrite" in dir(keras_xd), hasattr(keras_xd, "rewrites"))
        print(sorted({{"keras", "numpy", "tensorflow"}} & set(sys.modules)))
        import keras
        model = keras.saving.load_model({str(data / "xd.keras")!r})
        search = keras.saving.load_model({str(data / "search.keras")!r})
        print(type(model.get_layer("conv")).__name__, isinstance(search, keras_xd.SearchModel))
        print(*(name for name in keras.saving.get_custom_objects() if name.startswith("keras_xd>")))
        """
    )
    first, names, loaded, classes, registered = printed.splitlines()
    assert first == f"True {keras_xd.__version__}" and names == "True False" and loaded == "[]"
    assert classes == "XDConv1D True"
    assert set(registered.split()) == {f"keras_xd>{name}" for name in decorated_names()}


def decorated_names():
    """Return the names of the package's classes and functions that are registered for saving."""
    for path in MODULES:
        for node in ast.walk(tree(path)):
            decorators = map(ast.unparse, getattr(node, "decorator_list", ()))
            if any("register_keras_serializable(package='keras_xd')" in d for d in decorators):
                yield node.name


@pytest.mark.parametrize(
    "program",
    [
        "from keras_xd.layers import XDConv2D",
        "import keras_xd; keras_xd.rewrite",
        "from keras_xd.layers.rewritten import Rewritten",
    ],
)
def test_whatever_is_imported_first_all_layers_are_registered(program):
    printed = run(
        f"""
        {program}
        import sys
        print(sum(name.startswith("keras_xd>") for name in
            sys.modules["keras"].saving.get_custom_objects()))
        """
    )
    assert int(printed) == len(set(decorated_names()))


def test_other_names_are_still_missing():
    assert not hasattr(keras_xd, "visualisation")
    assert set(dir(keras_xd)) >= {"visualization", "rewrite", "nearest"}
