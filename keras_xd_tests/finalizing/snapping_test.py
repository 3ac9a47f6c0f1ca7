"""Operations that become plain layers: which one, with the outputs that its distance tells."""

import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.finalizing.snapping import snap
from keras_xd.layers.xd.separable import XDSeparableConv
from keras_xd.testing import assert_close


def built(layer, shape, rng=None, scale=0.0):
    layer.build((None, *shape))
    if layer.use_bias:
        layer.bias.assign(np.linspace(-1, 1, layer.bias.shape[0]))
    for variable in layer.architecture_variables if scale else ():
        variable.assign_add(scale * float(np.std(variable)) * rng.normal(size=variable.shape))
    return layer


# Operations at their starts, shapes of their inputs, the plain layer and what it computes.
CASES = {
    "same": (layers.XDConv2D(4, 3, padding="same", activation="relu"), (8, 7, 2), "Conv2D", "3×3"),
    "strided": (
        layers.XDConv2D(4, 3, strides=2, padding="same", groups=2),
        (8, 7, 2),
        "Conv2D",
        "3×3",
    ),
    "causal": (
        layers.XDConv1D(4, 3, padding="causal", dilation_rate=2),
        (16, 2),
        "Conv1D",
        "3",
    ),
    "triangular": (layers.XDCausalConv1D(4, 2, use_bias=False), (12, 2), "Conv1D", "2"),
    "transposed": (
        layers.XDConv2DTranspose(3, 3, strides=2, padding="same"),
        (4, 5, 2),
        "Conv2DTranspose",
        "3×3",
    ),
    "depthwise": (
        layers.XDDepthwiseConv2D(3, depth_multiplier=2, activation="relu"),
        (7, 7, 2),
        "DepthwiseConv2D",
        "3×3",
    ),
    "separable": (
        layers.XDSeparableConv2D(4, 3, padding="same", activation="relu"),
        (7, 6, 3),
        "SeparableConv2D",
        "3×3",
    ),
    "searched pointwise": (
        layers.XDSeparableConv1D(4, 3, search_pointwise=True),
        (12, 3),
        "SeparableConv1D",
        "3",
    ),
    "K-operation": (layers.KOpConv2D(4, 3, padding="same"), (8, 7, 2), "Conv2D", "3×3"),
    "pooling": (
        layers.XDConv2D(2, 2, 2, warm_start="average_pooling", use_bias=False),
        (8, 6, 2),
        "AveragePooling2D",
        "2×2",
    ),
    "identity": (
        layers.XDConv2D(2, 3, padding="same", warm_start="identity", use_bias=False),
        (8, 6, 2),
        "Identity",
        "identity",
    ),
    "activation": (
        layers.XDConv1D(2, 3, padding="same", warm_start="identity", activation="relu"),
        (8, 2),
        "DepthwiseConv1D",  # because of the bias
        "1",
    ),
    "zero": (
        layers.XDConv1D(2, 3, padding="same", warm_start="zero", use_bias=False),
        (8, 2),
        "Rescaling",
        "zero",
    ),
    "zero with bias": (
        layers.XDConv1D(3, 3, padding="same", warm_start="zero", activation="relu"),
        (8, 2),
        "Conv1D",
        "zero",
    ),
    "Fourier": (
        layers.XDConv1D(3, 5, padding="circular", warm_start="fourier_operator"),
        (16, 2),
        "SpectralConv",
        "3 modes",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operations_at_their_starts_are_plain_layers(name, rng):
    layer, shape, kind, text = CASES[name]
    layer = built(type(layer).from_config(layer.get_config()), shape)
    found = snap(layer, 1e-3)
    assert type(found.layer).__name__ == kind and found.operation.endswith(text)
    assert found.distance < 1e-3 and found.reason is None
    inputs = rng.normal(size=(3, *shape)).astype("float32")
    expected = np.array(layer(inputs))
    assert tuple(found.layer.compute_output_shape((3, *shape))) == expected.shape
    assert found.layer.name == layer.name
    assert_close(np.array(found.layer(inputs)), expected)


@pytest.mark.parametrize("name", ["same", "strided", "transposed", "depthwise", "Fourier"])
def test_the_distance_is_the_error_on_white_noise(name, rng):
    layer, shape, *_ = CASES[name]
    config = {**layer.get_config(), "use_bias": False, "activation": None}
    layer = built(type(layer).from_config(config), shape, rng, scale=0.05)
    found = snap(layer, 0.9)
    inputs = rng.normal(size=(2000, *shape)).astype("float32")
    expected = np.array(layer(inputs))
    error = np.linalg.norm(np.array(found.layer(inputs)) - expected) / np.linalg.norm(expected)
    assert 0.01 < found.distance < 0.9
    np.testing.assert_allclose(error, found.distance, rtol=0.05)
    assert snap(layer, 0.01).layer is None


@pytest.mark.parametrize(
    "layer, shape, reason",
    [
        (layers.XDConv1D(2, 3), (5000, 1), "more than 4096 points"),
        (XDSeparableConv(3, 2, 2), (4, 4, 4, 1), "no separable convolution"),
        (
            layers.SearchableResampled(layers.XDConv1D(2, 3, padding="circular"), 8),
            (16, 1),
            "another grid",
        ),
    ],
)
def test_what_cannot_be_compared_stays(layer, shape, reason):
    layer.build((None, *shape))
    found = snap(layer, 0.5)
    assert found.layer is None and found.distance is None and reason in found.reason


def test_the_cheapest_within_the_tolerance_is_taken(rng):
    layer = built(layers.XDConv2D(2, 5, padding="same", use_bias=False), (12, 12, 2))
    kernel = 0.01 * rng.normal(size=(5, 5, 2, 2))
    kernel[1:4, 1:4] = rng.normal(size=(3, 3, 2, 2))
    layer.kernel.assign(kernel)
    assert snap(layer, 1e-3).operation == "convolution 5×5"
    assert snap(layer, 0.05).operation == "convolution 3×3"
    kernel *= np.eye(2)
    layer.kernel.assign(kernel)
    found = snap(layer, 0.05)
    assert found.operation == "depthwise convolution 3×3"
    assert type(found.layer) is keras.layers.DepthwiseConv2D


def test_poolings_are_of_operations_without_an_activation():
    options = {"strides": 2, "warm_start": "average_pooling", "use_bias": False}
    kinds = {
        activation: type(
            snap(
                built(layers.XDConv2D(2, 2, activation=activation, **options), (8, 6, 2)), 0.05
            ).layer
        )
        for activation in (None, "relu")
    }
    assert kinds[None] is keras.layers.AveragePooling2D
    assert kinds["relu"] is not keras.layers.AveragePooling2D
