"""Kernels that keep the variance of what they are convolved with, from the first step on."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_xd import layers
from keras_xd.layers.ccnn.ck_conv import CKConv

CHANNELS = 64
# The kinds, with frequencies from far below to far above what a grid can hold.
NETWORKS = [
    ("magnet", 0.5),
    ("magnet", 4.0),
    ("magnet", 2976.0),
    ("siren", 1.0),
    ("siren", 30.0),
    ("fourier", 0.5),
    ("fourier", 8.0),
    ("fourier", 21500.0),
]
# Points and taps of each axis, and the padding.
GRIDS = [
    ((64,), None, "same"),
    ((64,), 33, "causal"),
    ((300,), None, "circular"),
    ((16, 12), None, "circular"),
    ((24, 24), 33, "same"),
]


def made(kind, frequency, sizes, taps, padding, **kwargs):
    layer = CKConv(
        len(sizes),
        layers.KernelNetwork(kind, frequency=frequency, seed=3),
        taps,
        padding=padding,
        seed=5,
        **kwargs,
    )
    layer.build((None, *sizes, CHANNELS))
    return layer


def kernels(layer):
    """Return the kernels, `(points, channels)`."""
    return ops.convert_to_numpy(layer.kernel).reshape(-1, CHANNELS)


# Every grid with every kind of network, frequencies and first sizes in turn.
@pytest.mark.parametrize(
    "kind, frequency, sizes, taps, padding, first",
    [
        (*network, *grid, (3.0, 7.0, None, "unmasked")[(i + j) // 2 % 4])
        for i, network in enumerate(NETWORKS)
        for j, grid in enumerate(GRIDS)
        if (i + j) % 2 == 0
    ],
)
def test_every_kernel_keeps_the_variance(kind, frequency, sizes, taps, padding, first, rng):
    masked = {"learn_kernel_size": False}
    if first != "unmasked":
        masked = {"initial_kernel_size": first}
    layer = made(kind, frequency, sizes, taps, padding, **masked)
    found = kernels(layer)
    # Σ w² for inputs that are independent, (Σ w)² for those that are constant under the kernel.
    assert 0.7 < np.mean(np.sum(found**2, axis=0)) < 1.4
    assert 0.7 < np.mean(np.sum(found, axis=0) ** 2) < 1.4
    x = rng.normal(size=(2, *sizes, CHANNELS)).astype("float32")
    if first == 3.0:  # zeros around the inputs take from the variance of large kernels
        assert 0.5 < np.var(np.asarray(layer(x))) < 2


@pytest.mark.parametrize("padding", ["same", "circular"])
@pytest.mark.parametrize("temperature", [25.0, 50.0])
def test_all_frequencies_that_a_mask_leaves_keep_their_variance(padding, temperature, rng):
    options = {"learn_resolution": True, "temperature": temperature, "initial_kernel_size": 5.0}
    layer = made("magnet", 8.0, (64,), None, padding, **options)
    x = rng.normal(size=(4, 64, CHANNELS)).astype("float32")
    assert 0.5 < np.var(np.asarray(layer(x))) < 2
    layer.resolution_mask.length.assign([-0.1])
    mask = ops.convert_to_numpy(layer.resolution_mask.values[0])
    assert 0.5 < np.var(np.asarray(layer(x))) / np.mean(mask**2) < 2


def test_a_single_tap_is_the_constant_with_a_finite_gradient():
    layer = layers.CKConv1D(
        layers.KernelNetwork(seed=1), kernel_size=1, learn_kernel_size=False, seed=1
    )
    layer.build((None, 6, 3))
    with tf.GradientTape() as tape:
        kernel = layer.kernel
    np.testing.assert_allclose(kernel[0], layer.head_bias, atol=1e-6)
    sources = [v.value for v in layer.trainable_variables]
    for gradient in tape.gradient(kernel, sources, unconnected_gradients="zero"):
        assert np.all(np.isfinite(gradient))
