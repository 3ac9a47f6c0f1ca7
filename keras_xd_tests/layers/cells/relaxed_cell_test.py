import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd import genotypes, layers
from keras_xd.core.searchable import model_variables
from keras_xd.graph import cloning
from keras_xd.layers.cells.architecture_logits import ArchitectureLogits
from keras_xd.testing import assert_close
from keras_xd_tests.layers.cells import cell_references
from keras_xd_tests.layers.cells.cell_references import randomized, softmax
from keras_xd_tests.layers.cells.drawn_cells_test import network

ATTENTION = ("spatial_attention", "channel_attention")
DILATED = ("dynamic_dilated_3", "dynamic_dilated_5")
NAMES = ("dilated_3", "identity", *ATTENTION, "dynamic_3", *DILATED)
SMALL = ("dynamic_3", "identity", "dilated_3")
FEW = ("channel_attention", "identity")


def inputs_of(rng, reduced=False, batch=2):
    """Return two images for a cell, the first twice as large after a reduction cell."""
    shapes = [(batch, 8, 8, 6) if reduced else (batch, 4, 4, 6), (batch, 4, 4, 5)]
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def decide(architecture, rng):
    """Give an architecture clear shares."""
    architecture.logits.assign(2 * rng.standard_normal(architecture.logits.shape))


def derived_weights(cell):
    """Return weights of 1 for the operations of the derived cell, of 0 for the others."""
    weights = np.zeros((18, len(cell.operation_names)))
    for number, block in enumerate(cell.genotype.blocks):
        for name, source in block.first:
            weights[genotypes.first_tier_edge(number, source), cell.operation_names.index(name)] = 1
        weights[genotypes.second_tier_edge(number), cell.operation_names.index(block.second)] = 1
    return weights


@pytest.mark.parametrize(
    "reduction, previous, parts, names, edge_layers",
    [
        (False, False, 1, NAMES, False),
        (True, False, 2, ("dilated_3", "max_pooling_3", "dynamic_3"), False),
        (True, False, 2, ("max_pooling_3", "dynamic_3"), True),
        (False, True, 2, ("identity", "spatial_attention"), False),
    ],
)
def test_cell_and_its_finalized_one_equal_numpy(
    reduction, previous, parts, names, edge_layers, rng
):
    architecture = ArchitectureLogits(reduction, names, seed=1)
    arguments = (4, architecture, reduction, previous, parts)
    cell = layers.HeterogeneousCell(*arguments, edge_layers=edge_layers, name="cell")
    x = inputs_of(rng, previous)
    shapes = [value.shape for value in x]
    cell.build(shapes)
    randomized(cell, rng)
    decide(architecture, rng)
    expected = cell_references.cell(cell, x, softmax(architecture.logits))
    y = keras.ops.convert_to_numpy(cell(x))
    assert y.shape == cell.compute_output_shape(shapes)
    assert_close(y, expected.astype("float32"), 2e-5)

    plain = cell.finalize()
    weights = derived_weights(cell)
    assert weights.sum() == 12 and plain.name == "cell"
    expected = cell_references.cell(cell, x, weights)
    assert_close(keras.ops.convert_to_numpy(plain(x)), expected.astype("float32"), 2e-5)


def test_gates_start_at_zero_and_are_kept(rng, tmp_path):
    names = ("identity", "channel_attention", "dynamic_3")
    architecture = ArchitectureLogits(operations=names, seed=1)
    cell = layers.HeterogeneousCell(4, architecture, calibration_gate="zero", name="cell")
    x = inputs_of(rng)
    cell.build([value.shape for value in x])
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(cell.calibration_gates), np.zeros(8))
    randomized(cell, rng)
    decide(architecture, rng)
    gates = rng.standard_normal(8).astype("float32")
    cell.calibration_gates.assign(gates)
    expected = cell_references.cell(cell, x, softmax(architecture.logits), gates)
    assert_close(keras.ops.convert_to_numpy(cell(x)), expected.astype("float32"), 2e-5)

    inputs = [keras.Input(batch_shape=value.shape) for value in x]
    model = keras.Model(inputs, cell(inputs))
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    assert_close(keras.ops.convert_to_numpy(restored(x)), expected.astype("float32"), 2e-5)
    plain = cell.finalize()
    assert plain.calibration_gate == "zero"
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(plain.calibration_gates), gates)
    weights = derived_weights(cell)
    expected = cell_references.cell(cell, x, weights, gates)
    assert_close(keras.ops.convert_to_numpy(plain(x)), expected.astype("float32"), 2e-5)

    gates = [v for v in model_variables(model) if v is cell.calibration_gates]
    assert len(gates) == 1  # trained with the weights, not with the architecture
    keras_xd.reset_weights(model, seed=3)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(cell.calibration_gates), np.zeros(8))


