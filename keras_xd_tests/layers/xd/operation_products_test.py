"""The fit of a named operation against least squares over all its weights, entry by entry."""

import numpy as np
import pytest

from keras_xd import layers
from keras_xd.layers.xd.operation_products import Architecture, fitted_norm, fitted_squares
from keras_xd_tests.layers.xd.distances_test import at_start, layer_of, with_kernel


def channel_pair_maps(layer):
    """Return the constant part and the parts of all kernel places of each pair's map, as rows.

    The places of all pairs at once: each has the rows and columns of its own channels.
    """
    shape = layer.get_build_config()["input_shape"][1:]
    zero = np.zeros(layer.kernel.shape, "float32")
    parts = [with_kernel(layer, zero)]
    for taps in np.ndindex(*layer.kernel_size):
        unit = zero.copy()
        unit[taps] = 1
        parts.append(with_kernel(layer, unit) - parts[0])
    parts = np.reshape(parts, (len(parts), np.prod(shape[:-1]), shape[-1], -1, layer.filters))
    return {
        (channel, filter): (rows[0], rows[1:])
        for channel, filter in np.ndindex(*zero.shape[-2:])
        for rows in [parts[:, :, channel, :, filter].reshape(len(parts), -1)]
    }


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
    layer = layer_of(case)
    kernel = layer.kernel.numpy()
    variance = np.mean(kernel.astype("float64") ** 2)
    named = at_start(layer, name)
    total, explained = fitted_squares(Architecture(layer), Architecture(named))
    expected = [0.0, 0.0]
    constants, fixed = [], []
    maps, named_maps = channel_pair_maps(layer), channel_pair_maps(named)
    for pair, (constant, places) in maps.items():
        fixed_part, weights = named_maps[pair]
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
