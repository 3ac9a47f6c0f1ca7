"""Each operation alone, against its layer; whole cells are compared in `relaxed_cell_test`."""

import keras
import numpy as np
import pytest

from keras_xd import genotypes, layers
from keras_xd.layers.cells.edge_stack import EdgeStack
from keras_xd_tests.layer_checks import assert_close
from keras_xd_tests.layers.cells.cell_references import randomized

KINDS = {"spatial_attention": "spatial", "channel_attention": "channel"}


def layer_of(name, filters, strides):
    if name.startswith("dynamic"):
        return layers.DynamicKernel(int(name[-1]), affine=False)
    if name == "spatial_attention":
        return layers.SpatialAttention(strides, affine=False)
    if name == "channel_attention":
        return layers.ChannelAttention()
    return layers.FeatureOperation(filters, name, strides, affine=False)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("size, strides", [(5, 1), (6, 2), (5, 2)])
@pytest.mark.parametrize("name", genotypes.NOS_OPERATIONS)
def test_an_operation_equals_its_layer(name, size, strides, training, rng):
    filters, share = 4, 0.75
    stack = EdgeStack(filters, (name,), strides=[strides], nodes=[0, 0])
    stack.build()
    randomized(stack, rng)
    x = rng.standard_normal((3, size, size, filters)).astype("float32")
    layer = layer_of(name, filters, strides)
    layer.build((None, size, size, filters))
    stack.fill(layer, 1, name)
    node, of_node = stack.node_values(0, x, stack.node_weights(), training)
    shares = np.array([[0.5], [share]], "float32")
    made, of_edges = stack.outcomes(0, node, stack.edge_weights_by_node(), shares, training)
    made = made[1]
    kind = "kernel" if name.startswith("dynamic") else KINDS.get(name, "features")
    assert list(made) == [kind]
    keywords = {} if name == "channel_attention" else {"training": training}
    expected = share * keras.ops.convert_to_numpy(layer(x, **keywords))
    assert_close(keras.ops.convert_to_numpy(made[kind]), expected.astype("float32"), 2e-5)

    if not training:
        assert not of_node and not any(of_edges.values())
        return
    stack.update({0: of_node}, of_edges)
    after = layer_of(name, filters, strides)
    after.build((None, size, size, filters))
    stack.fill(after, 1, name)
    pairs = zip(after.non_trainable_variables, layer.non_trainable_variables, strict=True)
    for value, wanted in pairs:
        found, wanted = (keras.ops.convert_to_numpy(v) for v in (value, wanted))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_batch_of_one_place_is_normalised_to_zero(rng):
    """The variance is zero, not a negative number by rounding."""
    stack = EdgeStack(4, ("separable_3",), strides=[1], nodes=[0])
    stack.build()
    x = 1e3 + np.zeros((1, 1, 1, 4), "float32")
    node, _ = stack.node_values(0, x, stack.node_weights(), True)
    shares = np.ones((1, 1), "float32")
    made, found = stack.outcomes(0, node, stack.edge_weights_by_node(), shares, True)
    assert np.all(np.isfinite(keras.ops.convert_to_numpy(made[0]["features"])))
    assert np.min(keras.ops.convert_to_numpy(found[0]["moving_variance"])) >= 0
