import numpy as np
import pytest

from keras_xd import genotypes, layers
from keras_xd.layers.cells.operator_cell import Outcomes

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
    with pytest.raises(ValueError, match="but for the batch's, are known"):
        layers.DerivedCell(CELL, 2).build([(None, None, 4, 3)] * 2)


@pytest.mark.parametrize("size, halved", [(4, 2), (5, 3)])
def test_output_shapes(size, halved):
    shapes = [(7, size, size, 3)] * 2
    cell = layers.DerivedCell(CELL, 2, reduction=True)
    assert cell.compute_output_shape(shapes) == (7, halved, halved, 8)
    after = layers.DerivedCell(CELL, 2, previous_reduction=True)
    shapes = [(7, size, size, 3), (7, halved, halved, 8)]
    assert after.compute_output_shape(shapes) == (7, halved, halved, 8)


def test_outcomes_are_added_by_kind(rng):
    features, more = rng.standard_normal((2, 1, 3, 3, 2)).astype("float32")
    outcomes = Outcomes(kernel_size=3)
    outcomes.add("features", features)
    outcomes.add("features", more)
    total = features + more
    np.testing.assert_array_equal(outcomes.calibrated(outcomes.sums["features"]), total)
    spatial, channel = rng.random((1, 3, 3, 1)), rng.random((1, 1, 1, 2))
    outcomes.add("spatial", spatial)
    outcomes.add("channel", channel)
    outcomes.add("spatial", spatial)
    # The identity as a kernel adds the features once more.
    kernel = np.zeros((1, 3, 3, 2), "float32")
    kernel[:, 1, 1] = 1
    outcomes.add("kernel", kernel)
    expected = total * (1 + 2 * spatial + channel) + total
    np.testing.assert_allclose(outcomes.calibrated(total), expected, rtol=1e-5)
    gated = total + 0.3 * (expected - total)
    np.testing.assert_allclose(outcomes.calibrated(total, 0.3), gated, rtol=1e-5)


def test_an_unknown_gate():
    with pytest.raises(ValueError, match="`calibration_gate` must be one of 'zero', 'tanh', None"):
        layers.DerivedCell(CELL, 2, calibration_gate="ones")


def test_the_gate_of_a_tier_can_be_bounded():
    operation = genotypes.BlockGenotype((("identity", 0), ("dynamic_3", 1)), "identity")
    cell = layers.DerivedCell(genotypes.CellGenotype((operation,) * 4), 2, calibration_gate="tanh")
    cell.build([(None, 4, 4, 3)] * 2)
    cell.calibration_gates.assign(np.arange(8) / 4)
    assert float(cell.tier_gate(2)) == pytest.approx(np.tanh(2 / 4))
    assert float(cell.tier_gate(1, second=True)) == pytest.approx(np.tanh(5 / 4))
