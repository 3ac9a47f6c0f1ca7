"""Every example of the public docstrings, the README and the guides runs as it stands.

Examples are fenced Python blocks, each run in a namespace of its own, or `>>>` sessions, whose
output is compared too.
"""

import dataclasses
import doctest
import importlib
import inspect
import pathlib
import re
import textwrap

import keras
import pytest

from keras_xd.rewriting import spaces
from keras_xd_tests.imports_test import MODULES, NAMES, module_name

ROOT = pathlib.Path(__file__).parent.parent
# Guides have a record of what they print: `docs_test` runs them, as notebooks.
GUIDES = {path.with_suffix(".md") for path in ROOT.glob("docs/*.json")}
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(set(ROOT.glob("docs/**/*.md")) - GUIDES)]
# Run by `serving_test`.
RUN_ELSEWHERE = {"docs/deploying.md-2"}
SHAPE = re.compile(r"(?:TensorShape|torch\.Size)\(\[([^\]]*)\]\)")
BLOCK = re.compile(r"^([ ]*)```python\n(.*?)^\1```[ ]*$", re.MULTILINE | re.DOTALL)


def code_blocks(text):
    """Return the fenced Python blocks of a docstring or page, without their indentation."""
    return [textwrap.dedent(match.group(2)) for match in BLOCK.finditer(text)]


def examples(text):
    """Return the code blocks and, as one more example, all `>>>` lines with their output."""
    blocks = [block for block in code_blocks(text) if ">>> " not in block]
    session = re.sub(r"^[ ]*```.*$", "", text, flags=re.MULTILINE)
    return blocks + ([session] if doctest.DocTestParser().get_examples(session) else [])


@pytest.fixture(autouse=True)
def search_spaces_of_the_package(monkeypatch):
    """An example's own search space ends with it."""
    monkeypatch.setattr(spaces, "SEARCH_SPACES", dict(spaces.SEARCH_SPACES))


class ShapesAsTuples(doctest.OutputChecker):
    """Takes the shapes that TensorFlow and torch print for the tuples that JAX prints."""

    def check_output(self, want, got, optionflags):
        return super().check_output(*map(shapes_as_tuples, (want, got)), optionflags)


def shapes_as_tuples(text):
    """Return a text with `(2, 3)` for `TensorShape([2, 3])` and `torch.Size([2, 3])`."""

    def as_tuple(match):
        sizes = match.group(1)
        return f"({sizes},)" if sizes and "," not in sizes else f"({sizes})"

    return SHAPE.sub(as_tuple, text)


def run_example(code, name):
    if ">>> " not in code:
        exec(compile(code, name, "exec"), {"__name__": "__example__"})
        return
    session = doctest.DocTestParser().get_doctest(code, {}, name, None, 0)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    report = []
    runner = doctest.DocTestRunner(ShapesAsTuples(), verbose=False, optionflags=flags)
    runner.run(session, out=report.append)
    assert not report, "".join(report)


def public_objects():
    """Return `{full name: class or function}` of what the package files (`__init__.py`) export.

    An object stands under the module that defines it, so that a name exported twice counts once.
    """
    packages = [importlib.import_module(module_name(p)) for p in MODULES if p.stem == "__init__"]
    objects = [
        value
        for package in packages
        for name, value in vars(package).items()
        if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value))
    ]
    # The package of this name can be called, by the function.
    objects.append(importlib.import_module("keras_xd.searching").search)
    return {f"{value.__module__}.{value.__qualname__}": value for value in objects}


OBJECTS = public_objects()


