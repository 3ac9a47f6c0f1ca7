"""Masked layers begin as the layers of Keras of the same arguments."""

import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.testing import assert_close, check_layer


@pytest.mark.parametrize(
    ("layer_class", "options", "shape"),
    [
        (layers.MaskedConv1D, {"filters": 3, "kernel_size": 5, "padding": "same"}, (2, 7, 2)),
        (layers.MaskedDepthwiseConv2D, {"kernel_size": 3, "use_bias": False}, (2, 5, 6, 2)),
    ],
)
def test_layers_behave_as_keras_expects(layer_class, options, shape):
    options |= {"mask_kernel": True, "initial_value": 0.5}
    convolution = layer_class is layers.MaskedConv1D
    check_layer(layer_class, options, shape, run_jit=convolution, run_mixed_precision=convolution)


CASES = [
    ("Conv1D", {"filters": 4, "kernel_size": 3, "padding": "causal", "dilation_rate": 2}, (9, 2)),
    ("Conv1D", {"filters": 4, "kernel_size": 4, "strides": 2, "activation": "gelu"}, (9, 2)),
    ("Conv2D", {"filters": 4, "kernel_size": (3, 1), "groups": 2, "padding": "same"}, (5, 6, 2)),
    ("Conv2D", {"filters": 4, "kernel_size": 5, "strides": 2, "padding": "same"}, (5, 6, 2)),
    ("DepthwiseConv1D", {"kernel_size": 3, "depth_multiplier": 2, "strides": 2}, (9, 2)),
    ("DepthwiseConv2D", {"kernel_size": 3, "padding": "same", "activation": "relu"}, (5, 6, 2)),
    ("Dense", {"units": 4, "activation": "relu"}, (5, 2)),
]


@pytest.mark.parametrize(("name", "options", "shape"), CASES)
def test_they_begin_as_the_layers_of_keras(name, options, shape, rng):
    plain = getattr(keras.layers, name)(**options)
    masked = getattr(layers, f"Masked{name}")(**options, mask_kernel=True)
    x = rng.standard_normal((2, *shape)).astype("float32")
    expected = np.asarray(plain(x))
    masked(x)
    plain.bias.assign(rng.standard_normal(plain.bias.shape))
    for weight in ("kernel", "bias"):
        getattr(masked, weight).assign(getattr(plain, weight))
    expected = np.asarray(plain(x))
    np.testing.assert_array_equal(masked(x), expected)
    config = masked.plain_config()
    assert {key: config[key] for key in options} == {
        key: plain.get_config()[key] for key in options
    }
    if masked.kernel_mask is not None:
        size = len(masked.kernel_mask.axis)
        masked.kernel_mask.length.assign([0.3] * size)
        assert np.max(np.abs(np.asarray(masked(x)) - expected)) > 1e-3
        assert_close(np.asarray(masked.finalize()(x)), np.asarray(masked(x)))


@pytest.mark.parametrize("name", ["Conv2D", "DepthwiseConv2D"])
def test_channels_first(name, rng):
    options = {"kernel_size": 3, "padding": "same", "data_format": "channels_first"}
    options |= {"filters": 3} if name == "Conv2D" else {}
    layer = getattr(layers, f"Masked{name}")(**options, mask_kernel=True)
    x = rng.standard_normal((2, 4, 5, 6)).astype("float32")
    layer.build(x.shape)
    plain = getattr(keras.layers, name)(**{**options, "data_format": "channels_last"})
    plain.build((2, 5, 6, 4))
    plain.kernel.assign(layer.kernel)
    expected = np.asarray(plain(np.moveaxis(x, 1, -1)))
    assert_close(np.moveaxis(np.asarray(layer(x)), 1, -1), expected)
    assert layer.complexity(x.shape) == 5 * 6 * 9 * 4 * (3 if name == "Conv2D" else 1)


def test_channels_first_are_padded_at_the_start(rng):
    options = {"padding": "causal", "dilation_rate": 2}
    layer = layers.MaskedConv1D(3, 3, data_format="channels_first", **options)
    plain = keras.layers.Conv1D(3, 3, **options)
    x = rng.standard_normal((2, 9, 2)).astype("float32")
    plain(x)
    layer.build((2, 2, 9))
    layer.kernel.assign(plain.kernel)
    outputs = np.asarray(layer(x.swapaxes(1, 2)))
    assert_close(outputs.swapaxes(1, 2), np.asarray(plain(x)))


def test_a_causal_kernel_loses_its_oldest_taps():
    layer = layers.MaskedConv1D(1, 5, padding="causal", mask_kernel=True)
    layer.build((None, 8, 1))
    layer.kernel_mask.length.assign([0.4])
    assert layer.kernel_supports == [(3, 5)]
