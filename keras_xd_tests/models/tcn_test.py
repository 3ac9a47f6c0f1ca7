"""Temporal convolutional networks: sizes by hand, what they compute, what they can see."""

import keras
import numpy as np
import pytest

from keras_xd import models


@pytest.mark.parametrize("dilated", [True, False])
def test_parameters(dilated):
    model = models.tcn((None, 88), 88, dilated=dilated)
    first = (2 * 88 + 1) * 150 + (88 + 1) * 150  # the convolution and the one of size 1
    assert model.count_params() == first + 5 * (2 * 150 + 1) * 150 + (150 + 1) * 88
    assert model.count_params() == 278_938
    assert model.output_shape == (None, None, 88)


def causal_convolution(x, kernel, bias, dilation):
    """`y[t] = Σ_j w[j] x[t - (k - 1 - j) dilation] + bias`, term by term."""
    size, steps = len(kernel), x.shape[1]
    y = np.tile(bias, (*x.shape[:2], 1))
    for t in range(steps):
        for j in range(size):
            source = t - (size - 1 - j) * dilation
            if source >= 0:
                y[:, t] += x[:, source] @ kernel[j]
    return y


@pytest.mark.parametrize("dilated", [True, False])
def test_computes_what_it_says(dilated, rng):
    model = models.tcn((11, 3), 2, channels=5, levels=2, kernel_size=3, dilated=dilated)
    for variable in model.variables:
        if "seed" not in variable.name:
            variable.assign(rng.normal(0, 0.5, size=variable.shape))
    weights = {
        layer.name: [np.asarray(w, "float64") for w in layer.trainable_weights]
        for layer in model.layers
    }
    inputs = rng.normal(size=(2, 11, 3)).astype("float32")
    x = inputs.astype("float64")
    for level in (1, 2):
        dilation = level if dilated else 1
        shortcut = x
        if level == 1:
            kernel, bias = weights["level1_skip"]
            shortcut = x @ kernel[0] + bias
        for number in (1, 2):
            x = causal_convolution(x, *weights[f"level{level}_conv{number}"], dilation)
            x = np.maximum(x, 0)
        x = np.maximum(x + shortcut, 0)
    kernel, bias = weights["outputs"]
    np.testing.assert_allclose(model(inputs), x @ kernel + bias, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        # Steps that an output depends on, its own among them: 1 + 2 (k - 1) Σ dilations.
        ({"levels": 3, "kernel_size": 2}, 1 + 2 * (1 + 2 + 4)),
        ({"levels": 3, "kernel_size": 2, "dilated": False}, 1 + 2 * 3),
        ({"levels": 2, "kernel_size": 4}, 1 + 2 * 3 * (1 + 2)),
    ],
)
def test_sees_the_past_only(options, seen, rng):
    model = models.tcn((24, 2), 2, channels=8, **options)
    for layer in model.layers:
        if isinstance(layer, keras.layers.Conv1D):  # no ReLU is closed: every path is open
            layer.kernel.assign(rng.uniform(0.1, 0.3, size=layer.kernel.shape))
    inputs = rng.uniform(0.5, 1, size=(1, 24, 2)).astype("float32")
    before = np.asarray(model(inputs))
    for step in (0, 3, 23):
        changed = inputs.copy()
        changed[:, step] += 1
        moved = np.abs(np.asarray(model(changed)) - before).max(axis=(0, 2)) > 1e-6
        steps = np.arange(24)
        np.testing.assert_array_equal(moved, (steps >= step) & (steps < step + seen))


def test_dropout_follows_every_convolution():
    model = models.tcn((6, 2), 2, channels=4, levels=2, dropout=0.3)
    dropouts = [layer for layer in model.layers if isinstance(layer, keras.layers.Dropout)]
    assert [layer.rate for layer in dropouts] == [0.3] * 4
    inputs = np.ones((1, 6, 2), "float32")
    assert np.abs(model(inputs, training=True) - model(inputs)).max() > 0
