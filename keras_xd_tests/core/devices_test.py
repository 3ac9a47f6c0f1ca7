"""What is chosen by the kind of device computes the same."""

import numpy as np
import pytest
import tensorflow as tf

from keras_xd import layers
from keras_xd.core import devices
from keras_xd.kmatrix import product
from keras_xd.layers.xd import functional


def test_an_accelerator_gets_whole_tensors(monkeypatch):
    matrix = np.arange(6, dtype="float32").reshape(2, 3)
    assert len(functional.spectrum_pieces((1024,), 64, 64)) == 4
    halved = product.repeated(matrix, (3, 5))
    for module in (functional, product):
        monkeypatch.setattr(module.devices, "has_accelerator", lambda: True)
    assert functional.spectrum_pieces((1024,), 64, 64) == [1024]
    assert functional.spectrum_pieces((1024,), 64, 64, 2**21, 8) == [256] * 4  # of a file
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
