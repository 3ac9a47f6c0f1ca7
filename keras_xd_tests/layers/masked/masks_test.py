import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_xd.layers.masked import masks

TEMPERATURES = (8.0, 16.0, 25.0, 50.0, 100.0)


def numpy(tensor):
    return ops.convert_to_numpy(tensor)


def gradient(function, value):
    """Derivative of a function of one number by the backend's automatic differentiation."""
    variable = tf.Variable(value, dtype="float64")
    with tf.GradientTape() as tape:
        result = function(variable)
    return float(tape.gradient(result, variable))


def slope(function, value, step=1e-5):
    """Derivative of a function of one number by a central difference."""
    ends = [float(function(ops.convert_to_tensor(value + s, "float64"))) for s in (step, -step)]
    return (ends[0] - ends[1]) / (2 * step)


def test_values_are_those_of_the_definitions():
    x = masks.coordinates(41)
    gaussian = np.exp(-((x - 0.3) ** 2) / (2 * 0.2**2))
    sigmoid = 1 - 1 / (1 + np.exp(-10 * (x - 0.3)))
    for actual, expected in (
        (masks.gaussian(x, 0.2, 0.3), gaussian),
        (masks.sigmoid(x, 0.3, 10.0), sigmoid),
    ):
        expected = np.where(expected >= 0.1, expected, 0)
        np.testing.assert_allclose(numpy(actual), expected, atol=1e-6)
        assert 0 < np.count_nonzero(expected) < 41


@pytest.mark.parametrize("threshold", [0.1, 0.01, 0.5])
def test_the_edge_is_where_the_mask_falls_to_the_threshold(threshold):
    edge = masks.gaussian_edge(0.3, threshold)
    assert float(masks.gaussian(edge, 0.3, 0.0, threshold)) == pytest.approx(threshold, rel=1e-5)
    assert float(masks.gaussian(edge * 1.001, 0.3, 0.0, threshold)) == 0
    edge = masks.sigmoid_edge(0.2, 25.0, threshold)
    assert float(masks.sigmoid(edge, 0.2, 25.0, threshold)) == pytest.approx(threshold, rel=1e-5)
    assert float(masks.sigmoid(edge + 0.001, 0.2, 25.0, threshold)) == 0


def test_edges_have_the_published_factors():
    assert masks.gaussian_edge(1.0) == pytest.approx(2.14597, rel=1e-5)
    assert masks.gaussian_width(0.1, 1.0) == pytest.approx(0.4660, abs=1e-4)
    assert masks.sigmoid_edge(0.5, 25.0) == pytest.approx(0.5 + np.log(9) / 25)


def test_a_mask_has_no_gradient_below_the_threshold():
    above, below = 0.5, 0.9
    assert gradient(lambda w: masks.gaussian(np.array([below]), w)[0], 0.3) == 0
    assert gradient(lambda w: masks.gaussian(np.array([above]), w)[0], 0.3) > 0
    assert gradient(lambda o: masks.sigmoid(np.array([below]), o, 25.0)[0], 0.45) == 0
    assert gradient(lambda o: masks.sigmoid(np.array([above]), o, 25.0)[0], 0.45) > 0


@pytest.mark.parametrize(
    "function, value",
    [
        (lambda w: ops.sum(masks.gaussian(masks.coordinates(9), w, 0.1)), 0.4),
        (lambda o: ops.sum(masks.sigmoid(masks.coordinates(9), o, 8.0)), 0.3),
        (lambda w: masks.gaussian_size(33, w), 0.2),
        (lambda o: masks.sigmoid_size(280, o, 25.0), -0.3),
    ],
)
def test_gradients_are_those_of_finite_differences(function, value):
    assert gradient(function, value) == pytest.approx(slope(function, value), rel=1e-6)
    assert gradient(function, value) != 0


@pytest.mark.parametrize("points", [2, 8, 33])
@pytest.mark.parametrize("part", [0.0, 0.2, 0.7, 1.0])
def test_the_mask_is_zero_outside_of_its_support_and_nowhere_inside(points, part):
    x = masks.coordinates(points)
    low, high = masks.gaussian_range(points)
    values = numpy(masks.gaussian(x, low + part * (high - low)))
    start, stop = masks.support(values)
    assert start == points - stop
    assert values[start:stop].all()
    assert not values[:start].any() and not values[stop:].any()


