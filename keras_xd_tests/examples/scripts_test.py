"""Every script below `examples` starts from the repository root, as its first lines say."""

import contextlib
import io
import os
import re
import runpy
import sys
from collections.abc import Iterable

import keras
import pytest

from keras_xd_tests.example_scripts import EXAMPLES

ROOT = EXAMPLES.parent
SCRIPTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(EXAMPLES.rglob("*.py"))
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
}


def loaded():
    """Return the names of the modules that come from `examples`."""
    names = []
    for name, module in list(sys.modules.items()):
        folders = getattr(module, "__path__", ())
        places = [getattr(module, "__file__", None)]
        places += folders if isinstance(folders, Iterable) else ()
        if name != "__main__" and any(str(place).startswith(str(EXAMPLES)) for place in places):
            names.append(name)
    return names


@pytest.fixture(scope="module")
def printed():
    """What each script prints and ends with, in this process: another one would load TensorFlow.

    What a script loads from `examples` is loaded anew, by the path of that script, and gone before
    the next one starts; afterwards there is what was there before.
    """
    found, registered = {}, keras.saving.get_custom_objects()
    kept, objects = {name: sys.modules.pop(name) for name in loaded()}, dict(registered)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        others = [place for place in sys.path if not place.startswith(str(EXAMPLES))]
        for script in SCRIPTS:
            patch.setattr(sys, "argv", [script, "--help"])
            patch.setattr(sys, "path", [os.path.dirname(script), str(ROOT), *others])
            with contextlib.redirect_stdout(io.StringIO()) as text:
                try:
                    runpy.run_path(script, run_name="__main__")
                except SystemExit as end:
                    found[script] = end.code, text.getvalue()
            for name in loaded():
                del sys.modules[name]
    sys.modules.update(kept)
    registered.update(objects)
    return found


def test_scripts_are_found():
    assert len(SCRIPTS) >= 20 and "examples/experiments/xd/cifar10.py" in SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_starts_by_its_path(script, printed):
    code, text = printed[script]
    assert code == 0 and text.startswith("usage:")


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_says_by_which_command_it_runs(script):
    commands = re.findall(r"^    python (\S+)", SCRIPTS[script], re.MULTILINE)
    assert commands and set(commands) == {script}
