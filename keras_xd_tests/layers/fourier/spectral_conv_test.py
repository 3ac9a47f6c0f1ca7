"""Spectral convolutions against NumPy's FFT, finite differences and a direct convolution."""

import itertools
import re

import keras
import numpy as np
import pytest

from keras_xd.core import devices
from keras_xd.layers.fourier import spectral_conv
from keras_xd.testing import assert_close, check_layer
from keras_xd_tests.layers.variants import check_variant

CLASSES = {
    1: spectral_conv.SpectralConv1D,
    2: spectral_conv.SpectralConv2D,
    3: spectral_conv.SpectralConv3D,
}


def reference(inputs, kernel, modes):
    """The definition in float64: NumPy's N-D real FFT, a loop over the kept frequencies."""
    axes = tuple(range(1, inputs.ndim - 1))
    sizes = inputs.shape[1:-1]
    spectrum = np.fft.rfftn(inputs.astype("float64"), axes=axes)
    result = np.zeros((*spectrum.shape[:-1], kernel.shape[-1]), dtype="complex128")
    weights = kernel[0].astype("float64") + 1j * kernel[1]
    kept = [[*range(mode), *range(-mode, 0)] for mode in modes[:-1]] + [range(modes[-1])]
    for place, frequency in zip(
        itertools.product(*(range(len(k)) for k in kept)), itertools.product(*kept), strict=True
    ):
        index = (slice(None), *frequency)
        result[index] = spectrum[index] @ weights[place]
    return np.fft.irfftn(result, s=sizes, axes=axes)


def layer_and_inputs(rng, shape, modes, filters=3, **options):
    layer = CLASSES[len(modes)](filters, modes, kernel_initializer="normal", **options)
    layer.build(shape)
    layer.kernel.assign(rng.normal(size=layer.kernel.shape))
    return layer, rng.normal(size=shape).astype("float32")


def compute(layer, inputs):
    return keras.ops.convert_to_numpy(layer(inputs))


@pytest.mark.parametrize(
    ("sizes", "modes"),
    [
        ((16,), (5,)),
        ((16,), (9,)),
        ((17,), (9,)),
        ((13,), (1,)),
        ((1,), (1,)),
        ((8, 8), (4, 5)),
        ((7, 9), (3, 5)),
        ((12, 5), (2, 1)),
        ((11, 6), (1, 4)),
        ((4, 5, 6), (2, 2, 4)),
        ((7, 3, 5), (1, 1, 2)),
        ((81,), (33,)),  # by FFT, as those that follow
        ((66, 5), (33, 2)),
        ((3, 5, 67), (1, 2, 34)),
    ],
)
def test_equals_numpy(rng, sizes, modes):
    """By matrix products for few modes, and by FFT."""
    layer, inputs = layer_and_inputs(rng, (2, *sizes, 4), modes)
    if not devices.has_accelerator():
        assert spectral_conv.are_products_faster(sizes, modes) == (max(modes) < 33)
    expected = reference(inputs, keras.ops.convert_to_numpy(layer.kernel), modes)
    assert_close(compute(layer, inputs), expected)


@pytest.mark.parametrize(
    ("sizes", "modes", "share"),
    [
        ((17,), (9,), 1.0),
        ((7, 9), (3, 4), 0.3),
        ((66, 5), (33, 2), 1e-9),  # all ranks are 1
        ((4, 5, 6), (2, 1, 3), 0.5),
    ],
)
def test_factorised_weights_are_a_tucker_decomposition(sizes, modes, share, rng):
    layer = CLASSES[len(modes)](4, modes, tucker_rank=share, kernel_initializer="normal")
    inputs = rng.normal(size=(2, *sizes, 6)).astype("float32")
    layer.build(inputs.shape)
    assert [weight.name for weight in layer.weights][:2] == ["core", "factor1"]
    core, *factors = (w[0] + 1j * w[1] for w in layer.get_weights())
    shape = (*(2 * mode for mode in modes[:-1]), modes[-1], 6, 4)
    assert [len(factor) for factor in factors] == list(shape)
    assert share > 1e-9 or core.shape == (1,) * len(shape)
    for factor in factors:  # of unit length
        np.testing.assert_allclose(np.sum(np.abs(factor) ** 2, axis=0), 1, rtol=1e-5)
    kernel = core
    for axis, factor in enumerate(factors):
        kernel = np.moveaxis(np.tensordot(factor, kernel, (1, axis)), 0, axis)
    kernel = np.stack([kernel.real, kernel.imag])
    assert_close(compute(layer, inputs), reference(inputs, kernel, modes))


