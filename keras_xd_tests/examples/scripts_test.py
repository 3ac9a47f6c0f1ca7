"""Every script below `examples` starts from the repository root, as its first lines say."""

import json
import os
import re
import subprocess
import sys

import pytest

from keras_xd_tests.example_scripts import EXAMPLES

ROOT = EXAMPLES.parent
SCRIPTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(EXAMPLES.rglob("*.py"))
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
}

# One process for all scripts, because each would load TensorFlow by itself. What a script has put
# on the path, and what it has loaded from `examples`, is gone before the next one starts.
PROGRAM = """
import contextlib, io, json, os, runpy, sys

printed, before = {}, list(sys.path)
for script in sys.argv[1:]:
    sys.argv = [script, "--help"]
    sys.path[:] = [os.path.dirname(script), *before[1:]]
    known = set(sys.modules)
    with contextlib.redirect_stdout(io.StringIO()) as text:
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            printed[script] = [end.code, text.getvalue()]
    for name in set(sys.modules) - known:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(os.path.abspath("examples")):
            del sys.modules[name]
print("RESULT " + json.dumps(printed))
"""


@pytest.fixture(scope="module")
def printed():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *SCRIPTS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.rpartition("RESULT ")[2])


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
