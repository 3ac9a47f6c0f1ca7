"""Cells that compute a few operations of each edge in a step."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd import layers
from keras_xd.layers.cells.architecture_logits import ArchitectureLogits
from keras_xd.layers.cells.relaxation import PATHS, WITH_EDGES
from keras_xd.testing import assert_close
from keras_xd_tests.layers.cells import cell_references
from keras_xd_tests.layers.cells.cell_references import randomized

NAMES = ("dilated_3", "identity", "spatial_attention", "dynamic_3")
FEW = ("channel_attention", "identity", "dilated_3")


def drawn_cell(relaxation, names=NAMES, reduction=False, **options):
    weights = ArchitectureLogits(reduction, names, seed=1, relaxation=relaxation)
    return layers.HeterogeneousCell(4, weights, reduction, **options)


def images(rng, size=6):
    return [rng.standard_normal((2, size, size, n)).astype("float32") for n in (3, 5)]


def block(cell, nodes, number=0):
    """Return the node of a block, by default the first, in training and of the nodes before it."""
    common = cell.common_values(True)
    surrogate = cell.first_tier(number, nodes, common, True)
    node = cell.second_tier(number, surrogate, common, True)
    cell.after_call(common, True)
    return node


def network(relaxation, reductions=(False, True, False), names=FEW[1:]):
    """Return a network of cells, by default a normal, a reduction and a normal one.

    With the batch size of the data nothing is traced again for them.
    """
    kinds = [ArchitectureLogits(r, names, 1 + r, relaxation) for r in (False, True)]
    before = x = inputs = keras.Input((4, 4, 3), batch_size=2)
    reduced = False
    for number, reduction in enumerate(reductions):
        cell = layers.HeterogeneousCell(
            2, kinds[reduction], reduction, reduced, name=f"cell{number}"
        )
        before, x, reduced = x, cell([before, x]), reduction
    return keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(x))


@pytest.mark.parametrize(
    "relaxation, reduction, gate", [("gumbel", False, "zero"), ("sampled", True, None)]
)
def test_inference_is_that_of_the_most_likely_operations(relaxation, reduction, gate, rng):
    cell = drawn_cell(relaxation, reduction=reduction, calibration_gate=gate)
    x = images(rng)
    cell.build([value.shape for value in x])
    randomized(cell, rng)
    cell.architecture.logits.assign(rng.standard_normal((18, 4)))
    paths = cell.architecture.paths(None)
    numbers = keras.ops.convert_to_numpy(paths["numbers"])
    expected = np.eye(4)[numbers[:, 0]]
    gates = (1,) * 8 if gate is None else keras.ops.convert_to_numpy(cell.calibration_gates)
    wanted = cell_references.cell(cell, x, expected, gates)
    assert_close(keras.ops.convert_to_numpy(cell(x)), wanted.astype("float32"), 2e-5)


@pytest.mark.parametrize("relaxation", PATHS)
def test_what_was_not_drawn_is_left_alone(relaxation, rng):
    """In a step neither gradients nor statistics reach operations that were not drawn.

    Those of all blocks where edges are drawn, else those of the last one.
    """
    names = ("dilated_3", "dilated_5", "separable_3")
    cell = drawn_cell(relaxation, names)
    x = images(rng)
    cell.build([value.shape for value in x])
    before = {v.path: keras.ops.convert_to_numpy(v) for v in cell.edges.weights}
    state = keras.ops.convert_to_numpy(cell.seed_generator.state)
    whole = relaxation == "single_path"
    nodes = [tf.constant(rng.standard_normal((2, 6, 6, 4)), "float32") for _ in range(5)]
    with tf.GradientTape() as tape:
        y = cell(x, training=True) if whole else block(cell, nodes, 3)
        loss = tf.reduce_sum(tf.sin(y))
    learned = [cell.architecture.logits, *cell.edges.trainable_variables]
    values = [v.value for v in learned]
    logits, *slopes = tape.gradient(loss, values, unconnected_gradients="zero")
    assert np.any(logits)
    again = keras.random.SeedGenerator(0)
    again.state.assign(state)
    numbers = keras.ops.convert_to_numpy(cell.architecture.paths(again)["numbers"])
    drawn = np.zeros((18, 4), bool)
    np.put_along_axis(drawn, numbers, True, axis=1)
    drawn = drawn[:, :3]  # the last column is that of edges which are not drawn
    assert drawn.sum() == (12 if whole else 18 * PATHS[relaxation])
    if not whole:
        drawn[[edge for edge in range(18) if edge not in (9, 10, 11, 12, 13, 17)]] = False
    for column, name in enumerate(names):
        (place,) = [i for i, v in enumerate(learned[1:]) if v.name == f"{name}_depthwise_0"]
        slope = np.asarray(slopes[place])
        np.testing.assert_array_equal(np.any(slope, (1, 2, 3, 4)), drawn[:, column])
    for variable in cell.edges.non_trainable_variables:
        moved = keras.ops.convert_to_numpy(variable) != before[variable.path]
        # Vectors of 4 channels: of the three operations, then of separable_3's second half.
        moved = moved.reshape(18, 4, 4).any(-1)
        np.testing.assert_array_equal(moved, drawn[:, [0, 1, 2, 2]])


@pytest.mark.parametrize("relaxation", PATHS)
def test_cells_of_a_kind_draw_alike_and_anew(relaxation, rng):
    model = network(relaxation)
    first, _, last = model.layers[1:4]
    draws = [
        [
            keras.ops.convert_to_numpy(cell.architecture.paths(cell.seed_generator)["numbers"])
            for _ in range(3)
        ]
        for cell in (first, last)
    ]
    np.testing.assert_array_equal(*draws)
    assert np.any(draws[0][0] != draws[0][1]) and np.any(draws[0][1] != draws[0][2])


@pytest.mark.parametrize("relaxation", PATHS)
def test_networks_are_saved_and_finalized(relaxation, rng, tmp_path):
    """A single path computes in inference what the derived cells do.

    It is saved as the others are, and they are finalized as those that compute all operations.
    """
    single = relaxation == "single_path"
    model = network(relaxation, (False, True) if single else (True,))
    for layer in model.layers[1:-1]:
        randomized(layer, rng)
    keras_xd.randomize_architecture(model, seed=2)
    x = rng.standard_normal((2, 4, 4, 3)).astype("float32")
    y = keras.ops.convert_to_numpy(model(x))
    if not single:
        model.save(tmp_path / "model.keras")
        restored = keras.models.load_model(tmp_path / "model.keras")
        assert restored.layers[1].architecture.relaxation == relaxation
        assert restored.layers[1].genotype == model.layers[1].genotype
        assert_close(keras.ops.convert_to_numpy(restored(x)), y)
        return
    genotype, found = layers.derived_genotype(model), keras_xd.finalize(model)
    cells = [genotype.normal, genotype.reduction]
    assert [layer.genotype_cell for layer in found.layers[1:-1]] == cells
    assert_close(keras.ops.convert_to_numpy(found(x)), y)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="XD-operations cannot be drawn"):
        ArchitectureLogits(operations=("identity", "xd_3"), relaxation="gumbel")
    with pytest.raises(ValueError, match="`relaxation`"):
        ArchitectureLogits(relaxation="fair")
    with pytest.raises(ValueError, match="Cells with `edge_layers`"):
        drawn_cell("gumbel", edge_layers=True)


def test_files_of_before_are_searches_by_softmax():
    config = ArchitectureLogits(operations=NAMES).get_config()
    assert config.pop("relaxation") == "softmax"
    weights = ArchitectureLogits.from_config(config)
    weights.build()
    assert weights.relaxation == "softmax" and len(weights.weights) == 1


@pytest.mark.parametrize(
    "relaxation, mode",
    [("gumbel", "first_order"), ("single_path", "joint")],
)
def test_searches_train_what_is_drawn(relaxation, mode, rng, request):
    """In a pass or two, step by step and in a graph."""
    weights = ArchitectureLogits(False, ("dynamic_3", "identity"), 1, relaxation)
    inputs = keras.Input((4, 4, 3))
    cell = layers.HeterogeneousCell(2, weights, partial_channels=1)
    x = keras.layers.GlobalAveragePooling2D()(cell([inputs, inputs]))
    search = keras_xd.SearchModel(keras.Model(inputs, x))
    weights.logits.assign(np.tile([3.0, 0.0], (18, 1)))
    optimizers = [keras.optimizers.SGD(0.1) for _ in range(2)]
    eager = relaxation != "single_path"
    search.compile(*optimizers, "mse", mode=mode, jit_compile=False, run_eagerly=eager)
    before = [keras.ops.convert_to_numpy(v) for v in search.trainable_variables]
    data = rng.standard_normal((2, 4, 4, 3)), rng.standard_normal((2, 8))
    held_out = {} if mode == "joint" else {"architecture_validation_data": data}
    search.fit(*data, batch_size=2, verbose=0, **held_out)
    moved = {
        v.name
        for v, value in zip(search.trainable_variables, before, strict=True)
        if np.any(keras.ops.convert_to_numpy(v) != value)
    }
    assert {"logits", "bottleneck", "transform_3", "decode_3"} <= moved
    assert ("edge_logits" in moved) == (relaxation in WITH_EDGES)
