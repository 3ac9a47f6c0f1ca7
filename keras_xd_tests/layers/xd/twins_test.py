"""Every XD- and K-operation of a rank beside the Keras layer whose place it takes."""

import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.testing import assert_close, check_layer, check_variant
from keras_xd_tests.layers.xd.drop_in_checks import (
    TWINS,
    assert_signature,
    assert_twin,
    give_weights,
    twin_class,
    twins,
)

every_twin = pytest.mark.parametrize("name", TWINS)


@pytest.mark.parametrize("name", [name for name in TWINS if "Causal" not in name])
def test_every_argument_and_default_of_the_twin(name):
    layer_class = getattr(layers, name)
    assert_signature(twin_class(layer_class), layer_class, *TWINS[name][0])


@every_twin
def test_outputs_are_those_of_the_twin(name, rng):
    twin, layer, shape = twins(name, depth=(2, 1, 3))
    assert_twin(twin, layer, rng.standard_normal(shape).astype("float32"))


@every_twin
def test_float64_is_exact(name, rng):
    twin, layer, shape = twins(name, "float64")
    x = rng.normal(size=shape)
    assert_twin(twin, layer, x, 1e-13)
    assert {variable.dtype for variable in layer.weights} == {"float64"}
    distances = [v for key, v in layer.describe().items() if "distance" in key]
    assert distances and not any(distances)
    for static in (layer.finalize(), layer.finalize("kernel")):
        assert {variable.dtype for variable in static.weights} == {"float64"}
        assert_close(static(x), twin(x), 1e-13)


def relative_error(outputs, expected):
    outputs = keras.ops.convert_to_numpy(keras.ops.cast(outputs, "float64"))
    return np.linalg.norm(outputs - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize(
    "name, policy",
    # Weights in bfloat16 too, for some of them.
    [(name, "mixed_bfloat16") for name in list(TWINS)[::2]]
    + [(name, "bfloat16") for name in list(TWINS)[1:10:4]],
)
def test_bfloat16_is_as_exact_as_in_the_twin(name, policy, rng):
    exact, layer, shape = twins(name, "float64")
    exact.build(shape)
    layer.build(shape)
    give_weights(exact, layer)
    x = rng.standard_normal(shape)
    expected = keras.ops.convert_to_numpy(exact(x))
    twin, layer, _ = twins(name, policy, depth=3)
    twin.build(shape)
    layer.build(shape)
    give_weights(twin, layer)
    allowed = 2 * relative_error(twin(x), expected)
    assert 1e-3 < allowed < 3e-2
    for found in (layer, layer.finalize(), layer.finalize("kernel")):
        outputs = found(x)
        assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
        assert relative_error(outputs, expected) < allowed


@pytest.mark.parametrize("name", ["XDConv2D", "XDConv2DTranspose", "XDDepthwiseConv2D"])
def test_channels_first(name, rng):
    _, last, shape = twins(name)
    config = {**last.get_config(), "data_format": "channels_first"}
    first = type(last).from_config(config)
    x = rng.standard_normal(shape).astype("float32")
    expected = np.moveaxis(np.array(last(x)), -1, 1)
    moved = np.moveaxis(x, -1, 1)
    assert first.compute_output_shape(moved.shape) == expected.shape
    first(moved)
    first.kernel.assign(last.kernel)
    assert_close(np.array(first(moved)), expected)


SAME = {"kernel_size": 3, "padding": "same"}
FULL = {
    "causal padding": (
        layers.XDConv,
        {"rank": 1, "filters": 4, "kernel_size": 3, "padding": "causal"},
        (4, 12, 3),
    ),
    "grouped, with XLA": (
        layers.XDConv,
        {
            **{"rank": 2, "filters": 4, "kernel_size": (3, 2), "padding": "same", "strides": 2},
            **{"groups": 2, "depth": (2, 1, 1), "frequency_bias": True, "channel_gates": True},
            "activation": "gelu",
            "kernel_regularizer": keras.regularizers.L2(1e-3),
            "kernel_constraint": keras.constraints.MaxNorm(3.0),
        },
        (4, 3, 4, 4),
    ),
    "transposed": (
        layers.XDConvTranspose,
        {**SAME, "rank": 1, "filters": 3, "strides": 2, "depth": (1, 2, 1)},
        (3, 3, 2),
    ),
    "depthwise": (
        layers.XDDepthwiseConv,
        {**SAME, "rank": 1, "depth_multiplier": 2, "depth": (1, 2, 1)},
        (3, 3, 2),
    ),
    "separable": (
        layers.XDSeparableConv,
        {**SAME, "rank": 1, "filters": 3, "search_pointwise": True},
        (3, 4, 2),
    ),
    "causal": (
        layers.XDCausalConv1D,
        {"filters": 3, "kernel_size": 2, "depth": 2, "dilation_rate": 2},
        (3, 5, 2),
    ),
    "K-operation": (
        layers.KOpConv,
        {
            **{"rank": 2, "filters": 3, "kernel_size": 3, "padding": "circular", "strides": 2},
            **{"depth": (3, 1, 2), "radix": ((2, 3), 5), "warm_start": "random_unitary"},
            **{"seed": 1, "data_format": "channels_first"},
        },
        (4, 2, 6, 5),
    ),
}


@pytest.mark.parametrize("case", FULL)
def test_layer_checks(case):
    layer_class, arguments, shape = FULL[case]
    check_layer(layer_class, arguments, shape, run_jit="XLA" in case)


@pytest.mark.parametrize(
    "name",
    [
        *("XDConv2D", "XDConv3D", "XDConv2DTranspose", "XDDepthwiseConv2D"),
        *("XDSeparableConv2D", "KOpCausalConv1D"),
    ],
)
def test_configurations_calls_and_files(name, rng):
    _, layer, shape = twins(name)
    (arguments, keywords, _), depth = TWINS[name], {"depth": (1, 2, 1)}
    positional = dict(zip(("filters", "kernel_size")[-len(arguments) :], arguments, strict=True))
    check_variant(type(layer), {**positional, **keywords, **depth}, shape, rng)


def test_lora_is_for_the_result_of_a_search():
    """Keras' convolutions take it, and a twin is one."""
    with pytest.raises(ValueError, match="LoRA.*lora_rank=1"):
        layers.XDConv1D(2, 3, lora_rank=1)
    layer = layers.XDConv1D(2, 3)
    layer.build((None, 9, 2))
    with pytest.raises(ValueError, match="LoRA is for the result of a search"):
        layer.enable_lora(1)