@pytest.mark.parametrize(
    ("sizes", "share", "ranks"),
    [
        ((16, 9, 32, 32), 0.42, (13, 7, 26, 26)),
        ((16, 9, 32, 32), 1.0, (16, 9, 32, 32)),
        ((12, 7, 64, 64), 0.05, (5, 3, 28, 28)),
        ((3, 8, 8), 0.8, (2, 5, 5)),
    ],
)
def test_tucker_ranks_are_those_of_tensorly(sizes, share, ranks):
    """Read from tensorly-torch 0.5.0."""
    assert spectral_conv.tucker_ranks(sizes, share) == ranks


def test_default_initializer():
    layer = spectral_conv.SpectralConv2D(
        8, (2, 3), kernel_initializer=spectral_conv.SpectralUniform(1)
    )
    layer.build((None, 8, 8, 4))
    assert layer.kernel.shape == (2, 4, 3, 4, 8)
    values = keras.ops.convert_to_numpy(layer.kernel)
    assert 0 <= values.min() < 0.001 and 0.99 / 32 < values.max() <= 1 / 32
    assert isinstance(
        spectral_conv.SpectralConv1D(1, 1).kernel_initializer, spectral_conv.SpectralUniform
    )


def test_regularizers_and_constraints(rng):
    layer = spectral_conv.SpectralConv1D(
        2,
        3,
        use_bias=True,
        kernel_regularizer=keras.regularizers.L2(0.5),
        bias_regularizer="l1",
        kernel_constraint="non_neg",
        bias_constraint="non_neg",
    )
    layer.build((None, 8, 1))
    assert layer.kernel.constraint is layer.kernel_constraint is not None
    assert layer.bias.constraint is layer.bias_constraint is not None
    layer(np.zeros((1, 8, 1)))
    expected = 0.5 * np.sum(np.square(layer.kernel.numpy()))
    np.testing.assert_allclose(float(layer.losses[0]), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("rank", "shape", "options"),
    [
        (1, (3, 12, 2), {"filters": 3, "modes": (4,), "activation": "relu", "use_bias": True}),
        (2, (2, 6, 7, 2), {"filters": 2, "modes": (3, 2), "use_bias": True}),
        (1, (2, 8, 4), {"filters": 4, "modes": (3,), "tucker_rank": 0.5}),
        (3, (2, 4, 3, 5, 1), {"filters": 2, "modes": (2, 1, 3)}),
    ],
)
def test_layer_check(rank, shape, options, rng):
    if rank == 2 or "tucker_rank" in options:
        check_layer(CLASSES[rank], options, shape, run_jit=rank == 2)
    else:
        check_variant(CLASSES[rank], options, shape, rng)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 4}, "`rank` must be one of 1, 2, 3. Received: rank=4"),
        ({"filters": 0}, "Received: filters=0"),
        ({"modes": 0}, "Received: modes="),
        ({"modes": (2, 2, 2)}, "Received: modes="),
        ({"data_format": "NHWC"}, "Received: data_format='NHWC'"),
        ({"tucker_rank": 0}, "a number in (0, 1]. Received: tucker_rank=0"),
        ({"tucker_rank": 1.5}, "Received: tucker_rank=1.5"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        spectral_conv.SpectralConv(**{"rank": 2, "filters": 1, "modes": 2, **options})


@pytest.mark.parametrize(
    ("modes", "sizes"), [((5,), (7,)), ((6,), (8,)), ((3, 1), (5, 5)), ((1, 4), (5, 5))]
)
def test_too_many_modes(modes, sizes):
    layer = CLASSES[len(modes)](1, modes)
    with pytest.raises(ValueError, match="`modes` must not exceed the spectrum.*Received: modes="):
        layer.build((None, *sizes, 1))


def test_wrong_input_shapes():
    layer = spectral_conv.SpectralConv1D(1, 2)
    with pytest.raises(ValueError, match="expected ndim=3"):
        layer(np.zeros((1, 8, 8, 1)))
    with pytest.raises(ValueError, match="number of input channels must be known"):
        layer.build((None, 8, None))
