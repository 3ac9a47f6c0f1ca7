"""Gradients and state on torch, in a process of its own."""

import pytest

from keras_xd_tests import programs

pytestmark = pytest.mark.backends


def test_gradients_and_state():
    found = programs.run("search.backends.backend_module_program", backend="torch")
    assert found == {"loss": 9.0, "others": [6.0], "gradients": [6.0, None], "state": [5.0, 3.0]}
