"""Operations on edges, fused and chosen, against their layers, and the products they are made of.

Whole cells are compared in `relaxed_cell_test` and `drawn_cells_test`.
"""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from scipy import special

from keras_xd import genotypes, layers
from keras_xd.layers.cells import edge_products
from keras_xd.layers.cells.architecture_logits import ArchitectureLogits
from keras_xd.layers.cells.attention import ChannelAttention, SpatialAttention
from keras_xd.layers.cells.chosen_operation import chosen_outcome
from keras_xd.layers.cells.dynamic_conv import DynamicKernel
from keras_xd.layers.cells.edge_operations import Edge
from keras_xd.layers.cells.features import FeatureOperation
from keras_xd.layers.cells.fused_edge_ops import FusedCall, FusedEdgeOps
from keras_xd.layers.cells.operator_cell import outcome_kind
from keras_xd.testing import assert_close
from keras_xd_tests.layers.cells.cell_references import randomized

DILATED = ("dynamic_dilated_3", "dynamic_dilated_5")
NAMES = genotypes.NOS_OPERATIONS + DILATED


def layer_of(name, filters, strides):
    """Return the layer of an operation as a search has it, and whether it is called in training."""
    if name.startswith("dynamic"):
        return DynamicKernel(int(name[-1]), affine=False, dilation_rate=2 if name in DILATED else 1)
    if name == "spatial_attention":
        return SpatialAttention(strides, affine=False)
    if name == "channel_attention":
        return ChannelAttention()
    return FeatureOperation(filters, name, strides, affine=False)


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.mark.parametrize("size, strides, training", [(6, 2, True), (5, 1, False)])
def test_every_fused_operation_is_its_layer(size, strides, training, rng):
    """Outcomes of two edges and their statistics, all operations together and each alone."""
    filters, probability = 4, 0.75
    edges = FusedEdgeOps(filters, NAMES, strides=[strides], nodes=[0, 0])
    edges.build()
    randomized(edges, rng)
    x = rng.standard_normal((3, size, size, filters)).astype("float32")
    for name in NAMES:
        layer = layer_of(name, filters, strides)
        layer.build(x.shape)
        edges.fill(layer, 1, name)
        rows = np.zeros((2, len(NAMES)), "float32")
        rows[:, NAMES.index(name)] = 0.5, probability
        call = FusedCall(edges, rows, training)
        made = call.outcomes(1, x)
        before = edges.get_weights()
        expected = probability * numpy(layer(x, training=training))
        found = numpy(made[outcome_kind(name)])
        margin = (found.shape[1] - expected.shape[1]) // 2 if outcome_kind(name) == "kernel" else 0
        expected = np.pad(expected, [(0, 0), (margin, margin), (margin, margin), (0, 0)])
        assert_close(found, expected.astype("float32"), 2e-5)
        assert set(made) == {"features", "spatial", "channel", "kernel"}
        for other in set(made) - {outcome_kind(name)}:
            assert not np.any(numpy(made[other]))
        if training:
            call.outcomes(0, x)
            call.finish()
            moved = layer_of(name, filters, strides)
            moved.build(x.shape)
            edges.fill(moved, 1, name)
            for value, wanted in zip(moved.weights, layer.weights, strict=True):
                np.testing.assert_allclose(numpy(value), numpy(wanted), rtol=1e-4, atol=1e-5)
            edges.set_weights(before)


def test_a_batch_of_one_place_is_normalised_to_zero():
    """The variance is zero, not a negative number by rounding."""
    edges = FusedEdgeOps(4, ("separable_3",), strides=[1], nodes=[0])
    edges.build()
    call = FusedCall(edges, np.ones((1, 1), "float32"), True)
    made = call.outcomes(0, 1e3 + np.zeros((1, 1, 1, 4), "float32"))
    call.finish()
    assert np.all(np.isfinite(numpy(made["features"])))
    assert np.min(numpy(edges.moving_variance)) >= 0


def test_weights_are_drawn_as_layers_draw_them():
    """The spread of every variable is that of the layer's own initializer.

    With strides, without which an identity has no weights.
    """
    filters, count, strides = 32, 12, 2
    edges = FusedEdgeOps(filters, NAMES, strides=[strides], nodes=[0] * count)
    edges.build()
    cell = layers.HeterogeneousCell(filters, ArchitectureLogits())
    for name in NAMES:
        drawn, filled = (cell.make_operation(name, strides, name) for _ in range(2))
        for layer in (drawn, filled):
            layer.build((None, 8, 8, filters))
        samples = []
        for edge in range(count):
            edges.fill(filled, edge, name)
            samples.append([numpy(v) for v in filled.trainable_variables])
        assert len(samples[0]) == len(drawn.trainable_variables)
        for number, variable in enumerate(drawn.trainable_variables):
            wide = np.max(np.abs(numpy(variable)))
            found = np.concatenate([sample[number].ravel() for sample in samples])
            assert np.max(np.abs(found)) == pytest.approx(wide, rel=0.2), (name, variable.path)
            assert abs(np.mean(found)) < 0.1 * wide
            assert np.any(samples[0][number] != samples[1][number])


def weights_of(edges):
    return {**edges.edge_weights()[0], **edges.node_weights()[0]}


