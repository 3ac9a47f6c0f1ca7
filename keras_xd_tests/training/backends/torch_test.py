"""Gradients and state on torch."""

import pytest

pytestmark = pytest.mark.backends


def test_gradients_and_state(on_backends):
    found = on_backends["torch"]["module"]
    assert found == {"loss": 9.0, "others": [6.0], "gradients": [6.0, None], "state": [5.0, 3.0]}
