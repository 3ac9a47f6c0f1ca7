"""Spherical convolutions: integrals as oracle, rotations of inputs, sizes that are refused."""

import numpy as np
import pytest

from keras_xd.testing import check_layer
from keras_xd_tests import example_scripts

expert = example_scripts.load("experiments.k.spherical_expert")
data = example_scripts.load("datasets.spherical")


def points(size):
    """The grid of a size, `(size², 3)`, and the measure of its points."""
    polar = np.pi * np.arange(size)[:, None] / size
    azimuth = 2 * np.pi * np.arange(size) / size
    height = np.broadcast_to(np.cos(polar), (size, size))
    found = [np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), height]
    return np.stack(found, axis=-1).reshape(-1, 3)


def bumps(where, centres, heights, degree):
    """A map of degrees up to that one, at points anywhere on the sphere."""
    return ((1 + where @ centres.T) / 2) ** degree @ heights


def drawn(rng, channels):
    centres = rng.standard_normal((6, 3))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    return centres, rng.standard_normal((6, channels))


def convolved(layer, values, size, where):
    """`y(p) = ∫ h(p · q) x(q) dq` with the filters `h(t) = Σ_l g_l (2l + 1) / 4π · P_l(t)`."""
    g = np.asarray(layer.kernel, "float64")
    series = g * (2 * np.arange(len(g)) + 1)[:, None, None] / (4 * np.pi)
    filters = np.polynomial.legendre.legval(where @ points(size).T, series)  # (j, i, p, q)
    weighted = values * expert.areas(size)[:, None]
    return np.einsum("jipq,qj->pi", filters, weighted) + np.asarray(layer.bias)


@pytest.mark.parametrize(("size", "degrees", "new"), [(12, 6, 12), (20, 5, 10), (8, 4, 20)])
def test_outputs_are_integrals_and_turn_with_the_inputs(size, degrees, new, rng):
    """To rounding, as long as inputs have no degrees from half of their rows on."""
    layer = expert.SphericalConv(3, degrees, new)
    layer.build((None, size, size, 2))
    layer.bias.assign([0.5, -1.0, 2.0])
    centres, heights = drawn(rng, 2)
    turn = data.rotation(rng)
    for rotation in (np.eye(3), turn):
        x = bumps(points(size) @ rotation.T, centres, heights, size // 2 - 1)
        y = np.asarray(layer(x.reshape(1, size, size, 2).astype("float32")))
        upright = bumps(points(size), centres, heights, size // 2 - 1)
        expected = convolved(layer, upright, size, points(new) @ rotation.T)
        np.testing.assert_allclose(y.reshape(-1, 3), expected, atol=2e-5 * np.abs(expected).max())


def test_quadrature_is_exact_below_the_size():
    for size in (8, 14, 60):
        basis = expert.harmonics(size, size // 2)
        products = (basis * expert.areas(size)) @ basis.T
        np.testing.assert_allclose(products, np.eye(len(basis)), atol=1e-13)
    np.testing.assert_allclose(points(60).reshape(60, 60, 3), data.grid(), atol=1e-15)


def test_layer_checks():
    arguments = {"filters": 3, "degrees": 3, "size": 6, "activation": "relu"}
    check_layer(expert.SphericalConv, arguments, (2, 8, 8, 2), run_jit=False)
