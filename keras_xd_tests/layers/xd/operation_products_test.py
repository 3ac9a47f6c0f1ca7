"""The fit of a named operation against least squares over all its weights, entry by entry."""

import numpy as np
import pytest

from keras_xd import layers
from keras_xd.layers.xd.operation_products import Architecture, fitted_norm, fitted_squares
from keras_xd_tests.layers.xd.distances_test import (
    CASES,
    at_start,
    layer_of,
    with_kernel,
)


def channel_pair_maps(layer, channel, filter):
    """Return the constant part and the parts of all kernel places of one pair's map, as rows."""
    shape = layer.get_build_config()["input_shape"][1:]
    inputs, outputs = shape[-1], layer.filters
    zero = np.zeros(layer.kernel.shape, "float32")

    def part(kernel):
        values = with_kernel(layer, kernel)
        values = values.reshape(len(values) // inputs, inputs, -1, outputs)
        return values[:, channel, :, filter].ravel()

    constant, places = part(zero), []
    for index in np.ndindex(layer.kernel_size):
        unit = zero.copy()
        unit[(*index, channel, filter)] = 1
        places.append(part(unit) - constant)
    return constant, np.array(places)


@pytest.mark.parametrize(
    ("case", "name"),
    [
        # Every layer with one start, and every start with two layers.
        *(("1d strided", name) for name in ("convolution", "average_pooling")),
        *(("2d with b and C", name) for name in ("convolution", "identity", "zero")),
        *(("2d pooling", name) for name in ("identity", "average_pooling", "zero")),
        ("k operation", "convolution"),
    ],
)
def test_the_fit_is_least_squares(case, name):
    layer = layer_of(CASES[case])
    kernel = layer.kernel.numpy()
    variance = np.mean(kernel.astype("float64") ** 2)
    named = at_start(layer, name)
    total, explained = fitted_squares(Architecture(layer), Architecture(named))
    expected = [0.0, 0.0]
    constants, fixed = [], []
    for pair in np.ndindex(*layer.kernel.shape[-2:]):
        constant, places = channel_pair_maps(layer, *pair)
        fixed_part, weights = channel_pair_maps(named, *pair)
        constants.append(constant)
        fixed.append(fixed_part)
        expected[0] += np.sum(constant**2) + variance * np.sum(places**2)
        fit = np.linalg.lstsq(weights.T, places.T, rcond=1e-5)[0]
        expected[1] += variance * np.sum((weights.T @ fit) ** 2)
    constants, fixed = np.ravel(constants), np.ravel(fixed)
    if np.any(fixed):
        expected[1] += np.dot(constants, fixed) ** 2 / np.dot(fixed, fixed)
    layer.kernel.assign(kernel)
    np.testing.assert_allclose([total, explained], expected, rtol=1e-4, atol=1e-6)
    assert fitted_norm(Architecture(layer), variance) == pytest.approx(total)


def test_a_kernel_of_zeros_counts_as_one_of_unit_size():
    layer = layers.XDConv1D(2, 4, kernel_initializer="zeros")
    layer.build((None, 8, 2))
    assert Architecture(layer).kernel_variance == 0.25
