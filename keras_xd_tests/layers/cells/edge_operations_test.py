"""Operations on edges, fused and chosen, against their layers, and the products they are made of.

Whole cells are compared in `relaxed_cell_test` and `drawn_cells_test`.
"""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from scipy import special

from keras_xd import genotypes, layers
from keras_xd.layers.cells import edge_products, fused_edge_ops
from keras_xd.layers.cells.chosen_operation import chosen_outcome, combined_chosen
from keras_xd.layers.cells.dynamic_conv import DynamicKernel
from keras_xd.layers.cells.edge_operations import Edge, node_values, outcomes
from keras_xd.layers.cells.features import FeatureOperation
from keras_xd.layers.cells.fused_edge_ops import FusedCall, FusedEdgeOps
from keras_xd.layers.cells.operator_cell import combined, outcome_kind
from keras_xd.testing import assert_close
from keras_xd_tests.layers.cells.cell_references import randomized

NAMES = genotypes.NOS_OPERATIONS


def layer_of(name, filters, strides):
    """Return the layer of an operation as a search has it, and whether it is called in training."""
    if name.startswith("dynamic"):
        return DynamicKernel(int(name[-1]), affine=False)
    if name == "spatial_attention":
        return layers.SpatialAttention(strides, affine=False)
    if name == "channel_attention":
        return layers.ChannelAttention()
    return FeatureOperation(filters, name, strides, affine=False)


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.mark.parametrize("size, strides, training", [(5, 1, True), (6, 2, True), (5, 2, False)])
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


@pytest.mark.parametrize(
    "size, strides, training, dtype",
    [(6, 1, True, "float64"), (5, 1, False, "float64"), (5, 2, True, "float32")],
)
def test_edges_together_equal_edges_alone(size, strides, training, dtype, rng):
    if dtype == "float64" and keras.backend.backend() == "torch":
        pytest.skip("separable operations get float32 inputs for float64 weights on torch")
    edges = FusedEdgeOps(4, NAMES, strides=[strides], nodes=[0, 0, 0], dtype=dtype)
    edges.build()
    randomized(edges, rng)
    x = ops.convert_to_tensor(rng.standard_normal((3, size, size, 4)), dtype)
    rows = rng.random((3, len(NAMES))).astype("float32")
    edge, group = edges.edge(strides, training), (0, 1, 2)
    node, _ = node_values(edge, x, edges.node_weights()[0])
    made, moved = outcomes(edge, node, edges.group_weights([group])[group], rows)
    for number in group:
        weights = edges.group_weights([(number,)])[(number,)]
        alone, alone_moved = outcomes(edge, node, weights, rows[number : number + 1])
        for found, expected in ((made, alone), (moved, alone_moved)):
            assert list(found) == list(expected)
            for kind, values in found.items():
                assert_close(numpy(values[number]), numpy(expected[kind][0]), 2e-5)


@pytest.mark.parametrize(
    "training, names",
    [
        (False, ("dilated_3", "spatial_attention", "channel_attention", "identity")),
        (True, ("separable_3", "dynamic_3")),
    ],
)
def test_cells_have_the_same_gradients_either_way(training, names, monkeypatch, rng):
    """Those of edges computed together against edges computed alone."""

    def of_cell(alone):
        monkeypatch.setattr(fused_edge_ops, "calls_traced_functions", lambda: alone)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(cell([x, x], training=training) ** 2)
        return loss, tape.gradient(loss, cell.trainable_variables)

    keras.utils.set_random_seed(1)
    cell = layers.HeterogeneousCell(4, layers.ArchitectureLogits(operations=names, seed=1))
    x = tf.constant(rng.standard_normal((2, 4, 4, 4)).astype("float32"))
    cell.build([(2, 4, 4, 4)] * 2)
    values = [of_cell(alone) for alone in (True, False)]
    for found, wanted in zip(*(tf.nest.flatten(value) for value in values), strict=True):
        assert_close(np.array(found), np.array(wanted), 1e-4)


