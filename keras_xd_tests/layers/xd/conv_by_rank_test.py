import keras
import pytest

from keras_xd import layers
from keras_xd.testing import check_layer, check_variant
from keras_xd_tests.layers.xd.drop_in_checks import assert_signature


@pytest.mark.parametrize(
    "layer_class, shape",
    [
        (layers.XDConv1D, (3, 9, 2)),
        (layers.XDConv2D, (3, 3, 4, 2)),
        (layers.XDConv3D, (3, 2, 3, 4, 2)),
    ],
)
def test_layer_checks(layer_class, shape, rng):
    """All but XLA of three axes, and of fewer, which `XDConv` is checked with, what names it."""
    arguments = {"filters": 3, "kernel_size": 3, "padding": "same", "depth": (1, 2, 1)}
    if layer_class is layers.XDConv3D:
        check_layer(layer_class, arguments, shape, run_jit=False)
    else:
        check_variant(layer_class, arguments, shape, rng)


@pytest.mark.parametrize(
    "twin, layer_class",
    [
        (keras.layers.Conv1D, layers.XDConv1D),
        (keras.layers.Conv2D, layers.XDConv2D),
        (keras.layers.Conv3D, layers.XDConv3D),
    ],
)
def test_every_argument_and_default_of_the_twin(twin, layer_class):
    assert_signature(twin, layer_class, 2, 3)


def test_lora_is_for_the_result_of_a_search():
    """Keras' convolutions take it, and a twin is one."""
    with pytest.raises(ValueError, match="LoRA.*lora_rank=1"):
        layers.XDConv1D(2, 3, lora_rank=1)
    layer = layers.XDConv1D(2, 3)
    layer.build((None, 9, 2))
    with pytest.raises(ValueError, match="LoRA is for the result of a search"):
        layer.enable_lora(1)


@pytest.mark.parametrize("name", ["filters", "kernel_size", "strides", "dilation_rate", "groups"])
def test_what_keras_takes_no_error_of_its_own_for(name):
    with pytest.raises(ValueError, match=f"`{name}` must be.*Received: {name}='a'"):
        layers.XDConv2D(**{"filters": 2, "kernel_size": 3, name: "a"})
