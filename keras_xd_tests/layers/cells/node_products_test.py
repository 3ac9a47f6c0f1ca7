import keras
import numpy as np
import pytest

from keras_xd.layers.cells import node_products
from keras_xd.layers.cells.edge import Edge
from keras_xd.testing import assert_close


def test_moments(rng):
    flat = rng.standard_normal((12, 3)).astype("float32")
    found = keras.ops.convert_to_numpy(node_products.moments(flat))
    assert_close(found, np.concatenate([flat.T @ flat, flat.sum(0, keepdims=True)]), 1e-5)


def test_features_are_normalised():
    scale, offset = node_products.scale_and_offset(np.array([2.0]), np.array([4.0]))
    np.testing.assert_allclose(np.array([6.0]) * scale + offset, (6 - 2) / 2, rtol=1e-5)


def test_one_tensor_is_not_joined():
    x = keras.ops.ones((2, 3))
    assert node_products.joined([x], 0) is x
    assert node_products.joined([x, x], 1).shape == (2, 6)


@pytest.mark.parametrize("size, strides, phases", [(4, 1, 4), (5, 1, 0), (6, 2, 1), (5, 2, 1)])
def test_phases_are_what_dilated_windows_read(size, strides, phases, rng):
    x = np.abs(rng.standard_normal((2, size, size, 3))).astype("float32")
    kernel = rng.standard_normal((3, 3, 3, 1)).astype("float32")
    values, statistics = node_products.node_values(Edge(3, strides, ("dilated_3",), True), x, {})
    assert not statistics and ("phases" in values) == (phases > 0)
    if phases:
        found = values["phases"]
        assert found.shape[0] == 2 * phases
        expected = keras.ops.depthwise_conv(x, kernel, 1, "same", "channels_last", (2, 2))
        expected = keras.ops.convert_to_numpy(expected)
        made = keras.ops.depthwise_conv(found, kernel, 1, "same", "channels_last")
        made = keras.ops.convert_to_numpy(made)
        # With strides it is the phase of the first window's place.
        first = 1 - size % 2 if strides > 1 else 0
        assert_close(made[:2], expected[:, first::2, first::2], 1e-5)