def internal_objects():
    """Return `{full name: class or function}` of all that modules define and do not export.

    The modules of the other backends are left out, as they cannot be imported.
    """
    others = {"tensorflow", "jax", "torch"} - {keras.backend.backend()}
    paths = [path for path in MODULES if path.stem not in {"__init__", *others}]
    modules = [importlib.import_module(module_name(path)) for path in paths]
    objects = {
        f"{module.__name__}.{value.__qualname__}": value
        for module in modules
        for value in vars(module).values()
        if (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    }
    return {name: value for name, value in objects.items() if name not in OBJECTS}


def needs_example(value):
    """All classes but plain records and those of one rank, functions but on matrices and masks."""
    if (value.__doc__ or "").startswith("As `"):
        return False
    if inspect.isclass(value):
        return not (dataclasses.is_dataclass(value) or hasattr(value, "_fields"))
    return not value.__module__.startswith(("keras_xd.kmatrix", "keras_xd.layers.masked.masks"))


def documentation(value):
    """Docstring of an object itself (`__doc__` is not inherited), then those of its methods."""
    texts = [value.__doc__ or ""]
    if inspect.isclass(value):
        for member in vars(value).values():
            member = member.fget if isinstance(member, property) else member
            member = getattr(member, "__func__", member)
            if inspect.isfunction(member):
                texts.append(member.__doc__ or "")
    return [inspect.cleandoc(text) for text in texts]


def snippets():
    """Return a pytest parameter for each module and page with examples: `[(name, example), …]`."""
    sources = {
        f"{name}": [block for text in documentation(value) for block in examples(text)]
        for name, value in (OBJECTS | internal_objects()).items()
    }
    sources |= {
        str(path.relative_to(ROOT)): examples(path.read_text(encoding="utf-8")) for path in PAGES
    }
    found = {
        f"{source}-{index}": block
        for source, blocks in sorted(sources.items(), reverse=True)
        for index, block in enumerate(blocks)
    }
    assert RUN_ELSEWHERE <= set(found) and "warmup" in found["docs/deploying.md-2"]
    # What is documented twice runs once.
    once = {block: name for name, block in found.items() if name not in RUN_ELSEWHERE}
    groups = {}
    for block, name in reversed(once.items()):
        groups.setdefault(module_or_page(name), []).append((name, block))
    return [pytest.param(blocks, id=place) for place, blocks in groups.items()]


def module_or_page(name):
    """Return the module or page that an example stands in: examples of it are one test."""
    if name.partition(".md")[1]:
        return name.rpartition("-")[0]
    return max((module for module in NAMES if name.startswith(f"{module}.")), key=len)


def test_public_objects_are_documented():
    texts = {name: documentation(value)[0] for name, value in OBJECTS.items()}
    assert not [name for name, text in texts.items() if not text]
    needed = [name for name in OBJECTS if needs_example(OBJECTS[name])]
    assert not [name for name in needed if not examples(texts[name])]


@pytest.mark.parametrize("blocks", snippets())
def test_examples_run(blocks, tmp_path, monkeypatch):
    policy = keras.config.dtype_policy()
    for number, (name, code) in enumerate(blocks):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        keras.utils.set_random_seed(20)
        try:
            run_example(code, name)
        finally:
            keras.config.set_dtype_policy(policy)


@pytest.mark.parametrize("code", ["1 / 0\n", ">>> 1 / 0\n", ">>> 1 + 1\n3\n"])
def test_failing_examples_fail(code):
    with pytest.raises((ZeroDivisionError, AssertionError)):
        run_example(code, "example")


def test_shapes_of_all_backends_are_equal():
    for text in ("TensorShape([2, 3])", "torch.Size([2, 3])", "(2, 3)"):
        assert shapes_as_tuples(text) == "(2, 3)"
    assert shapes_as_tuples("[TensorShape([2]), torch.Size([])]") == "[(2,), ()]"
    run_example(">>> 'TensorShape([2, 3])'\n'(2, 3)'\n", "example")
    with pytest.raises(AssertionError):
        run_example(">>> 'TensorShape([2, 4])'\n'(2, 3)'\n", "example")


def test_readme_shows_code():
    assert code_blocks((ROOT / "README.md").read_text(encoding="utf-8"))
