"""Gradients and state on JAX."""

import pytest

pytestmark = pytest.mark.backends


def test_gradients_and_state(on_backends):
    found = on_backends["jax"]["module"]
    assert found == {"loss": 9.0, "others": [6.0], "gradients": [6.0, 0.0], "state": [5.0, 3.0]}
