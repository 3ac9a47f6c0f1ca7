"""Skips that are counted, with their reasons: real data, other backends. Seeds of all tests."""

import argparse
import json
import random
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

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
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
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


def drawn():
    """What the generators give next: of Python, NumPy and TensorFlow."""
    shuffled = tf.data.Dataset.range(50).shuffle(50).as_numpy_iterator()
    return random.random(), np.random.rand(), [int(number) for number in shuffled]


class Seen(keras.Model):
    """Notes the samples in the order in which it gets them."""

    def __init__(self):
        super().__init__()
        self.order, self.dense = [], keras.layers.Dense(1)

    def call(self, inputs):
        self.order.append(int(inputs[0, 0]))
        return self.dense(inputs)


def fitted_order():
    model, samples = Seen(), np.arange(12.0)[:, None]
    model.compile(loss="mse", run_eagerly=True)
    model.fit(samples, samples, batch_size=1, verbose=0)
    return model.order


def test_every_test_begins_with_the_same_seeds():
    first = drawn()
    keras.utils.set_random_seed(20)
    assert drawn() == first


def test_the_order_of_a_fit_is_seeded():
    first = fitted_order()
    keras.utils.set_random_seed(20)
    assert fitted_order() == first != sorted(first)


def test_other_seeds_are_kept():
    keras.utils.set_random_seed(3)
    first = fitted_order(), drawn()
    tf.random.set_seed(3)
    random.seed(3)
    np.random.seed(3)
    assert (fitted_order(), drawn()) == first
    keras.utils.set_random_seed(20)
    assert fitted_order() != first[0]
