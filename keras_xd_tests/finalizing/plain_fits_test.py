"""The nearest plain layers, against least squares on dense matrices of the linear map."""

import numpy as np
import pytest

from keras_xd import layers
from keras_xd.finalizing.plain_fits import LinearMap, kept_frequencies
from keras_xd.layers.xd.conv import TransposedXDLayer

CASES = {
    "same": (lambda: layers.XDConv1D(3, 3, padding="same", use_bias=False), (9, 2)),
    "valid": (lambda: layers.XDConv1D(2, 3, use_bias=False), (9, 2)),
    "strided": (lambda: layers.XDConv1D(2, 3, 2, padding="same", groups=2, use_bias=False), (9, 2)),
    "dilated": (
        lambda: layers.XDConv1D(2, 3, padding="causal", dilation_rate=2, use_bias=False),
        (10, 2),
    ),
    "two axes": (
        lambda: layers.XDConv2D(
            2, (3, 2), padding="same", frequency_bias=True, channel_gates=True, use_bias=False
        ),
        (5, 4, 2),
    ),
    "transposed": (
        lambda: layers.XDConv1DTranspose(2, 3, 2, padding="same", use_bias=False),
        (6, 2),
    ),
    "circular": (lambda: layers.XDConv1D(2, 3, padding="circular", use_bias=False), (8, 2)),
}


def moved(name, rng, scale=0.3):
    make, shape = CASES[name]
    layer = make()
    layer.build((None, *shape))
    for variable in layer.architecture_variables:
        variable.assign_add(scale * float(np.std(variable)) * rng.normal(size=variable.shape))
    return layer, shape


def dense(layer, shape):
    """Return the map of a layer without bias, `(inputs, outputs)`, by unit vectors."""
    units = np.eye(int(np.prod(shape)), dtype="float32").reshape(-1, *shape)
    return np.array(layer(units), "float64").reshape(len(units), -1)


def keras_convolution(layer, fit):
    """Return a convolution of one group; one of several has a part of its kernel."""
    import keras

    ranks = (keras.layers.Conv1D, keras.layers.Conv2D)
    options = {"padding": fit.padding, "dilation_rate": fit.dilation, "use_bias": False}
    if isinstance(layer, TransposedXDLayer):
        return keras.layers.Conv1DTranspose(2, fit.kernel_size, layer.strides, **options)
    kind = ranks[layer.rank - 1]
    return kind(layer.filters, fit.kernel_size, layer.strides, **options)


@pytest.mark.parametrize("name", CASES)
def test_convolutions_are_the_least_squares_fits(name, rng):
    """Each weight of a Keras convolution is a column; their span is what it can compute."""
    layer, shape = moved(name, rng)
    found, target = LinearMap(layer), dense(layer, shape).ravel()
    fits = found.convolutions()
    assert len(fits) > (0 if name == "valid" else 3)
    for fit in fits[:: max(len(fits) // 6, 1)]:
        plain = keras_convolution(layer, fit)
        plain.build((None, *shape))
        columns = []
        groups = getattr(layer, "groups", 1)
        *taps, inputs, outputs = plain.kernel.shape
        for *tap, row, column in np.ndindex(*taps, inputs // groups, outputs):
            row += column // (outputs // groups) * (inputs // groups)
            kernel = np.zeros(plain.kernel.shape)
            kernel[(*tap, row, column)] = 1.0
            plain.set_weights([kernel])
            columns.append(dense(plain, shape).ravel())
        columns = np.array(columns).T
        weights = np.linalg.lstsq(columns, target, rcond=None)[0]
        error = np.linalg.norm(columns @ weights - target) / np.linalg.norm(target)
        np.testing.assert_allclose(fit.distance, error, rtol=1e-3, atol=1e-4)
        used = np.any(columns != 0, axis=0)  # a tap that only meets padding is free
        kernel = found.kernel_of(fit)
        if found.transposed:
            kernel = np.moveaxis(kernel, -1, -2)
        np.testing.assert_allclose(kernel.ravel()[used], weights[used], atol=1e-4)


def test_poolings_are_compared_as_they_are(rng):
    import keras

    layer = layers.XDConv2D(2, 3, 2, padding="same", use_bias=False)
    layer.build((None, 6, 5, 2))
    for variable in layer.architecture_variables:
        variable.assign_add(0.1 * rng.normal(size=variable.shape))
    target = dense(layer, (6, 5, 2))
    for fit in LinearMap(layer).poolings():
        assert fit.operation == "average pooling"
        pool = keras.layers.AveragePooling2D(fit.kernel_size, 2, fit.padding)
        error = np.linalg.norm(dense(pool, (6, 5, 2)) - target) / np.linalg.norm(target)
        np.testing.assert_allclose(fit.distance, error, rtol=1e-3)


@pytest.mark.parametrize("sizes", [(8,), (7,), (6, 8), (5, 6), (4, 5, 4)])
def test_fourier_operators_explain_what_they_compute(sizes, rng):
    """The fit of every number of modes, against the layer with these weights."""
    rank = len(sizes)
    kind = (layers.XDConv1D, layers.XDConv2D, layers.XDConv3D)[rank - 1]
    layer = kind(2, 3, padding="circular", use_bias=False)
    layer.build((None, *sizes, 2))
    for variable in layer.architecture_variables:
        variable.assign_add(0.2 * float(np.std(variable)) * rng.normal(size=variable.shape))
    found, target = LinearMap(layer), dense(layer, (*sizes, 2))
    for fit in found.fourier_operators():
        index, factors = kept_frequencies(fit.kernel_size, sizes)
        kernel = found.spectral_kernel(list(sizes))[np.ix_(*index)]
        kernel = kernel * (factors > 0)[..., None, None]
        plain = layers.SpectralConv(rank, 2, fit.kernel_size)
        plain.build((None, *sizes, 2))
        plain.set_weights([np.stack([kernel.real, kernel.imag])])
        error = np.linalg.norm(dense(plain, (*sizes, 2)) - target) / np.linalg.norm(target)
        np.testing.assert_allclose(fit.distance, error, rtol=1e-3, atol=1e-4)


def test_frequencies_without_their_mirror_image_explain_nothing():
    index, factors = kept_frequencies((2, 2), (6, 6))
    assert index == [[0, 1, 4, 5], [0, 1]]
    # -2 on the first axis has no 2 beside it, where the last frequency is 0.
    assert factors.tolist() == [[1, 2], [1, 2], [0, 2], [1, 2]]


def test_only_what_is_less_than_rounding_is_zero(rng):
    layer = layers.XDConv1D(3, 3, padding="circular", use_bias=False, channel_gates=True)
    layer.build((None, 8, 2))
    for gate, expected in ((1.0, False), (1e-3, False), (1e-8, True), (0.0, True)):
        layer.architecture_variables[-1].assign(np.full((2, 3), gate))
        assert LinearMap(layer).is_zero == expected