@pytest.mark.parametrize("points", [3, 9, 33, 65, 1025])
def test_the_narrowest_gaussian_of_an_odd_axis_has_three_points(points):
    width = masks.gaussian_range(points)[0]
    values = numpy(masks.gaussian(masks.coordinates(points), np.float32(width)))
    assert np.count_nonzero(values) == 3


def test_masks_begin_with_the_published_sizes():
    half = masks.sigmoid_offset(0.1, 0, 25.0)
    assert half == pytest.approx(-0.0879, abs=1e-4)
    assert masks.sigmoid_size(280, half, 25.0) == pytest.approx(140)
    # Of an even number of points exactly half is used, of blocks too.
    values = numpy(masks.sigmoid(masks.coordinates(280), half, 25.0))
    assert np.count_nonzero(values) == 140
    half = masks.sigmoid_offset(0.1, 0, 8.0)
    assert half == pytest.approx(-0.2747, abs=1e-4)
    assert np.count_nonzero(numpy(masks.sigmoid(masks.coordinates(8), half, 8.0))) == 4
    full = masks.sigmoid_offset(0.85, 1, 25.0)
    assert float(masks.sigmoid(1.0, full, 25.0)) == pytest.approx(0.85, abs=1e-6)
    assert masks.INITIAL_WIDTH == 0.0325 < masks.gaussian_range(9)[0]
    assert masks.gaussian_size(2048, 0.0325) == pytest.approx(142.8, abs=0.1)
    assert masks.gaussian_size(33, 0.0325) == pytest.approx(2.3, abs=0.01)


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_the_range_of_offsets_has_the_published_limits(temperature):
    low, high = masks.sigmoid_range(temperature)
    assert float(masks.sigmoid(-1.0, low, temperature)) == pytest.approx(0.95, abs=1e-6)
    assert float(masks.sigmoid(1.0, high, temperature)) == pytest.approx(0.85, abs=1e-6)
    assert high == pytest.approx(1 + 1.7346 / temperature, abs=1e-5)
    assert masks.sigmoid_edge(low, temperature) == pytest.approx(-1 + 5.1417 / temperature, 1e-4)


def test_the_smallest_sizes_are_the_published_ones():
    for temperature, share in ((25.0, 0.1028), (50.0, 0.0514), (100.0, 0.0257)):
        low = masks.sigmoid_range(temperature)[0]
        assert masks.sigmoid_size(1, low, temperature) == pytest.approx(share, abs=5e-5)
    assert masks.sigmoid_size(8, masks.sigmoid_range(8.0)[0], 8.0) == pytest.approx(2.57, abs=5e-3)


def test_the_literal_size_of_equation_10_is_smaller_on_a_full_axis():
    initial = masks.sigmoid_range(25.0)[1]
    assert masks.sigmoid_size(100, initial, 25.0, initial=initial) == pytest.approx(100)
    full = masks.sigmoid_offset(0.1, 1.0, 25.0)
    assert masks.sigmoid_size(100, full, 25.0, initial=initial) == pytest.approx(92.7, abs=0.05)


def test_a_clipped_size_keeps_its_gradient():
    def size(offset):
        return masks.clip_straight_through(masks.sigmoid_size(100, offset, 25.0), 1, 100)

    offset = masks.sigmoid_offset(0.85, 1, 25.0)
    assert masks.sigmoid_size(100, offset, 25.0) > 107
    assert float(size(ops.convert_to_tensor(offset, "float64"))) == pytest.approx(100)
    assert gradient(size, offset) == pytest.approx(50)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: masks.coordinates(1), "at least 2 points.*points=1"),
        (lambda: masks.gaussian_range(1), "at least 2 points"),
        (lambda: masks.sigmoid_range(2.0), "2.571 / temperature.*temperature=2.0.*1.285"),
        (lambda: masks.sigmoid_range(0.0), "above 0 and finite"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("centre", [-0.5, 0.0, 0.3, 1.0])
def test_a_gaussian_has_all_points_if_it_reaches_the_farther_end(centre):
    width = masks.gaussian_width(0.1, 1 + abs(centre))
    assert masks.gaussian_size(17, width, centre) == pytest.approx(17)
    assert masks.gaussian_size(17, width / 2, centre) == pytest.approx(8.5)