def test_weights_are_drawn_as_layers_draw_them():
    """The spread of every variable is that of the layer's own initializer.

    With strides, without which an identity has no weights.
    """
    filters, count, strides = 32, 12, 2
    edges = FusedEdgeOps(filters, NAMES, strides=[strides], nodes=[0] * count)
    edges.build()
    cell = layers.HeterogeneousCell(filters, layers.ArchitectureLogits())
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


def test_there_are_few_variables():
    edges = FusedEdgeOps(8, NAMES, strides=[2, 1], nodes=[0] * 4 + [1] * 14)
    edges.build()
    names = [variable.name for variable in edges.weights]
    assert len(set(names)) == len(names) <= 30
    counts = {name: variable.shape[0] for name, variable in zip(names, edges.weights, strict=True)}
    assert counts["pointwise_0"] == 18 and counts["even"] == 4
    assert counts["strided_moving_mean"] == 4 and counts["moving_mean"] == 14
    assert counts["pooling_moving_mean"] == 2


def test_configuration():
    edges = FusedEdgeOps(4, ("identity", "dynamic_3"), strides=[1, 2], nodes=[0, 1], name="edges")
    config = json.loads(json.dumps(edges.get_config()))
    assert FusedEdgeOps.from_config(config).get_config() == edges.get_config()


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
        used = {key for key, value in zip(learned, slopes, strict=True) if np.any(value)}
        assert used <= {key for key in learned if uses(name, key)}, (name, used)
        assert bool(used) == bool(layer.trainable_variables)
        check_statistics(edges, layer, name, weights, moved, training)


def uses(name, key):
    """Return whether an operation may use a weight of an edge."""
    if name == "identity":
        return key in ("even", "odd")
    if name.startswith("dynamic"):
        return key == "bottleneck" or key in (f"transform_{name[-1]}", f"decode_{name[-1]}")
    if name.endswith("attention"):
        return key.startswith(outcome_kind(name))
    return key.startswith((name, "pointwise"))


def check_statistics(edges, layer, name, weights, moved, training):
    """Those of the layer have moved as the layer's own have, and no others."""
    assert bool(moved) == training
    for variable in edges.weights:
        key = variable.name.removeprefix("strided_")
        if key in moved:
            before = numpy(variable)
            variable.assign(moved[key][None])
            changed = int(np.sum(numpy(variable) != before))
            own = sum(int(np.prod(v.shape)) for v in layer.non_trainable_variables) // 2
            assert changed == (0 if key.startswith("pooling") != ("pooling" in name) else own)
    expected = [numpy(v) for v in layer.non_trainable_variables]
    edges.fill(layer, 0, name)
    for variable, value in zip(layer.non_trainable_variables, expected, strict=True):
        np.testing.assert_allclose(numpy(variable), value, 1e-4, 1e-5)
    for variable in edges.weights:  # as they were
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
            part = outcome[outcome_kind(name)]
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
        none = sum(w for w, n in zip(weights, names, strict=True) if outcome_kind(n) != "features")
        made.append({"features": none * surrogate})
        assert_close(np.asarray(found), np.asarray(combined(5, made, gate)[0]), 1e-5)


def test_statistics_lie_one_behind_the_other():
    # Four operations of one or two steps, the identity with strides, attention and two kernels.
    assert Edge(16, 2, NAMES).statistics == {
        "pointwise_0": slice(0, 64),
        "pointwise_1": slice(64, 96),
        "reduction": slice(96, 112),
        "spatial": slice(112, 113),
        "bottleneck": slice(113, 117),
    }
    assert "reduction" not in Edge(16, 1, NAMES).statistics
    assert not Edge(16, 2, ("max_pooling_3",)).statistics


