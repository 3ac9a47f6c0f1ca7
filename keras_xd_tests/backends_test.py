"""The same search on TensorFlow, JAX and torch.

Run by `pytest -m backends`; needs the extra `backends`, without which these tests fail.
"""

import numpy as np
import pytest

from keras_xd_tests.programs import BACKENDS

pytestmark = pytest.mark.backends


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
def test_search_from_keras_to_keras(backend, on_backends):
    assert on_backends[backend]["backend"] == backend
    ours, theirs = on_backends[backend]["search"], on_backends["tensorflow"]["search"]
    assert ours["start"] < 1e-6
    assert ours["resumes"] and on_backends[backend]["resumed"]
    assert ours["history"]["loss"][-1] < ours["history"]["loss"][0]
    np.testing.assert_allclose(ours["finalized"], ours["searched"], atol=1e-5)
    for name in ("history", "architecture", "searched", "finalized"):
        assert_same_structure_and_close(ours[name], theirs[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_files_of_one_backend_are_read_by_the_others(backend, on_backends):
    saved = {name: found["saved"][backend] for name, found in on_backends.items()}
    assert set(saved) == set(BACKENDS) and np.std(saved[backend]) > 0
    for name, values in saved.items():
        np.testing.assert_allclose(values, saved[backend], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_bilevel_modes(backend, on_backends):
    ours, theirs = on_backends[backend]["modes"], on_backends["tensorflow"]["modes"]
    assert set(ours) == {"alternating", "first_order", "second_order"}
    assert_same_structure_and_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert ours["first_order"]["loss"] != ours["second_order"]["loss"]
    assert ours["first_order"]["variables"] != ours["alternating"]["variables"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_layers_equal_their_twins(backend, on_backends):
    found = on_backends[backend]["twins"]
    assert len(found) == 8
    for name, case in found.items():
        assert case["kinds"][0] == name.partition(",")[0]
        assert case["error"] < 1e-5, name
