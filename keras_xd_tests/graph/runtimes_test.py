"""The formats by themselves: files and arguments; those of torch and JAX in their backends."""

import pytest


@pytest.mark.backends
@pytest.mark.parametrize(("backend", "suffix"), [("torch", "pt2"), ("jax", "stablehlo")])
def test_formats_of_other_backends(backend, suffix, on_backends):
    found = on_backends[backend]["formats"]
    assert {name: len(errors) for name, errors in found["errors"].items()} == {
        "spectrum": 2,
        "low rank": 1,
        "spectral": 1,
        "static": 1,
    }
    assert all(error < 1e-5 for errors in found["errors"].values() for error in errors)
    assert found["files"] == [f"m.{suffix}"]
    others = {"torch": {"stablehlo"}, "jax": {"torch", "litert"}}[backend]
    assert set(found["refused"]) == others
    for message in found["refused"].values():
        assert f"KERAS_BACKEND is set so. Received: backend='{backend}'" in message
