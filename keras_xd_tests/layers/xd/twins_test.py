"""Every XD- and K-operation of a rank beside the Keras layer whose place it takes."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import layers
from keras_xd.layers.k.k_operation import KOpConv
from keras_xd.layers.xd.conv import XDConv, XDConvTranspose
from keras_xd.layers.xd.separable import XDSeparableConv
from keras_xd.testing import assert_close, check_layer
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


@pytest.mark.parametrize("name", [n for n in TWINS if "2D" in n or "Causal" in n])
def test_strides_and_dilation_together(name, rng):
    """As the twin, which refuses both together, with zeros between the weights of its kernel."""
    layer_class, (arguments, keywords, shape) = getattr(layers, name), TWINS[name]
    *filters, kernel_size = arguments
    keywords = {**keywords, "strides": 2, "dilation_rate": 2}
    layer = layer_class(*filters, kernel_size, **keywords, depth=(2, 1, 3))
    theirs = {**keywords, "dilation_rate": 1, **({"padding": "causal"} if "Causal" in name else {})}
    spans = tuple(2 * size - 1 for size in layer.kernel_size)
    twin = twin_class(layer_class)(*filters, spans, **theirs)
    x = rng.standard_normal((2, *shape)).astype("float32")
    twin.build(x.shape)
    layer.build(x.shape)
    give_weights(layer, layer)
    for weight in ("pointwise_kernel", "bias"):
        if getattr(layer, weight, None) is not None:
            getattr(twin, weight).assign(getattr(layer, weight))
    weight = "depthwise_kernel" if "Separable" in name else "kernel"
    dilated = np.zeros(getattr(twin, weight).shape)
    dilated[(slice(None, None, 2),) * layer.rank] = getattr(layer, weight)
    getattr(twin, weight).assign(dilated)
    expected = twin(x)
    assert layer_class.from_config(layer.get_config()).dilation_rate == (2,) * layer.rank
    assert layer.compute_output_shape(x.shape) == expected.shape
    for found in (layer, layer.finalize(), layer.finalize("kernel")):
        assert_close(found(x), expected)


@every_twin
def test_float64_is_exact(name, rng):
    twin, layer, shape = twins(name, "float64", depth=(2, 1, 3))
    x = rng.normal(size=shape)
    assert_twin(twin, layer, x, 1e-13)
    assert {variable.dtype for variable in layer.weights} == {"float64"}
    distances = [v for key, v in layer.describe().items() if "distance" in key]
    assert distances and not any(distances)
    for static in (layer.finalize(), layer.finalize("kernel")):
        assert {variable.dtype for variable in static.weights} == {"float64"}
        assert_close(static(x), twin(x), 1e-13)


SAME = {"kernel_size": 3, "padding": "same"}
FULL = {
    "grouped, with XLA": (
        XDConv,
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
        XDConvTranspose,
        {**SAME, "rank": 1, "filters": 3, "strides": 2, "depth": (1, 2, 1)},
        (3, 3, 2),
    ),
    "separable": (
        XDSeparableConv,
        {
            **SAME,
            "rank": 1,
            "filters": 3,
            "search_pointwise": True,
            "depth_multiplier": 2,
            "depth": (1, 2, 1),
        },
        (3, 4, 2),
    ),
    "causal": (
        layers.XDCausalConv1D,
        {"filters": 3, "kernel_size": 2, "depth": 2, "dilation_rate": 2},
        (3, 5, 2),
    ),
    "K-operation": (
        KOpConv,
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


def test_lora_is_for_the_result_of_a_search():
    """Keras' convolutions take it, and a twin is one."""
    with pytest.raises(ValueError, match="LoRA.*lora_rank=1"):
        layers.XDConv1D(2, 3, lora_rank=1)
    layer = layers.XDConv1D(2, 3)
    layer.build((None, 9, 2))
    with pytest.raises(ValueError, match="LoRA is for the result of a search"):
        layer.enable_lora(1)


@pytest.mark.parametrize("name", [name for name in TWINS if name.startswith("XD")])
def test_the_bias_of_the_spectrum_and_gates_are_there_unless_told_otherwise(name, rng):
    layer_class, (arguments, keywords, shape) = getattr(layers, name), TWINS[name]
    layer = layer_class(*arguments, **keywords)
    layer.build((None, *shape))
    extras = {"frequency_bias", "channel_gates"}
    assert extras <= {variable.name for variable in layer.architecture_variables}
    config = layer.get_config()
    old = layer_class.from_config({key: config[key] for key in config.keys() - extras})
    old.build((None, *shape))
    assert not extras & {variable.name for variable in old.architecture_variables}


@pytest.mark.parametrize("had", [(False, False), (True, False), (False, True)])
def test_weights_of_before_are_those_of_no_bias_and_open_gates(had, rng, tmp_path):
    x = rng.standard_normal((2, 8, 7, 2)).astype("float32")

    def model(**options):
        layer = layers.XDConv2D(3, 3, padding="same", name="conv", **options)
        return keras.Sequential([keras.Input(x.shape[1:]), layer])

    before, after = model(frequency_bias=had[0], channel_gates=had[1]), model()
    for number, variable in enumerate(before.weights):
        variable.assign(np.random.default_rng(number).standard_normal(variable.shape))
    path = tmp_path / "before.weights.h5"
    before.save_weights(path)
    after.load_weights(path)
    assert_close(after(x), np.array(before(x)), 1e-4 * np.abs(before(x)).max())
    architecture = tmp_path / "before.npz"
    keras_xd.save_architecture(before, architecture)
    fresh = keras_xd.load_architecture(model(), architecture)
    for new, loaded in zip(*map(keras_xd.architecture_variables, (fresh, after)), strict=True):
        np.testing.assert_array_equal(new, loaded)
