"""Digits on the sphere: geometry by hand, a plain loop as oracle, rotations."""

import math

import numpy as np
import pytest

from keras_xd_tests import example_scripts

data = example_scripts.load("datasets.spherical")


def pixel(image, row, column):
    """Read an image between its pixels, zeros outside."""

    def at(i, j):
        inside = 0 <= i < image.shape[0] and 0 <= j < image.shape[1]
        return float(image[i, j]) if inside else 0.0

    top, left = math.floor(row), math.floor(column)
    down, right = row - top, column - left
    upper = (1 - right) * at(top, left) + right * at(top, left + 1)
    lower = (1 - right) * at(top + 1, left) + right * at(top + 1, left + 1)
    return (1 - down) * upper + down * lower


def seen(image, point):
    """Follow the line from (0, 0, 2.001) through a point of the sphere down to the plane."""
    x, y, z = point[0], point[1], point[2] + 1
    t = -z / (z - 2.001)
    row, column = ((1 + t) * x + 1.5) / 3, ((1 + t) * y + 1.5) / 3
    return pixel(image, 28 * row, 28 * column)


@pytest.mark.parametrize("seed", [None, 5])
def test_every_pixel_by_a_plain_loop(seed, rng):
    image = rng.uniform(size=(28, 28)).astype("float32")
    turn = np.eye(3) if seed is None else data.rotation(np.random.default_rng(seed))
    expected = np.empty((60, 60))
    for j in range(60):
        theta = math.pi * j / 60
        for k in range(60):
            phi = math.pi * k / 30
            point = math.sin(theta) * math.cos(phi), math.sin(theta) * math.sin(phi)
            expected[j, k] = seen(image, turn @ np.array([*point, math.cos(theta)]))
    expected = 255 * (expected - expected.min()) / (expected.max() - expected.min())
    found = data.project(image[None], seed)
    assert found.shape == (1, 60, 60, 1) and found.dtype == "uint8"
    np.testing.assert_allclose(found[0, ..., 0] + 0.5, expected, atol=0.51)
    assert found.min() == 0 and found.max() == 255


def test_rotations_are_even_and_proper():
    rng = np.random.default_rng(0)
    drawn = np.stack([data.rotation(rng) for _ in range(4000)])
    identity = np.broadcast_to(np.eye(3), drawn.shape)
    np.testing.assert_allclose(drawn @ drawn.swapaxes(1, 2), identity, atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(drawn), 1, atol=1e-12)
    # Even: entries have mean 0 and variance 1/3, and traces mean 0 and variance 1 (standard errors
    # of 4,000 draws: 0.009, 0.005, 0.016, 0.016).
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.04)
    np.testing.assert_allclose(drawn.var(axis=0), 1 / 3, atol=0.02)
    traces = np.trace(drawn, axis1=1, axis2=2)
    assert abs(traces.mean()) < 0.07 and abs(traces.var() - 1) < 0.07
