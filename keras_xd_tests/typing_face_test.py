"""mypy passes a program that uses the public names, and finds every mistake put into it."""

import inspect
import pathlib
import re
import subprocess
import sys
import typing

import keras_xd

ROOT = pathlib.Path(__file__).parent.parent
FACE = ROOT / "keras_xd_tests" / "typing_face.py"
MISTAKE = re.compile(r"# wrong: ")


def mypy(path):
    """Return the exit status of mypy on a file, and what it printed.

    What it knows of the package from an earlier run is taken over.
    """
    command = [sys.executable, "-m", "mypy", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_public_names_are_typed():
    status, printed = mypy(FACE)
    assert status == 0, printed


def test_mistakes_are_found(tmp_path):
    text = FACE.read_text(encoding="utf-8")
    lines = {n for n, line in enumerate(text.splitlines(), start=1) if MISTAKE.search(line)}
    assert len(lines) > 15
    changed = tmp_path / "mistakes.py"
    changed.write_text(MISTAKE.sub("", text), encoding="utf-8")
    status, printed = mypy(changed)
    found = {int(n) for n in re.findall(r"mistakes\.py:(\d+): error", printed)}
    assert status == 1 and found == lines, printed


def test_options_do_not_repeat_arguments():
    """A name in both would make mypy take every option, without a word about it."""
    layers = [value for value in vars(keras_xd.layers).values() if inspect.isclass(value)]
    constructors = {vars(base).get("__init__") for layer in layers for base in layer.__mro__}
    found = 0
    for constructor in constructors - {None}:
        hints = getattr(constructor, "__annotations__", {})
        if typing.get_origin(hints.get("kwargs")) is typing.Unpack:
            (options,) = typing.get_args(hints["kwargs"])
            names = set(inspect.signature(constructor).parameters)
            assert not names & set(typing.get_type_hints(options)), constructor
            found += 1
    assert found > 30
