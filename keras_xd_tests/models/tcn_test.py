"""Temporal convolutional networks: sizes by hand, what they compute, what they can see."""

import keras
import numpy as np
import pytest

import keras_xd
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


@pytest.mark.parametrize(("dilated", "normalized"), [(True, False), (False, False), (True, True)])
def test_computes_what_it_says(dilated, normalized, rng):
    options = {"dilated": dilated, "weight_normalization": normalized}
    model = models.tcn((11, 3), 2, channels=5, levels=2, kernel_size=3, **options)
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
            kernel, bias, *scales = weights[f"level{level}_conv{number}"]
            for scale in scales:  # of each filter, of its own norm
                for i in range(5):
                    kernel[..., i] *= scale[i] / np.linalg.norm(kernel[..., i])
            assert len(scales) == normalized
            x = causal_convolution(x, kernel, bias, dilation)
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


def test_normalized_weights_begin_as_a_convolution_and_only_turn(rng):
    layer = keras_xd.layers.WeightNormalizedConv1D(4, 3, dtype="float64")
    inputs = rng.standard_normal((2, 9, 5))
    layer.build(inputs.shape)
    direction, _, scale = layer.trainable_weights
    drawn = np.asarray(direction)
    np.testing.assert_allclose(layer.kernel, drawn, rtol=1e-12)
    np.testing.assert_allclose(scale, np.linalg.norm(drawn, axis=(0, 1)), rtol=1e-12)
    model = keras.Sequential([layer])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(inputs, rng.standard_normal((2, 7, 4)), verbose=0)
    step = np.asarray(direction) - drawn
    assert np.abs(step).max() > 1e-3
    np.testing.assert_allclose(np.sum(step * drawn, axis=(0, 1)), 0, atol=1e-12)
    assert np.abs(np.asarray(scale) - np.linalg.norm(drawn, axis=(0, 1))).min() > 1e-4
    direction.assign(0 * direction)
    assert not np.any(np.asarray(layer.kernel))


@pytest.mark.parametrize(
    ("to", "kind", "options"),
    [
        ("xd", "XDCausalConv1D", {}),
        ("k_operation", "KOpCausalConv1D", {}),
        ("darts", "MixedOperation1D", {"other_weight": 0.0}),
        ("dash", "DashConv1D", {"other_weight": 0.0}),
        ("masked", "MaskedConv1D", {}),
        (None, "WeightNormalizedConv1D", {}),
    ],
)
def test_normalized_weights_are_folded(to, kind, options, rng):
    """Into the kernels of a search space and of a finalized model, in nested models too."""
    network = models.tcn((12, 3), 3, channels=4, levels=2, weight_normalization=True, name="tcn")
    inputs = keras.Input((12, 3))
    model = keras.Model(inputs, network(inputs))
    for variable in model.trainable_variables:
        variable.assign(rng.normal(0, 0.5, size=variable.shape))
    space = keras_xd.rewrite(model, to, **options) if to else model
    finalized = keras_xd.finalize(space, **({"snap": 0.01} if to == "xd" else {"form": "spectrum"}))
    x = rng.standard_normal((2, 12, 3)).astype("float32")
    kinds = []
    for result in (space, finalized):
        np.testing.assert_allclose(result(x), model(x), rtol=1e-4, atol=1e-4)
        kinds.append(type(result.get_layer("tcn").get_layer("level2_conv1")).__name__)
    assert kinds == [kind, "StaticXD" if to == "k_operation" else "Conv1D"]
    if to == "xd":
        after = keras_xd.forecast(model, to).parameters_after
        assert after == space.count_params() and keras_xd.compare(model, space, x).worst is not None
