import keras
import numpy as np
import pytest
import scipy.signal

from keras_xd import layers
from keras_xd.layers.xd.resampled import is_periodic
from keras_xd.testing import assert_close, check_layer
from keras_xd_tests.layers.variants import check_variant


def serialized(layer):
    return keras.saving.serialize_keras_object(layer)


def test_layer_checks(rng):
    """Without XLA, which compiles the same of the resampling, and of what is inside."""
    inner = layers.XDConv1D(3, 3, padding="circular")
    arguments = {"layer": serialized(inner), "sizes": (6,), "activation": "tanh"}
    check_layer(layers.SearchableResampled, arguments, (2, 8, 2), run_jit=False)
    inner = layers.XDConv2D(2, 3, padding="circular", data_format="channels_first")
    arguments = {"layer": serialized(inner), "sizes": (3, 4)}
    check_variant(layers.SearchableResampled, arguments, (2, 3, 8, 7), rng)
    inner = layers.XDConv1D(3, 3, padding="circular")
    inner.build((None, 8, 2))
    arguments = {"layer": serialized(inner.finalize()), "sizes": (8,), "activation": None}
    check_variant(layers.Resampled, arguments, (2, 12, 2), rng)


def test_outputs_are_those_of_the_layer_on_its_own_grid(rng):
    inner = layers.XDConv2D(3, 3, padding="circular", depth=3)
    inner.build((None, 8, 9, 2))
    for variable in inner.architecture_variables:
        variable.assign_add(0.1 * rng.normal(size=variable.shape))
    layer = layers.SearchableResampled(inner, (8, 9), activation="relu")
    x = rng.normal(size=(2, 13, 16, 2))
    coarse = scipy.signal.resample(scipy.signal.resample(x, 8, axis=1), 9, axis=2)
    y = keras.ops.convert_to_numpy(inner(coarse))
    y = scipy.signal.resample(scipy.signal.resample(y, 13, axis=1), 16, axis=2)
    outputs = keras.ops.convert_to_numpy(layer(x))
    assert_close(outputs, np.maximum(y, 0).astype("float32"))
    assert_close(keras.ops.convert_to_numpy(layer.finalize()(x)), outputs)


@pytest.mark.parametrize(
    "layer, sizes, expected",
    [
        (layers.XDConv1D(2, 3, padding="circular"), (9,), True),
        (layers.XDConv1D(2, 3, padding="same"), (9,), False),
        (layers.XDConv1D(2, 3, padding="causal"), (9,), False),
        (layers.XDConv1D(2, 1), (9,), True),
        (layers.XDConv2D(2, 3, padding="circular", strides=2), (8, 8), False),
        (layers.XDConv2D(2, 3, padding="circular", dilation_rate=2), (8, 8), True),
        (layers.KOpConv2D(2, 3, padding="circular"), (7, 6), True),
        (layers.XDConv2DTranspose(2, 2, strides=2, padding="circular"), (4, 4), False),
        (layers.XDSeparableConv2D(2, 3, padding="circular"), (5, 6), True),
        (layers.XDSeparableConv2D(2, 3), (5, 6), False),
    ],
)
def test_circles_are_known(layer, sizes, expected):
    layer.build((None, *sizes, 2))
    assert is_periodic(layer) is expected
    assert is_periodic(layer.finalize()) is expected


def searched(padding):
    return layers.SearchableResampled(layers.XDConv1D(2, 3, padding=padding), 8)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: layers.Resampled("conv", 8), "`layer` must be a Keras layer"),
        (lambda: layers.Resampled(layers.XDConv1D(2, 3), 8), "needs a SearchableResampled"),
        (
            lambda: layers.SearchableResampled(keras.layers.Conv1D(2, 3), 8),
            "any other one a Resampled",
        ),
        (lambda: layers.Resampled(keras.layers.Conv1D(2, 3), (0,)), "`sizes` must be"),
        (lambda: searched("same")(np.ones((1, 9, 2))), "padding='circular' and strides=1"),
        (lambda: searched("circular")(np.ones((1, 9, 9, 2))), "needs inputs of 3 axes"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