@pytest.mark.parametrize("strides, training", [(1, False), (2, True)])
def test_every_chosen_operation_is_its_layer(strides, training, rng):
    """Outcomes times the weight, their gradients, and the statistics; zeros of other kinds.

    Searches by a single path, in `drawn_cells_test`, train them by one graph of all branches.
    """
    edges = FusedEdgeOps(4, NAMES, [strides], [0])
    edges.build()
    randomized(edges, rng, 0.3)
    weights, edge = weights_of(edges), Edge(4, strides, NAMES, training)
    x = tf.constant(rng.standard_normal((3, 6, 6, 4)), "float32")
    learned = [key for key in weights if "moving" not in key]

    def choose(number):
        probability = tf.constant(0.7)
        with tf.GradientTape() as tape:
            tape.watch([x, probability, weights])
            made, moved = chosen_outcome(edge, x, weights, number, probability)
            loss = sum(tf.reduce_sum(tf.sin(3 * y)) for y in made.values())
        watched = [x, probability, *(weights[key] for key in learned)]
        return made, moved, tape.gradient(loss, watched, unconnected_gradients="zero")

    for number, name in enumerate(NAMES):
        layer = layer_of(name, 4, strides)
        layer.build(x.shape)
        edges.fill(layer, 0, name)
        made, moved, (slope, of_weight, *slopes) = choose(tf.constant(number))
        y = made.pop(outcome_kind(name))
        assert len(made) == 3 and not any(np.any(value.numpy()) for value in made.values())
        with tf.GradientTape() as tape:
            tape.watch(x)
            expected = layer(x, training=training)
            size = (y.shape[1] - expected.shape[1]) // 2 if outcome_kind(name) == "kernel" else 0
            expected = tf.pad(expected, [(0, 0), (size, size), (size, size), (0, 0)])
            loss = tf.reduce_sum(tf.sin(3 * 0.7 * expected))
        assert_close(y.numpy(), 0.7 * expected.numpy(), 1e-4)
        assert_close(slope.numpy(), tape.gradient(loss, x).numpy(), 1e-3)
        # The derivative of the weight is the outcome's inner product with the gradient.
        inner = tf.reduce_sum(tf.cos(3 * 0.7 * expected) * 3 * expected)
        assert float(of_weight) == pytest.approx(float(inner), rel=1e-3, abs=1e-3)
        assert any(map(np.any, slopes)) == bool(layer.trainable_variables)
        assert bool(moved) == training


FILTERS, INNER, SHAPE = 4, 2, (2, 3, 5)


def arguments(sizes, edges, rng):
    """Return arguments of `edge_products.dynamic_kernels` behind the first two, float32 arrays."""
    batch, height, width = SHAPE
    x = rng.normal(size=(batch, height, width, FILTERS))
    channels = edges * len(sizes) * INNER
    own = rng.normal(size=(edges, 1, len(sizes) * INNER, FILTERS)).astype("float32")
    found = (
        x,
        x.reshape(batch, -1, FILTERS).transpose(0, 2, 1),
        rng.normal(size=(FILTERS, channels)),
        rng.normal(size=(1, channels)),
        rng.normal(size=(sum(size**2 for size in sizes) * edges, FILTERS)),
        numpy(edge_products.block_diagonal(ops.convert_to_tensor(own)))[0],
        rng.uniform(size=(len(sizes), 1, edges * FILTERS)),
    )
    return [value.astype("float32") for value in found]


def one_by_one(sizes, rates, edges, x, images, matrix, offset, taps, decode, probabilities):
    spans = [(size - 1) * rate + 1 for size, rate in zip(sizes, rates, strict=True)]
    largest, first = max(spans), 0
    found = np.zeros((len(x), largest, largest, edges * FILTERS))
    inner = np.maximum(x.reshape(len(x), -1, FILTERS) @ matrix + offset, 0)
    for number, size in enumerate(sizes):
        margin = (largest - spans[number]) // 2
        inside = slice(margin, margin + spans[number], rates[number])
        for edge in range(edges):
            start = (edge * len(sizes) + number) * INNER
            own = slice(start, start + INNER)
            outputs = slice(edge * FILTERS, (edge + 1) * FILTERS)
            rows = taps[edge::edges][first : first + size**2]
            context = special.softmax(rows @ images, axis=-1) @ inner[..., own]
            kernel = special.softmax(context @ decode[own, outputs], axis=1)
            kernel = kernel.reshape(-1, size, size, FILTERS) * probabilities[number, 0, outputs]
            found[:, inside, inside, outputs] += kernel
        first += size**2
    return found


@pytest.mark.tensorflow("differentiates by a tape")
@pytest.mark.parametrize("sizes, rates", [((3, 5), (1, 1)), ((3, 3), (1, 2)), ((3,), (2,))])
def test_kernels_of_edges_together_and_their_derivatives(sizes, rates, rng):
    edges = 2
    values = arguments(sizes, edges, rng)
    weights = rng.normal(size=(SHAPE[0], 5, 5, edges * FILTERS))
    case = sizes, rates, edges
    tensors = [tf.constant(value) for value in values]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        found = edge_products.dynamic_kernels(*case, *tensors)
        loss = tf.reduce_sum(found * weights.astype("float32"))
    np.testing.assert_allclose(found, one_by_one(*case, *values), rtol=2e-5, atol=2e-6)
    gradients = tape.gradient(loss, tensors)
    for place, gradient in enumerate(gradients):
        # Zeros are those between the edges, by which nothing is multiplied one by one.
        direction = rng.normal(size=values[place].shape) * (values[place] != 0)
        losses = []
        for step in (1e-5, -1e-5):
            moved = [value.astype("float64") for value in values]
            moved[place] = moved[place] + step * direction
            losses.append(np.sum(one_by_one(*case, *moved) * weights))
        expected = (losses[0] - losses[1]) / 2e-5
        np.testing.assert_allclose(np.sum(gradient * direction), expected, rtol=1e-3, atol=1e-4)
