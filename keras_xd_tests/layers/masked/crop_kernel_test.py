"""Convolutions with fewer taps, whose outputs stay where they are."""

import itertools

import keras
import numpy as np
import pytest

from keras_xd.layers.masked import crop_kernel
from keras_xd.testing import assert_close


@pytest.mark.parametrize("padding", ["valid", "same", "causal"])
def test_padded_is_what_keras_adds(padding):
    """A kernel of ones counts how many of its taps lie inside."""
    for size, taps, stride, rate in itertools.product((5, 8), (1, 2, 5), (1, 2, 3), (1, 2)):
        if (stride > 1 and rate > 1) or (padding == "valid" and (taps - 1) * rate + 1 > size):
            continue
        layer = keras.layers.Conv1D(
            1, taps, stride, padding, dilation_rate=rate, kernel_initializer="ones", use_bias=False
        )
        counts = np.asarray(layer(np.ones((1, size, 1), "float32")))[0, :, 0]
        before, after = crop_kernel.padded(padding, size, taps, stride, rate)
        inside = np.pad(np.ones(size), (before, after))
        places = range(0, len(inside) - (taps - 1) * rate, stride)
        expected = [sum(inside[i + rate * j] for j in range(taps)) for i in places]
        np.testing.assert_array_equal(counts, expected)


CASES = [
    (1, {"kernel_size": 5, "padding": "same"}, [(1, 4)], (9, 2)),
    (1, {"kernel_size": 5, "padding": "same", "strides": 2}, [(2, 3)], (9, 2)),
    (1, {"kernel_size": 4, "padding": "same", "dilation_rate": 2}, [(1, 3)], (9, 2)),
    (1, {"kernel_size": 5, "padding": "causal"}, [(3, 5)], (9, 2)),
    (1, {"kernel_size": 5, "padding": "causal", "dilation_rate": 2}, [(4, 5)], (9, 2)),
    (1, {"kernel_size": 5}, [(1, 4)], (9, 2)),
    (2, {"kernel_size": 5, "padding": "same", "strides": 2}, [(1, 4), (2, 3)], (8, 7, 2)),
    (2, {"kernel_size": (7, 3), "padding": "same", "strides": (1, 2)}, [(2, 5), (0, 3)], (6, 6, 2)),
    (2, {"kernel_size": (5, 4)}, [(2, 3), (1, 3)], (8, 7, 2)),
]


# Keras has no causal depthwise convolution.
PAIRS = [
    (number, depthwise)
    for depthwise in (False, True)
    for number, case in enumerate(CASES)
    if not (depthwise and case[1].get("padding") == "causal")
]


@pytest.mark.parametrize(("case", "depthwise"), PAIRS)
def test_outputs_stay_where_they_are(case, depthwise, rng):
    rank, options, supports, shape = CASES[case]
    plain = (keras.layers.Conv1D, keras.layers.Conv2D)
    channelwise = (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)
    keras_class = (channelwise if depthwise else plain)[rank - 1]
    arguments = {"use_bias": False, **options, **({} if depthwise else {"filters": 3})}
    layer = keras_class(**arguments)
    x = rng.standard_normal((2, *shape)).astype("float32")
    layer.build(x.shape)
    kernel = np.zeros(layer.kernel.shape)
    inside = tuple(slice(*support) for support in supports)
    kernel[inside] = rng.standard_normal(kernel[inside].shape)
    layer.kernel.assign(kernel)
    around, config, kept = crop_kernel.crop(layer, x.shape, supports)
    assert kept == supports
    assert config["kernel_size"] == tuple(stop - start for start, stop in supports)
    cropped = keras_class.from_config({**layer.get_config(), **config})
    y = x
    for other in around:
        y = other(y)
    cropped.build(y.shape)
    cropped.kernel.assign(kernel[inside])
    assert_close(np.asarray(cropped(y)), np.asarray(layer(x)))


def test_what_keras_cannot_crop_is_kept():
    layer = keras.layers.Conv1D(1, 5, data_format="channels_first")
    assert crop_kernel.crop(layer, (None, 1, 8), [(1, 4)]) == ([], {}, [(0, 5)])
