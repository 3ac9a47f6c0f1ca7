"""Masks that begin as 1."""

import math

import numpy as np
import pytest

from keras_xd.layers.masked import masks
from keras_xd.layers.masked.relative_mask import RelativeMask
from keras_xd.testing import check_layer


@pytest.mark.parametrize(
    "arguments",
    [{"initial_value": 0.5}, {"profile": "gaussian", "axis": (1, 2), "centre": 1.0}],
    ids=["sigmoid", "gaussian"],
)
def test_layer_behaves_as_keras_expects(arguments):
    check_layer(RelativeMask, arguments, (2, 5, 4), run_jit=False)


def sigmoid(x, offset, temperature):
    """A mask without its threshold."""
    return 1 / (1 + np.exp(temperature * (np.asarray(x) - offset)))


@pytest.mark.parametrize("value", [0.1, 0.5, 0.85])
def test_it_is_divided_by_what_it_was(value):
    mask = RelativeMask(temperature=8.0, initial_value=value)
    mask.build((None, 6))
    np.testing.assert_array_equal(mask.values[0], np.ones(6))
    x = np.linspace(-1, 1, 6)
    start = float(mask.length[0])
    np.testing.assert_allclose(sigmoid(1, start, 8.0), value, rtol=1e-5)
    mask.length.assign([0.1])
    expected = sigmoid(x, 0.1, 8.0) / sigmoid(x, start, 8.0)
    expected[sigmoid(x, 0.1, 8.0) < 0.1] = 0
    assert np.count_nonzero(expected) == len(mask.supports[0]) == 4
    np.testing.assert_allclose(mask.values[0], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("points", "centre", "fewest"),
    [(3, 0.0, 1), (7, 0.0, 1), (2, 0.0, 2), (6, 0.0, 2), (5, 1.0, 1)],
)
def test_shortest_and_longest_gaussian(points, centre, fewest):
    mask = RelativeMask(profile="gaussian", centre=centre)
    mask.build((None, points))
    low, high = (np.asarray(mask.length.constraint([value]))[0] for value in (-9.0, 9.0))
    mask.length.assign([low])
    assert len(mask.supports[0]) == fewest
    if centre:
        assert mask.supports[0][0] == points - 1
    mask.length.assign([high])
    x = np.linspace(-1, 1, points) - centre
    np.testing.assert_allclose(np.exp(-np.max(x**2) / (2 * high**2)), 0.85, rtol=1e-5)
    assert masks.LARGEST_AT_END == 0.85


def test_shares_add_up_to_the_size_and_have_its_gradient():
    import tensorflow as tf

    mask = RelativeMask(temperature=8.0)
    mask.build((None, 4))
    for offset in (-0.5, -0.2, 0.3, 1.1):
        mask.length.assign([offset])
        edge = offset + math.log(9) / 8
        size = min(4 * (edge + 1) / 2, 4)
        with tf.GradientTape() as tape:
            shares = mask.gates
            weighted = tf.reduce_sum(shares * np.array([1.0, 10.0, 100.0, 1000.0], "float32"))
        expected = np.clip(size - np.arange(4), 0, 1)
        np.testing.assert_allclose(shares, expected, atol=2e-6)
        last = 10.0 ** (math.ceil(size) - 1)  # the share that the size moves
        np.testing.assert_allclose(
            tape.gradient(weighted, mask.length.value), [2 * last], rtol=1e-5
        )


@pytest.mark.parametrize("value", [0.05, 0.9, True, "full"])
def test_bad_initial_value(value):
    with pytest.raises(ValueError, match=r"`initial_value` must be a number in \[0.1, 0.85\]"):
        RelativeMask(initial_value=value)
