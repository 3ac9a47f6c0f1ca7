"""The same search on TensorFlow, JAX and torch, each in a process of its own.

Run by `pytest -m backends`; needs the extra `backends`, without which these tests fail.
"""

import numpy as np
import pytest

from keras_xd_tests import programs

pytestmark = pytest.mark.backends
BACKENDS = ("tensorflow", "jax", "torch")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    return {name: programs.run("backend_program", folder, backend=name) for name in BACKENDS}


def assert_same_structure_and_close(actual, expected, **tolerances):
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for name, value in expected.items():
            assert_same_structure_and_close(actual[name], value, **tolerances)
    elif expected and isinstance(expected[0], list):
        for one, other in zip(actual, expected, strict=True):
            assert_same_structure_and_close(one, other, **tolerances)
    else:
        np.testing.assert_allclose(actual, expected, **tolerances)


@pytest.mark.parametrize("backend", BACKENDS)
def test_search_from_keras_to_keras(backend, results):
    assert results[backend]["backend"] == backend
    ours, theirs = results[backend]["search"], results["tensorflow"]["search"]
    assert ours["start"] < 1e-6
    assert ours["resumes"] and results[backend]["resumed"]
    assert ours["history"]["loss"][-1] < ours["history"]["loss"][0]
    np.testing.assert_allclose(ours["finalized"], ours["searched"], atol=1e-5)
    for name in ("history", "architecture", "searched", "finalized"):
        assert_same_structure_and_close(ours[name], theirs[name], rtol=1e-4, atol=1e-5)


def test_files_of_one_backend_are_read_by_the_others(results):
    for place, backend in enumerate(BACKENDS):
        saved = results[backend]["search"]["saved"]
        assert set(saved) == set(BACKENDS[: place + 1])
        for name in saved:
            expected = results[name]["search"]["saved"][name]
            np.testing.assert_allclose(saved[name], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_bilevel_modes(backend, results):
    ours, theirs = results[backend]["modes"], results["tensorflow"]["modes"]
    assert set(ours) == {"alternating", "first_order", "second_order"}
    assert_same_structure_and_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert ours["first_order"]["loss"] != ours["second_order"]["loss"]
    assert ours["first_order"]["variables"] != ours["alternating"]["variables"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_layers_equal_their_twins(backend, results):
    found = results[backend]["twins"]
    assert len(found) == 11
    for name, case in found.items():
        assert case["kinds"][0] == name.partition(",")[0]
        assert case["error"] < 1e-5, name