def test_a_configuration_without_the_gate_is_that_of_the_paper():
    cell = layers.HeterogeneousCell(2, ArchitectureLogits(operations=FEW))
    config = cell.get_config()
    assert config.pop("calibration_gate") is None
    cell = layers.HeterogeneousCell.from_config(config)
    cell.build([(None, 4, 4, 3)] * 2)
    assert cell.calibration_gate is None and cell.calibration_gates is None
    # Nor is there anything to gate among features alone.
    features = ArchitectureLogits(operations=("identity", "dilated_3"))
    cell = layers.HeterogeneousCell(2, features, calibration_gate="zero")
    cell.build([(None, 4, 4, 3)] * 2)
    assert cell.calibration_gates is None


def test_network_shares_saves_resets_and_finalizes(rng, tmp_path):
    model = network("softmax", names=FEW)
    cells = model.layers[1:4]
    logits = [cells[0].architecture.logits, cells[1].architecture.logits]
    assert [id(v) for v in keras_xd.architecture_variables(model)] == [id(v) for v in logits]
    assert not {id(v) for v in logits} & {id(v) for v in model_variables(model)}

    keras_xd.randomize_architecture(model, seed=2)
    x = rng.standard_normal((2, 4, 4, 3)).astype("float32")
    y = keras.ops.convert_to_numpy(model(x))
    model.save(tmp_path / "model.keras")
    keras_xd.save_architecture(model, tmp_path / "found.npz")
    found = keras_xd.finalize(model)
    before = [keras.ops.convert_to_numpy(v) for v in logits]
    kernel = keras.ops.convert_to_numpy(cells[0].preprocessing[1].pointwise.kernel)
    keras_xd.reset_weights(model, seed=3)
    for variable, value in zip(logits, before, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable), value)
    after = keras.ops.convert_to_numpy(cells[0].preprocessing[1].pointwise.kernel)
    assert np.abs(after - kernel).min() > 0

    restored = keras.models.load_model(tmp_path / "model.keras")
    assert_close(keras.ops.convert_to_numpy(restored(x)), y)
    assert restored.layers[1].architecture is restored.layers[3].architecture
    genotype = layers.derived_genotype(restored)
    assert genotype == layers.derived_genotype(model)
    keras_xd.randomize_architecture(restored, seed=3)
    assert layers.derived_genotype(restored) != genotype
    keras_xd.load_architecture(restored, tmp_path / "found.npz")
    assert layers.derived_genotype(restored) == genotype

    assert not keras_xd.architecture_variables(found)
    assert [layer.genotype_cell for layer in found.layers[1:4]] == [
        *(genotype.normal, genotype.reduction, genotype.normal)
    ]


