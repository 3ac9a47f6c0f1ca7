"""Skips that are counted, with their reasons: real data, other backends."""

import argparse
import fcntl
import importlib.util
import json
import pathlib
import sys
import types

import pytest

from keras_xd_tests import conftest


def test_missing_variable_and_file_are_named(monkeypatch, tmp_path):
    monkeypatch.delenv("KERAS_XD_DATA_DIR", raising=False)
    assert "set KERAS_XD_DATA_DIR" in conftest._missing_data("KERAS_XD_DATA_DIR", "a.npz")
    monkeypatch.setenv("KERAS_XD_DATA_DIR", str(tmp_path))
    assert "does not exist" in conftest._missing_data("KERAS_XD_DATA_DIR", "a.npz")
    (tmp_path / "a.npz").touch()
    assert conftest._missing_data("KERAS_XD_DATA_DIR", "a.npz") is None


class Config:
    """Of pytest, with one option and what it left out."""

    def __init__(self, part):
        self.part, self.hook = part, self

    def getoption(self, name):
        assert name == "--part"
        return self.part

    def pytest_deselected(self, items):
        self.deselected = items


def test_every_file_is_in_one_of_the_parts():
    files = sorted(conftest.TESTS.glob("**/*_test.py"))
    items = [types.SimpleNamespace(nodeid=str(path), path=path) for path in files]
    found = []
    for part in (1, 2, 3, 4):
        config, kept = Config(conftest._part(f"{part}/4")), list(items)
        conftest.pytest_collection_modifyitems(config, kept)
        assert len(kept) + len(config.deselected) == len(files)
        assert len(files) / 6 < len(kept) < len(files) / 3
        found += [item.path for item in kept]
    assert sorted(found) == files


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/0", "1/4/2", "-1/4", "a/b"])
def test_a_part_that_is_none_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match=f"1 ≤ K ≤ N. Received: '{text}'"):
        conftest._part(text)


def test_what_a_backend_cannot_run_is_skipped_by_name(monkeypatch):
    listed = {"layers/a_test.py::test_one": "all cases", "layers/a_test.py::test_two[3-x]": "one"}
    monkeypatch.setattr(conftest, "_unsupported", {"torch": listed}.get)
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    found = {}

    def item(name):
        path = conftest.TESTS / name.partition("::")[0]
        note = found.setdefault(name, []).append
        return types.SimpleNamespace(nodeid=f"keras_xd_tests/{name}", path=path, add_marker=note)

    names = [f"layers/a_test.py::test_{case}" for case in ("one", "one[2]", "two[3-x]", "two[3-y]")]
    conftest.pytest_collection_modifyitems(
        Config(None), [item(name) for name in [*names, "examples/b_test.py::c"]]
    )
    reasons = {name: [mark.kwargs["reason"] for mark in marks] for name, marks in found.items()}
    alone = ["not on torch: all cases"]
    assert [reasons[name] for name in names] == [alone, alone, ["not on torch: one"], []]
    assert not reasons["examples/b_test.py::c"]


def test_what_a_backend_cannot_run_is_there():
    text = (conftest.TESTS / "data" / "unsupported.json").read_text(encoding="utf-8")
    assert set(json.loads(text)) <= {"jax", "torch"}
    for backend, reasons in json.loads(text).items():
        names = [name for listed in reasons.values() for name in listed]
        assert len(names) == len(set(names)) == len(conftest._unsupported(backend))
        for name in names:
            file, _, case = name.partition("::")
            function = case.partition("[")[0].partition("::")[0]
            source = (conftest.TESTS / file).read_text(encoding="utf-8")
            assert f"def {function}(" in source, name


@pytest.mark.parametrize(
    ("options", "loaded"),
    [
        ({"dist": "worksteal"}, []),
        ({"dist": "worksteal", "collectonly": True}, ["keras_xd_tests.backend_settings"]),
        ({"dist": "no"}, ["keras_xd_tests.backend_settings"]),
        ({}, ["keras_xd_tests.backend_settings"]),
    ],
)
def test_a_process_that_hands_out_tests_has_no_backend(options, loaded):
    found = []
    config = types.SimpleNamespace(
        getoption=options.get,
        option=types.SimpleNamespace(collectonly=options.get("collectonly", False)),
        pluginmanager=types.SimpleNamespace(import_plugin=found.append),
    )
    conftest.pytest_configure(config)
    assert found == loaded


def test_the_first_worker_compiles_alone(tmp_path, monkeypatch):
    def worker(name):
        return types.SimpleNamespace(
            getoption=lambda name, default: default,
            option=types.SimpleNamespace(collectonly=False, basetemp=tmp_path / name),
            pluginmanager=types.SimpleNamespace(import_plugin=lambda name: None),
            workerinput={},
            stash={},
        )

    first, second = worker("gw0"), worker("gw1")
    monkeypatch.setattr(conftest, "_is_compiled", lambda: False)
    conftest.pytest_configure(first)
    with open(tmp_path / "first_worker.lock", "w", encoding="utf-8") as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    conftest.pytest_collection_finish(types.SimpleNamespace(config=first))
    conftest.pytest_configure(second)
    monkeypatch.setattr(conftest, "_is_compiled", lambda: True)
    compiled = worker("gw2")
    conftest.pytest_configure(compiled)
    assert not compiled.stash
    conftest.pytest_collection_finish(types.SimpleNamespace(config=compiled))
    conftest.pytest_collection_finish(types.SimpleNamespace(config=second))


def test_what_has_been_compiled(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    assert not conftest._is_compiled()
    # pytest collects folders and files by name.
    last = max(conftest.TESTS.rglob("*_test.py"))
    path = pathlib.Path(importlib.util.cache_from_source(str(last)))
    path.parent.mkdir(parents=True)
    path.touch()
    assert not conftest._is_compiled()  # as `python -m compileall` would
    path.with_name(f"{last.stem}.{sys.implementation.cache_tag}-pytest-9.0.0.pyc").touch()
    assert conftest._is_compiled()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "other"))
    assert conftest._is_compiled()
