import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import genotypes, layers
from keras_xd.layers.cells.genotypes import BlockGenotype, CellGenotype
from keras_xd.testing import assert_close


def genotype(*blocks):
    return CellGenotype(tuple(BlockGenotype(first, second) for first, second in blocks))


IDENTITIES = genotype(*[((("identity", 0), ("identity", 1)), "identity")] * 4)
POOLINGS = genotype(*[((("identity", 0), ("average_pooling_3", 1)), "identity")] * 4)


def test_drop_path_drops_samples_but_no_identity(rng):
    x = np.ones((400, 3, 3, 2), "float32")
    cell = layers.DerivedCell(POOLINGS, 2, drop_path=0.4, seed=1)
    cell([x[:1], x[:1]])
    for weight in cell.weights:
        if weight.name in ("kernel",):
            weight.assign(np.eye(2)[None, None])
    plain = keras.ops.convert_to_numpy(cell([x, x], training=False))

    def samples(training=True):
        y = keras.ops.convert_to_numpy(cell([x, x], training=training)[:, 1, 1, ::2])
        return y

    # In training batches of equal images are normalised to 0, so identities are told by offsets.
    for layer, offset in zip(cell.preprocessing, (1.0, 10.0), strict=True):
        layer.normalization.beta.assign([offset] * 2)
    y = samples()
    kept = np.isclose(y, 1 + 10 / 0.6, rtol=1e-4)
    assert np.all(kept | np.isclose(y, 1, rtol=1e-4))
    # 1600 draws of probability 0.6.
    assert abs(kept.mean() - 0.6) < 5 * np.sqrt(0.24 / 1600)
    assert len({tuple(row) for row in kept}) > 8  # blocks are drawn by themselves
    cell.drop_path_progress.assign(0.5)
    kept = np.isclose(samples(), 1 + 10 / 0.8, rtol=1e-4)
    assert abs(kept.mean() - 0.8) < 5 * np.sqrt(0.16 / 1600)
    cell.drop_path_progress.assign(0.0)
    np.testing.assert_allclose(samples(), 11, rtol=1e-4)
    assert np.all(np.isfinite(plain)) and np.ptp(samples(training=False), axis=0).max() == 0
    assert [v.name for v in cell.non_trainable_variables].count("drop_path_progress") == 1


def test_xd_operations_are_trained_or_finalized(rng):
    cell = genotype(*[((("xd_3", 0), ("identity", 1)), "identity")] * 4)
    inputs = keras.Input((4, 4, 2))
    model = keras.Model(inputs, layers.DerivedCell(cell, 2)([inputs, inputs]))
    assert len(keras_xd.architecture_variables(model)) == 4 * 6
    keras_xd.randomize_architecture(model, seed=1)
    x = rng.standard_normal((2, 4, 4, 2)).astype("float32")
    found = keras_xd.finalize(model)
    assert not keras_xd.architecture_variables(found)
    expected = keras.ops.convert_to_numpy(model(x))
    assert_close(keras.ops.convert_to_numpy(found(x)), expected, 2e-5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"genotype_cell": "identity"}, "CellGenotype"),
        ({"genotype_cell": {}}, "to_dict"),
        ({"drop_path": 1.0}, "`drop_path`"),
        ({"drop_path": -0.1}, "`drop_path`"),
        ({"drop_path": "0.1"}, "`drop_path`"),
        ({"partial_channels": 3}, "must divide"),
        ({"filters": 0}, "`filters`"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.DerivedCell(**{"genotype_cell": IDENTITIES, "filters": 4, **arguments})


CELL = genotypes.random_cell(np.random.default_rng(0))


@pytest.mark.parametrize(
    "shapes, previous",
    [
        ([(None, 4, 4, 3)], False),
        ((None, 4, 4, 3), False),
        ([(None, 4, 4, 3), (None, 4, 5, 3)], False),
        ([(None, 4, 4, 3), (None, 4, 4, 3)], True),
        ([(None, 8, 8, 3), (None, 4, 4, 3)], False),
    ],
)
def test_bad_shapes(shapes, previous):
    cell = layers.DerivedCell(CELL, 2, previous_reduction=previous)
    with pytest.raises(ValueError, match="two batches of images"):
        cell.compute_output_shape(shapes)
    with pytest.raises(ValueError, match="two batches of images"):
        cell.build(shapes)


def test_unknown_sizes():
    with pytest.raises(ValueError, match="every spatial size to be known"):
        layers.DerivedCell(CELL, 2).build([(None, None, 4, 3)] * 2)


def test_an_unknown_gate():
    with pytest.raises(ValueError, match="`calibration_gate` must be one of 'zero', 'tanh', None"):
        layers.DerivedCell(CELL, 2, calibration_gate="ones")
