"""The formats by themselves: files and arguments; those of torch and JAX in their backends."""

import keras
import pytest

from keras_xd.graph import runtimes


def test_the_file_that_is_opened_comes_last():
    assert runtimes.written("a/m.xml", runtimes.FORMATS["openvino"]) == ["a/m.bin", "a/m.xml"]
    assert runtimes.written("a/m.onnx", runtimes.FORMATS["onnx"]) == ["a/m.onnx"]


def test_known_sizes_need_no_arguments():
    known = [keras.InputSpec(shape=(2, 3), dtype="float32")]
    unknown = [keras.InputSpec(shape=(None, 3), dtype="float32")]
    assert runtimes.keras_arguments("torch", known) == {}
    assert runtimes.keras_arguments("onnx", unknown) == {}


@pytest.mark.backends
@pytest.mark.parametrize(("backend", "suffix"), [("torch", "pt2"), ("jax", "stablehlo")])
def test_formats_of_other_backends(backend, suffix, on_backends):
    found = on_backends[backend]["formats"]
    assert {name: len(errors) for name, errors in found["errors"].items()} == {
        "spectrum": 2,
        "kernel": 1,
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
