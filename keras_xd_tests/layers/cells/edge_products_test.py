"""Each operation alone, against its layer; whole cells are compared in `relaxed_cell_test`.

Those with other strides in training and in inference are in `chosen_operation_test`.
"""

import keras
import numpy as np
import pytest

from keras_xd import genotypes, layers
from keras_xd.layers.cells import edge_stack
from keras_xd.layers.cells.edge_stack import EdgeStack
from keras_xd.testing import assert_close
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


@pytest.mark.parametrize("size, strides, training", [(5, 1, True), (5, 2, False)])
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
    weights = stack.group_weights([(0, 1)])[0, 1]
    made, of_edges = stack.outcomes((0, 1), node, weights, shares, training)
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
    weights = stack.group_weights([(0,)])[0,]
    made, found = stack.outcomes((0,), node, weights, shares, True)
    assert np.all(np.isfinite(keras.ops.convert_to_numpy(made[0]["features"])))
    assert np.min(keras.ops.convert_to_numpy(found[0]["moving_variance"])) >= 0


@pytest.mark.parametrize(
    "size, strides, training, dtype",
    [  # Any two of them in all combinations.
        (6, 1, False, "float32"),
        (6, 1, True, "float64"),
        (5, 1, False, "float64"),
        (5, 2, True, "float32"),
        (5, 2, False, "float64"),
    ],
)
def test_edges_together_equal_edges_alone(size, strides, training, dtype, rng):
    if dtype == "float64" and keras.backend.backend() == "torch":
        pytest.skip("separable operations get float32 inputs for float64 weights on torch")
    filters, names = 4, genotypes.NOS_OPERATIONS
    stack = EdgeStack(filters, names, strides=[strides, 1], nodes=[0, 1, 0, 0], dtype=dtype)
    stack.build()
    randomized(stack, rng)
    x = keras.ops.convert_to_tensor(rng.standard_normal((3, size, size, filters)), dtype)
    node, _ = stack.node_values(0, x, stack.node_weights(), training)
    shares = rng.random((4, len(names))).astype("float32")
    group, every = (0, 2, 3), [(0, 2, 3), (0,), (1,), (2,), (3,)]
    rows, weights = stack.grouped(keras.ops.convert_to_tensor(shares), every), {}
    for one in every:
        weights |= stack.group_weights([one])
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(rows[group]), shares[[0, 2, 3]])
    made, moved = stack.outcomes(group, node, weights[group], rows[group], training)
    assert list(made) == list(moved) == list(group)
    for number in group:
        one = (number,)
        alone, alone_moved = stack.outcomes(one, node, weights[one], rows[one], training)
        for found, expected in ((made, alone), (moved, alone_moved)):
            assert list(found[number]) == list(expected[number])
            for kind, value in found[number].items():
                wanted = keras.ops.convert_to_numpy(expected[number][kind])
                assert_close(keras.ops.convert_to_numpy(value), wanted, 2e-5)


@pytest.mark.parametrize(
    "training, names",
    [
        (False, ("dilated_3", "spatial_attention", "channel_attention", "identity")),
        (True, ("separable_3", "dynamic_3")),
    ],
)
def test_cells_have_the_same_gradients_either_way(training, names, monkeypatch, rng):
    """Those of edges computed together against edges computed alone."""
    if keras.backend.backend() != "tensorflow":
        pytest.skip("gradients are taken by TensorFlow")
    import tensorflow as tf

    def of_cell(alone):
        monkeypatch.setattr(edge_stack, "calls_traced_functions", lambda: alone)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(cell([x, x], training=training) ** 2)
        return loss, tape.gradient(loss, cell.trainable_variables)

    keras.utils.set_random_seed(1)
    cell = layers.HeterogeneousCell(4, layers.CellArchitecture(operations=names, seed=1))
    x = tf.constant(rng.standard_normal((2, 4, 4, 4)).astype("float32"))
    cell.build([(2, 4, 4, 4)] * 2)
    values = [of_cell(alone) for alone in (True, False)]
    for found, wanted in zip(*(tf.nest.flatten(value) for value in values), strict=True):
        assert_close(np.array(found), np.array(wanted), 1e-4)
