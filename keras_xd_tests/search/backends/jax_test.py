"""Gradients and state on JAX, in a process of its own."""

import pytest

from keras_xd_tests import programs

pytestmark = pytest.mark.backends


def test_gradients_and_state():
    found = programs.run("search.backends.backend_module_program", backend="jax")
    assert found == {"loss": 9.0, "others": [6.0], "gradients": [6.0, 0.0], "state": [5.0, 3.0]}
