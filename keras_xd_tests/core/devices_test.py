"""What is chosen by the kind of device computes the same."""

import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd import layers
from keras_xd.core import devices
from keras_xd.kmatrix import product
from keras_xd.layers.xd import functional


def asked(monkeypatch, backend, **modules):
    """Return the answer of a backend whose modules are replaced."""
    monkeypatch.setattr(keras.backend, "backend", lambda: backend)
    for name, content in modules.items():
        monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(**content))
    return devices.has_accelerator.__wrapped__()


@pytest.mark.parametrize(
    ("kinds", "found"), [(["CPU"], False), (["CPU", "GPU"], True), (["CPU", "TPU"], True)]
)
def test_devices_of_tensorflow(kinds, found, monkeypatch):
    seen = [types.SimpleNamespace(device_type=kind) for kind in kinds]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda: seen)
    assert asked(monkeypatch, "tensorflow") == found


@pytest.mark.parametrize(("kind", "found"), [("cpu", False), ("gpu", True), ("tpu", True)])
def test_devices_of_jax(kind, found, monkeypatch):
    assert asked(monkeypatch, "jax", jax={"default_backend": lambda: kind}) == found


@pytest.mark.parametrize("cuda", [False, True])
@pytest.mark.parametrize("mps", [False, True])
def test_devices_of_torch(cuda, mps, monkeypatch):
    def there(found):
        return types.SimpleNamespace(is_available=lambda: found)

    backends = types.SimpleNamespace(mps=there(mps))
    torch = {"cuda": there(cuda), "backends": backends}
    assert asked(monkeypatch, "torch", torch=torch) == (cuda or mps)


def test_another_backend_has_none(monkeypatch):
    assert asked(monkeypatch, "numpy") is False


def test_an_accelerator_gets_whole_tensors(monkeypatch):
    matrix = np.arange(6, dtype="float32").reshape(2, 3)
    assert len(functional.spectrum_pieces((1024,), 64, 64)) == 4
    halved = product.repeated(matrix, (3, 5))
    for module in (functional, product):
        monkeypatch.setattr(module.devices, "has_accelerator", lambda: True)
    assert functional.spectrum_pieces((1024,), 64, 64) == [1024]
    assert functional.spectrum_pieces((1024,), 64, 64, 2**21, 8) == [256] * 4  # of a file
    monkeypatch.setattr(product.ops, "concatenate", None)  # what joins the halves
    np.testing.assert_array_equal(product.repeated(matrix, (3, 5)), halved)
    np.testing.assert_array_equal(halved, np.broadcast_to(matrix, (3, 5, 2, 3)))


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize(
    ("layer_class", "shape"), [(layers.XDConv1D, (2, 12, 3)), (layers.XDConv2D, (2, 6, 5, 3))]
)
def test_operations_are_the_same_either_way(layer_class, shape, depth, rng, monkeypatch):
    monkeypatch.setattr(functional, "LARGEST_PIECE", 64)
    x = tf.constant(rng.normal(size=shape).astype("float32"))
    layer = layer_class(4, 3, padding="same", depth=depth)
    layer.build(shape)

    def outputs_and_gradients():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
            loss = tf.reduce_sum(y**3)
        return [y, *tape.gradient(loss, [x, *(w.value for w in layer.trainable_weights)])]

    expected, stored = outputs_and_gradients(), layer.finalize()
    monkeypatch.setattr(devices, "has_accelerator", lambda: True)
    for actual, other in zip(outputs_and_gradients(), expected, strict=True):
        scale = np.abs(other).max()
        np.testing.assert_allclose(actual, other, atol=1e-5 * scale)
    # A file keeps the pieces of the device that it was made on.
    whole = layer.finalize()
    assert len(stored.spectrum) > len(whole.spectrum) == 1
    for static in (stored, whole):
        np.testing.assert_allclose(static(x), expected[0], atol=1e-5)
