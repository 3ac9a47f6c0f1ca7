import inspect

import keras
import pytest

from keras_xd import layers
from keras_xd.testing import check_layer, check_variant


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
    theirs = inspect.signature(twin.__init__).parameters
    ours = inspect.signature(layer_class.__init__).parameters
    for position, (name, parameter) in enumerate(theirs.items()):
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        assert list(ours)[position] == name
        default = parameter.default
        if name in ("strides", "dilation_rate"):
            default = 1  # Keras writes (1, 1) for some ranks
        assert ours[name].default == default, name
    assert layer_class(2, 3).get_config().keys() >= twin(2, 3).get_config().keys()