def test_training_equals_that_of_layers(rng):
    """Outputs, gradients and statistics are those of one layer for each operation and edge."""
    names = ("separable_3", "dynamic_3")
    together, apart = (
        layers.HeterogeneousCell(4, ArchitectureLogits(True, names), True, edge_layers=edge_layers)
        for edge_layers in (False, True)
    )
    x = [keras.ops.convert_to_tensor(rng.random((3, 5, 5, n), "float32")) for n in (5, 6)]
    for cell in (together, apart):
        cell.build([tuple(value.shape) for value in x])
    decide(together.architecture, rng)
    apart.architecture.logits.assign(together.architecture.logits)
    for old, new in zip(together.preprocessing, apart.preprocessing, strict=True):
        cloning.copy_state(old, new)
    every = {(edge, name): apart.edge_operation(edge, name) for edge in range(18) for name in names}
    for key, layer in every.items():
        together.edges.fill(layer, *key)

    found = []
    for cell in (together, apart):
        with tf.GradientTape() as tape:
            variables = [*x, cell.architecture.logits.value]
            tape.watch(variables)
            y = cell(x, training=True)
            loss = tf.reduce_sum(y * tf.cos(y))
        found.append((y, tape.gradient(loss, variables)))
    (y, gradients), (expected, others) = found
    assert_close(y.numpy(), expected.numpy(), 1e-4)
    for gradient, other in zip(gradients, others, strict=True):
        assert_close(gradient.numpy(), other.numpy(), 1e-3)
    for key, layer in every.items():
        moved = [np.asarray(v).copy() for v in layer.non_trainable_variables]
        together.edges.fill(layer, *key)
        for wanted, value in zip(moved, layer.non_trainable_variables, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-3, atol=1e-4, err_msg=f"{key}")


def test_a_frozen_cell_keeps_its_statistics(rng):
    names = ("dilated_3", "max_pooling_3")
    cell = layers.HeterogeneousCell(4, ArchitectureLogits(operations=names, seed=1))
    x = inputs_of(rng)
    cell(x)
    cell.trainable = False
    before = [keras.ops.convert_to_numpy(weight) for weight in cell.weights]
    assert_close(
        *(keras.ops.convert_to_numpy(cell(x, training=training)) for training in (True, False))
    )
    for weight, value in zip(cell.weights, before, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(weight), value)


def old_config(cell):
    """Return the configuration as version 0.1 wrote it."""
    return {key: value for key, value in cell.get_config().items() if key != "edge_layers"}


def test_configurations_of_before_have_a_layer_for_each_operation():
    cell = layers.HeterogeneousCell(2, ArchitectureLogits(operations=SMALL, seed=1))
    assert not cell.edge_layers
    assert layers.HeterogeneousCell.from_config(old_config(cell)).edge_layers
    assert not layers.HeterogeneousCell.from_config(cell.get_config()).edge_layers


def test_xd_operations_are_switched_on_by_name(rng):
    architecture = ArchitectureLogits(operations=("identity", "xd_3"), seed=1)
    cell = layers.HeterogeneousCell(2, architecture)
    x = rng.standard_normal((2, 2, 2, 3)).astype("float32")
    inputs = keras.Input((2, 2, 3), batch_size=2)
    model = keras.Model(inputs, cell([inputs, inputs]))
    # The logits, and K, L and M of both axes on each edge.
    variables = keras_xd.architecture_variables(model)
    assert len(variables) == len(cell.architecture_variables) == 1 + 18 * 6
    assert not {id(v) for v in variables} & {id(v) for v in model_variables(model)}
    # As they begin they are convolutions.
    expected = cell_references.cell(cell, [x, x], softmax(architecture.logits))
    assert_close(keras.ops.convert_to_numpy(model(x)), expected.astype("float32"), 2e-5)
    keras_xd.randomize_architecture(model, seed=2)
    names = cell.genotype.operations
    assert "xd_3" in names
    plain = cell.finalize()
    assert not keras_xd.architecture_variables(plain)
    # What is left when all other operations have no share, as blocks of two edges have it.
    first = cell.genotype.blocks[0]
    logits = np.full((18, 2), -40.0)
    for name, source in first.first:
        logits[source, architecture.operations.index(name)] = 40
    logits[14, architecture.operations.index(first.second)] = 40
    architecture.logits.assign(logits)
    common, nodes = cell.common_values(False), [layer(x) for layer in cell.preprocessing]
    surrogate = cell.first_tier(0, nodes, common, False)
    relaxed = keras.ops.convert_to_numpy(cell.second_tier(0, surrogate, common, False))
    assert_close(keras.ops.convert_to_numpy(plain([x, x]))[..., :2], relaxed, 2e-5)


