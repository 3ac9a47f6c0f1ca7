"""Every code block of the public docstrings, the README and the guides runs as it stands."""

import importlib
import inspect
import pathlib
import re
import textwrap

import keras
import pytest

from keras_xd_tests.imports_test import MODULES, module_name

ROOT = pathlib.Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
BLOCK = re.compile(r"^([ ]*)```python\n(.*?)^\1```[ ]*$", re.MULTILINE | re.DOTALL)


def code_blocks(text):
    """Return the fenced Python blocks of a docstring or page, without their indentation."""
    return [textwrap.dedent(match.group(2)) for match in BLOCK.finditer(text)]


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
    return {f"{value.__module__}.{value.__qualname__}": value for value in objects}


OBJECTS = public_objects()


def needs_example(value):
    """All classes, and all functions but those on structured matrices and masks."""
    pure = value.__module__.startswith(("keras_xd.kmatrix", "keras_xd.masks"))
    return inspect.isclass(value) or not pure


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
    """Return one pytest parameter a code block, named by where it stands."""
    sources = {
        f"{name}": [block for text in documentation(value) for block in code_blocks(text)]
        for name, value in OBJECTS.items()
    }
    sources |= {
        str(path.relative_to(ROOT)): code_blocks(path.read_text(encoding="utf-8")) for path in PAGES
    }
    return [
        pytest.param(block, id=f"{source}-{index}")
        for source, blocks in sorted(sources.items())
        for index, block in enumerate(blocks)
    ]


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_public_objects_are_documented(name):
    value = OBJECTS[name]
    own = documentation(value)[0]
    assert own, f"{name} has no docstring"
    if needs_example(value):
        assert code_blocks(own), f"the docstring of {name} has no ```python example"


@pytest.mark.parametrize("code", snippets())
def test_code_block_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    policy = keras.config.dtype_policy()
    try:
        exec(compile(code, "<example>", "exec"), {"__name__": "__example__"})
    finally:
        keras.config.set_dtype_policy(policy)


def test_code_blocks_are_found():
    text = "Example:\n\n    ```python\n    a = 1\n    b = 2\n    ```\n\n```bash\nls\n```\n"
    assert code_blocks(text) == ["a = 1\nb = 2\n"]


def test_readme_shows_code():
    assert code_blocks((ROOT / "README.md").read_text(encoding="utf-8"))
