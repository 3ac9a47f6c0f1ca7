"""The list of mutations, what was found of them, and the runner on a small package."""

import collections
import json
import os
import pathlib
import subprocess
import sys

from keras_xd_tests.example_scripts import BENCHMARKS, load

mutants = load("mutants", BENCHMARKS)

MUTATIONS = json.loads((BENCHMARKS / "mutants.json").read_text(encoding="utf-8"))
LEAST_KILLED = 0.97

SOURCE = "def half(x):\n    return x // 2\n\n\ndef last(items):\n    return items[-1]\n"
TESTS = """
from small import half, last

def test_half():
    assert half(4) == 2

def test_last():
    assert last([7]) == 7
"""


def fits(mutation):
    """Return whether a mutation stands in its file once, compiles and names tests that exist."""
    text = (mutants.ROOT / mutation["file"]).read_text(encoding="utf-8")
    changed = mutants.mutated(text, mutation)
    if changed in (None, text):
        return False
    compile(changed, mutation["file"], "exec")
    tests = [mutants.ROOT / test for test in mutation["tests"]]
    return bool(tests) and all(test.exists() for test in tests)


def test_mutations_fit_the_tree():
    assert not [mutation["name"] for mutation in MUTATIONS if not fits(mutation)]


def test_there_are_many_mutations_of_all_parts():
    assert len(MUTATIONS) >= 100
    names = [mutation["name"] for mutation in MUTATIONS]
    assert len(set(names)) == len(names)
    changes = {(mutation["file"], mutation["old"], mutation["new"]) for mutation in MUTATIONS}
    assert len(changes) == len(MUTATIONS)
    parts = {str(pathlib.PurePath(mutation["file"]).parent) for mutation in MUTATIONS}
    layers = ("xd", "k", "fourier", "masked", "ccnn", "cells", "structured")
    others = ("kmatrix", "training", "rewriting", "finalizing", "graph", "evaluation", "grammar")
    wanted = {f"keras_xd/layers/{name}" for name in layers} | {f"keras_xd/{n}" for n in others}
    assert wanted | {"tuner_integration"} <= parts


def test_nearly_all_are_killed_and_the_others_explained():
    known = json.loads((BENCHMARKS / mutants.FOUND).read_text(encoding="utf-8"))["found"]
    assert known.keys() == {mutation["name"] for mutation in MUTATIONS}
    for mutation in MUTATIONS:
        found = known[mutation["name"]]
        assert found["of"] == mutants.digest(mutation), mutation["name"]
        survives = found["result"] == mutants.SURVIVED and mutation.get("explained")
        assert found["result"] == mutants.KILLED or survives, mutation["name"]
    counts = collections.Counter(found["result"] for found in known.values())
    assert counts[mutants.KILLED] >= LEAST_KILLED * len(MUTATIONS)


# As a loop without an end does, but without using the processor.
WAIT = "while True: __import__('time').sleep(9); x"


def mutation(name, old, new, **more):
    entry = {"name": name, "file": "small.py", "old": old, "new": new, "meaning": f"the {name}"}
    return {**entry, "tests": ["small_test.py"], **more}


def run(folder, *words):
    """Run the runner on the tree `folder / "tree"`; return what it keeps and what it prints."""
    command = [sys.executable, str(BENCHMARKS / "mutants.py"), "--tree", str(folder / "tree")]
    command += ["--mutations", str(folder / "mutants.json"), "--imported", "pytest", *words]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    kept = folder / mutants.FOUND
    return json.loads(kept.read_text()) if kept.exists() else None, done.stdout


def test_the_runner_tells_what_tests_kill(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "small.py").write_text(SOURCE)
    (tmp_path / "tree" / "small_test.py").write_text(TESTS)
    (tmp_path / "tree" / "broken_test.py").write_text("def test_broken():\n    assert False\n")
    mutations = [
        mutation("half", "x // 2", "x // 3"),
        mutation("last", "items[-1]", "items[0]", explained="the list has one item"),
        mutation("syntax", "return x", "return ="),
        mutation("loop", "return x", WAIT, tests=["small_test.py"]),
        mutation("twice", "return", "yield"),
        mutation("one-test", "x // 2", "x // 3", select="last"),
        mutation("broken", "items[-1]", "items[0]", tests=["broken_test.py"]),
    ]
    (tmp_path / "mutants.json").write_text(json.dumps(mutations))

    _, printed = run(tmp_path, "--only", "half", "--dry-run")
    assert "1/1 half: killed small_test.py::test_half" in printed
    assert not (tmp_path / mutants.FOUND).exists()

    kept, printed = run(tmp_path, "--limit", "8")
    results = {name: found["result"] for name, found in kept["found"].items()}
    assert results == {
        "half": "killed",
        "last": "survived",
        "syntax": "killed",
        "loop": "killed",
        "twice": "could not be applied",
        "one-test": "survived",
        "broken": "was not judged",
    }
    by = {name: found["by"] for name, found in kept["found"].items()}
    assert by["half"] == "small_test.py::test_half" and by["syntax"] == "small_test.py"
    assert by["loop"] == "more than 8 s"
    assert (tmp_path / "tree" / "small.py").read_text() == SOURCE
    assert "7 mutations: 3 killed, 2 survived" in printed
    assert "small.py: the last: survived, the list has one item\n" in printed

    # What is known is not judged again; a mutation that was changed is.
    mutations[0]["new"] = "x // 1"
    (tmp_path / "mutants.json").write_text(json.dumps(mutations))
    assert "half: the half (not judged yet)" in run(tmp_path, "--list")[1]
    _, printed = run(tmp_path)
    assert printed.splitlines()[0].startswith("1/1 half: killed") and "2/" not in printed