def test_complexity_is_the_expectation(rng):
    names = ("dilated_3", "identity", "spatial_attention", "channel_attention", "dynamic_3")
    architecture = ArchitectureLogits(True, names, seed=1)
    cell = layers.HeterogeneousCell(16, architecture, reduction=True, previous_reduction=True)
    x = [keras.Input((8, 8, 6)), keras.Input((4, 4, 5))]
    model = keras.Model(x, cell(x))
    decide(architecture, rng)
    # 4 × 4 inputs, 2 × 2 outputs, 16 channels.
    places = np.array([16, 16, 16, 16, 4, 16, 16, 4, 4, 16, 16, 4, 4, 4, 4, 4, 4, 4])
    strided = np.where(places == 16, 1, 0)
    counts = {
        "dilated_3": np.full(18, 4 * (9 * 16 + 16 * 16)),
        "identity": strided * 4 * 16 * 16,
        "spatial_attention": np.full(18, 4 * (16 + 9)),
        "channel_attention": np.full(18, 2 * 16),
        "dynamic_3": places * (16 * (2 + 9) + 2 * 9) + 9 * 2 * 16 + 4 * 16 * 9,
    }
    preprocessing = 16 * 6 * 16 + 16 * 5 * 16
    shares = softmax(architecture.logits)
    expected = preprocessing + sum(shares[:, i] @ counts[name] for i, name in enumerate(counts))
    assert float(keras_xd.complexity(model)) == pytest.approx(expected, rel=1e-5)
    assert float(cell.complexity([(None, 8, 8, 6), (None, 4, 4, 5)])) == pytest.approx(
        expected, rel=1e-5
    )
    plain = keras_xd.finalize(model)
    found = preprocessing
    for number, block in enumerate(cell.genotype.blocks):
        for name, source in block.first:
            found += counts[name][genotypes.first_tier_edge(number, source)]
        found += counts[block.second][14 + number]
    assert keras_xd.complexity(plain) == found


def test_derived_genotype_is_that_of_the_shared_weights(rng):
    model = network("softmax", names=FEW)
    cells = model.layers[1:4]
    for cell in cells[:2]:
        decide(cell.architecture, rng)
    found = layers.derived_genotype(keras_xd.SearchModel(model))
    kinds = [genotypes.derive_cell(np.asarray(cell.architecture.logits), FEW) for cell in cells[:2]]
    assert found == genotypes.Genotype(*kinds)
    x = keras.Input((4, 4, 3))
    other = layers.HeterogeneousCell(2, ArchitectureLogits(operations=FEW))([x, x])
    with pytest.raises(ValueError, match="1 normal and 0 reduction"):
        layers.derived_genotype(keras.Model(x, other))


def test_bad_arguments():
    architecture = ArchitectureLogits(operations=SMALL)
    with pytest.raises(ValueError, match="`filters`"):
        layers.HeterogeneousCell(0, architecture)
    with pytest.raises(ValueError, match="ArchitectureLogits"):
        layers.HeterogeneousCell(2, None)
    with pytest.raises(ValueError, match="same `reduction`"):
        layers.HeterogeneousCell(2, architecture, reduction=True)
    with pytest.raises(ValueError, match="must divide"):
        layers.HeterogeneousCell(2, architecture, partial_channels=4)
    halving = ArchitectureLogits(True, ["identity", "average_pooling_3"])
    with pytest.raises(ValueError, match="two channels.*filters=2, partial_channels=2"):
        layers.HeterogeneousCell(2, halving, reduction=True, partial_channels=2)
    others = ArchitectureLogits(True, ["max_pooling_3", "average_pooling_3"])
    assert layers.HeterogeneousCell(1, others, reduction=True).operation_filters == 1
    with pytest.raises(ValueError, match="edge_layers"):
        layers.HeterogeneousCell(2, architecture, edge_layers="no")
