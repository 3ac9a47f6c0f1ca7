"""A chosen operation on an edge against the layer of that operation."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd import layers
from keras_xd.layers.cells.chosen_operation import chosen_outcome, combined_chosen
from keras_xd.layers.cells.edge import Edge
from keras_xd.layers.cells.edge_stack import EdgeStack
from keras_xd.layers.cells.operator_cell import combined
from keras_xd.testing import assert_close
from keras_xd_tests.layers.cells.cell_references import randomized

NAMES = layers.NOS_OPERATIONS
KINDS = {"spatial_attention": "spatial", "channel_attention": "channel"}


def kind_of(name):
    return KINDS.get(name, "kernel" if name.startswith("dynamic") else "features")


def weights_of(stack):
    return {**stack.edge_weights()[0], **stack.node_weights()[0]}


@pytest.mark.parametrize("strides, training", [(1, False), (2, True)])
def test_every_operation_is_that_of_its_layer(strides, training, rng):
    """Outcomes times the weight, their gradients, and the statistics; zeros of other kinds.

    Searches by a single path, in `drawn_cells_test`, train them by one graph of all branches.
    """
    stack = EdgeStack(4, NAMES, [strides], [0])
    stack.build()
    randomized(stack, rng, 0.3)
    weights, edge = weights_of(stack), Edge(4, strides, NAMES, training)
    x = tf.constant(rng.standard_normal((3, 6, 6, 4)), "float32")
    cell = layers.HeterogeneousCell(4, layers.CellArchitecture())
    learned = [key for key in weights if "moving" not in key]

    def choose(number):
        share = tf.constant(0.7)
        with tf.GradientTape() as tape:
            tape.watch([x, share, weights])
            made, moved = chosen_outcome(edge, x, weights, number, share)
            loss = sum(tf.reduce_sum(tf.sin(3 * y)) for y in made.values())
        watched = [x, share, *(weights[key] for key in learned)]
        return made, moved, tape.gradient(loss, watched, unconnected_gradients="zero")

    for number, name in enumerate(NAMES):
        layer = cell.make_operation(name, strides, name)
        layer.build(x.shape)
        stack.fill(layer, 0, name)
        made, moved, (slope, of_share, *slopes) = choose(tf.constant(number))
        y = made.pop(kind_of(name))
        assert len(made) == 3 and not any(np.any(value.numpy()) for value in made.values())
        with tf.GradientTape() as tape:
            tape.watch(x)
            expected = layer(x) if name == "channel_attention" else layer(x, training=training)
            size = (y.shape[1] - expected.shape[1]) // 2 if kind_of(name) == "kernel" else 0
            expected = tf.pad(expected, [(0, 0), (size, size), (size, size), (0, 0)])
            loss = tf.reduce_sum(tf.sin(3 * 0.7 * expected))
        assert_close(y.numpy(), 0.7 * expected.numpy(), 1e-4)
        assert_close(slope.numpy(), tape.gradient(loss, x).numpy(), 1e-3)
        # The derivative of the weight is the outcome's inner product with the gradient.
        inner = tf.reduce_sum(tf.cos(3 * 0.7 * expected) * 3 * expected)
        assert float(of_share) == pytest.approx(float(inner), rel=1e-3, abs=1e-3)
        used = {key for key, value in zip(learned, slopes, strict=True) if np.any(value)}
        assert used <= {key for key in learned if uses(name, key)}, (name, used)
        assert bool(used) == bool(layer.trainable_variables)
        check_statistics(stack, layer, name, weights, moved, training)


def uses(name, key):
    """Return whether an operation may use a weight of an edge."""
    if name == "identity":
        return key in ("even", "odd")
    if name.startswith("dynamic"):
        return key == "bottleneck" or key in (f"transform_{name[-1]}", f"decode_{name[-1]}")
    if name in KINDS:
        return key.startswith(KINDS[name])
    return key.startswith((name, "pointwise"))


def check_statistics(stack, layer, name, weights, moved, training):
    """Those of the layer have moved as the layer's own have, and no others."""
    assert bool(moved) == training
    for variable in stack.weights:
        key = variable.name.removeprefix("strided_")
        if key in moved:
            before = keras.ops.convert_to_numpy(variable)
            variable.assign(moved[key][None])
            changed = int(np.sum(keras.ops.convert_to_numpy(variable) != before))
            own = sum(int(np.prod(v.shape)) for v in layer.non_trainable_variables) // 2
            assert changed == (0 if key.startswith("pooling") != ("pooling" in name) else own)
    expected = [keras.ops.convert_to_numpy(v) for v in layer.non_trainable_variables]
    stack.fill(layer, 0, name)
    for variable, value in zip(layer.non_trainable_variables, expected, strict=True):
        np.testing.assert_allclose(keras.ops.convert_to_numpy(variable), value, 1e-4, 1e-5)
    for variable in stack.weights:  # as they were
        key = variable.name.removeprefix("strided_")
        if key in moved:
            variable.assign(weights[key][None])


def test_calibration_is_done_where_it_is_chosen(rng):
    """A tier is the sum of its outcomes whatever was chosen; surrogates stand in for features."""
    b, c = 2, 3
    shapes = {
        "features": (5, 5, c),
        "spatial": (5, 5, 1),
        "channel": (1, 1, c),
        "kernel": (5, 5, c),
    }
    chosen = [
        ["identity", "dilated_3"],
        ["identity", "spatial_attention"],
        ["dynamic_3", "identity"],
    ]
    chosen += [["dynamic_5", "identity"], ["channel_attention", "dynamic_3"]]
    gate = tf.constant(0.6)
    for names in chosen:
        made = []
        for name in names:
            outcome = {kind: np.zeros((b, *s), "float32") for kind, s in shapes.items()}
            part = outcome[kind_of(name)]
            part[:] = rng.standard_normal(part.shape)
            if name == "dynamic_3":
                part[:, [0, -1]] = part[:, :, [0, -1]] = 0
            made.append(outcome)
        numbers = np.array([NAMES.index(name) for name in names], "int32")
        weights = np.array([0.75, 0.25], "float32")
        found, _ = combined_chosen(NAMES, 2, made, gate, numbers, None, weights)
        assert_close(np.asarray(found), np.asarray(combined(5, made, gate)[0]), 1e-5)
        surrogate = rng.standard_normal((b, 5, 5, c)).astype("float32")
        found, _ = combined_chosen(NAMES, 2, made, gate, numbers, surrogate, weights)
        share = sum(w for w, n in zip(weights, names, strict=True) if kind_of(n) != "features")
        made.append({"features": share * surrogate})
        assert_close(np.asarray(found), np.asarray(combined(5, made, gate)[0]), 1e-5)
