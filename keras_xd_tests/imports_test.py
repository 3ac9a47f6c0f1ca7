"""The package's structure, read from its source without importing it.

Layers of the architecture, backends, private Keras attributes, forbidden constructs.
"""

import ast
import functools
import pathlib

import keras
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("keras_xd", "tuner_integration")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

# A module may import from itself and from what stands before it.
ORDER = (
    "keras_xd.core",
    "keras_xd.testing",
    "keras_xd.losses",
    "keras_xd.kmatrix",
    "keras_xd.graph",
    "keras_xd.layers.fourier",
    "keras_xd.layers.xd",
    "keras_xd.layers.k",
    "keras_xd.layers.structured",
    "keras_xd.layers.mixed",
    "keras_xd.layers.masked",
    "keras_xd.layers.ccnn",
    "keras_xd.layers.cells",
    "keras_xd.layers",
    "keras_xd.rewriting",
    "keras_xd.paper_settings",
    "keras_xd.recipes",
    "keras_xd.grammar",
    "keras_xd.visualization",
    "keras_xd.training",
    "keras_xd.finalizing",
    "keras_xd.one_call",
    "keras_xd.auto",
    "keras_xd.searching",
    "keras_xd.compressing",
    "keras_xd.rewriting.forecast",  # of all that makes another model of one
    "keras_xd.evaluation",
    "keras_xd.models",
    "keras_xd",
    "tuner_integration",
)
BACKENDS = {"tensorflow", "jax", "jaxlib", "torch", "tf_keras"}
MAY_IMPORT_BACKENDS = (
    "keras_xd.core.complex_products",
    "keras_xd.core.splitting",
    "keras_xd.core.tracing",
    "keras_xd.training",
    "keras_xd.graph.runtimes",
    "keras_xd.finalizing",
    "keras_xd.visualization",
    "keras_xd.testing",
)
FORBIDDEN_MODULES = {"pickle", "pdb", "dill", "cloudpickle"}
FORBIDDEN_NAMES = {"eval", "exec", "breakpoint", "NotImplementedError"}


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(path) for path in MODULES}


@functools.cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported_modules(syntax, package, known=frozenset(NAMES)):
    """Return `(line, module)` of every import, wherever in the file it stands.

    Args:
        syntax: the parsed file.
        package: name of the package that relative imports start from.
        known: the project's modules, to tell `from package import module` from a name in it.
    """
    found = []
    for node in ast.walk(syntax):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.append((node.lineno, full if full in known else base))
    return found


def imports(path):
    name = module_name(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return imported_modules(tree(path), package)


def rank(name):
    """Place of a module in `ORDER`, by the longest entry that it is or lies in."""
    fits = [entry for entry in ORDER if name == entry or name.startswith(f"{entry}.")]
    best = max(fits, key=len, default=None)
    if best is None or (best == "keras_xd" and name != "keras_xd"):
        raise ValueError(f"Give {name} a place in ORDER, as the architecture says.")
    return ORDER.index(best)


def violations(syntax, keras_private, own):
    """Return `(line, what)` of constructs that the package does without."""
    found = []
    for node in ast.walk(syntax):
        if isinstance(node, ast.Assert):
            found.append((node.lineno, "assert"))
        elif isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES:
            found.append((node.lineno, node.id))
        elif isinstance(node, ast.Attribute):
            private = node.attr.startswith("_") and not node.attr.endswith("__")
            on_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            foreign = not on_self and node.attr not in own
            if private and (node.attr in keras_private or foreign):
                found.append((node.lineno, f".{node.attr}"))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.name in keras_private:
                found.append((node.lineno, f"def {node.name}"))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value in keras_private:  # getattr(layer, "_inbound_nodes")
                found.append((node.lineno, repr(node.value)))
    return found


def own_private_names(syntax):
    """Private names that the file defines itself: functions, methods, attributes of `self`."""
    found = set()
    for node in ast.walk(syntax):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                found.add(node.attr)
    return {name for name in found if name.startswith("_")}


@functools.cache
def keras_private_names():
    """Private attributes of Keras' own layers, models, variables and optimizers."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(np.zeros((2, 2)), np.zeros((2, 1)), verbose=0)
    functional = keras.Model(model.inputs, model.outputs)
    layer = model.layers[0]
    things = [model, functional, layer, layer.kernel, model.optimizer, functional.output]
    things += [keras.Model(), keras.initializers.Zeros(), keras.callbacks.Callback()]
    names = {name for thing in things for name in dir(thing)}
    return frozenset(n for n in names if n.startswith("_") and not n.endswith("__"))


def all_imports():
    """Return `(place, module, imported module)` of every import of every module."""
    for path in MODULES:
        name = module_name(path)
        yield from (
            (f"{name}:{line} imports {other}", name, other) for line, other in imports(path)
        )


def test_imports_follow_the_order():
    own = [found for found in all_imports() if found[2].split(".")[0] in PACKAGES]
    assert not [place for place, _, other in own if other not in NAMES]
    assert not [place for place, name, other in own if rank(other) > rank(name)]


def test_no_import_cycles():
    graph = {
        module_name(path): {other for _, other in imports(path) if other in NAMES}
        for path in MODULES
    }
    finished, open_names = set(), []

    def visit(name):
        assert name not in open_names, f"cycle: {' > '.join([*open_names, name])}"
        if name not in finished:
            open_names.append(name)
            for other in graph[name] - {name}:
                visit(other)
            finished.add(open_names.pop())

    for name in graph:
        visit(name)


def test_backends_stay_in_their_places():
    found = []
    for place, name, other in all_imports():
        first = other.split(".")[0]
        if first in FORBIDDEN_MODULES:
            found.append(place)
        if first in BACKENDS and not name.startswith(MAY_IMPORT_BACKENDS):
            found.append(place)
    assert not found


def test_only_public_names_and_sound_constructs():
    found = {}
    for path in MODULES:
        syntax = tree(path)
        found[module_name(path)] = violations(
            syntax, keras_private_names(), own_private_names(syntax)
        )
    # It is for tests, whose assertions pytest explains.
    found["keras_xd.testing"] = [one for one in found["keras_xd.testing"] if one[1] != "assert"]
    assert not {name: each for name, each in found.items() if each}


@pytest.mark.parametrize(
    "source",
    [
        "assert x",
        "eval('1')",
        "raise NotImplementedError",
        "layer._inbound_nodes",
        "getattr(layer, '_inbound_nodes')",
        "self._layers = []",
        "other._secret",
        "def _flatten_layers(self): pass",
    ],
)
def test_the_check_finds(source):
    syntax = ast.parse(source)
    assert violations(syntax, keras_private_names(), own_private_names(syntax))