@pytest.mark.parametrize("size, strides, phases", [(4, 1, 4), (5, 1, 0), (6, 2, 1), (5, 2, 1)])
def test_phases_are_what_dilated_windows_read(size, strides, phases, rng):
    x = np.abs(rng.standard_normal((2, size, size, 3))).astype("float32")
    kernel = rng.standard_normal((3, 3, 3, 1)).astype("float32")
    values, statistics = node_values(Edge(3, strides, ("dilated_3",), True), x, {})
    assert not statistics and ("phases" in values) == (phases > 0)
    if phases:
        found = values["phases"]
        assert found.shape[0] == 2 * phases
        expected = ops.depthwise_conv(x, kernel, 1, "same", "channels_last", (2, 2))
        expected = numpy(expected)
        made = ops.depthwise_conv(found, kernel, 1, "same", "channels_last")
        made = numpy(made)
        # With strides it is the phase of the first window's place.
        first = 1 - size % 2 if strides > 1 else 0
        assert_close(made[:2], expected[:, first::2, first::2], 1e-5)


@pytest.mark.parametrize("edges", [1, 3])
def test_matrices_of_edges(edges, rng):
    flat = rng.standard_normal((12, 3)).astype("float32")
    found = numpy(edge_products.moments(flat))
    assert_close(found, np.concatenate([flat.T @ flat, flat.sum(0, keepdims=True)]), 1e-5)
    x = rng.standard_normal((5, 4)).astype("float32")
    matrices = rng.standard_normal((edges, 4, 2)).astype("float32")
    found = x @ numpy(edge_products.side_by_side(matrices))
    assert_close(found, np.concatenate([x @ matrix for matrix in matrices], axis=1), 1e-6)
    x = rng.standard_normal((5, edges, 4)).astype("float32")
    matrices = rng.standard_normal((edges, 2, 4, 3)).astype("float32")
    expected = np.einsum("nei,emio->mneo", x, matrices).reshape(2, 5, -1)
    found = x.reshape(5, -1) @ numpy(edge_products.block_diagonal(matrices))
    assert_close(found, expected, 1e-6)


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


def one_by_one(sizes, edges, x, images, matrix, offset, taps, decode, probabilities):
    largest, first = max(sizes), 0
    found = np.zeros((len(x), largest, largest, edges * FILTERS))
    inner = np.maximum(x.reshape(len(x), -1, FILTERS) @ matrix + offset, 0)
    for number, size in enumerate(sizes):
        margin = (largest - size) // 2
        inside = slice(margin, margin + size)
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


@pytest.mark.parametrize("sizes", [(3,), (3, 5)])
@pytest.mark.parametrize("edges", [1, 3])
def test_kernels_of_edges_together_are_those_of_each(sizes, edges, rng):
    values = arguments(sizes, edges, rng)
    found = edge_products.dynamic_kernels(sizes, edges, *map(ops.convert_to_tensor, values))
    expected = one_by_one(sizes, edges, *values)
    np.testing.assert_allclose(numpy(found), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.tensorflow("differentiates by a tape")
def test_derivatives_equal_differences(rng):
    sizes, edges = (3, 5), 2
    values = arguments(sizes, edges, rng)
    weights = rng.normal(size=(SHAPE[0], 5, 5, edges * FILTERS))
    tensors = [tf.constant(value) for value in values]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        loss = tf.reduce_sum(
            edge_products.dynamic_kernels(sizes, edges, *tensors) * weights.astype("float32")
        )
    gradients = tape.gradient(loss, tensors)
    for place, gradient in enumerate(gradients):
        # Zeros are those between the edges, by which nothing is multiplied one by one.
        direction = rng.normal(size=values[place].shape) * (values[place] != 0)
        losses = []
        for step in (1e-5, -1e-5):
            moved = [value.astype("float64") for value in values]
            moved[place] = moved[place] + step * direction
            losses.append(np.sum(one_by_one(sizes, edges, *moved) * weights))
        expected = (losses[0] - losses[1]) / 2e-5
        np.testing.assert_allclose(np.sum(gradient * direction), expected, rtol=1e-3, atol=1e-4)
