import keras
import numpy as np
import pytest
from keras import ops

import keras_xd
from keras_xd import layers
from keras_xd.layers.xd.static_operation import StaticOperation


def forms(**options):
    layer = layers.XDConv2D(4, 3, padding="same", groups=2, activation="relu", **options)
    layer.build((None, 16, 16, 2))
    return layer, [layer.finalize(keep) for keep in ("spectrum", "kernel", "low_rank")]


def test_all_forms_take_over_what_the_layer_is(rng):
    layer, _ = forms(name="conv", trainable=False, activity_regularizer="l2")
    layer.bias.assign(rng.normal(size=4))
    statics = [layer.finalize(keep) for keep in ("spectrum", "kernel", "low_rank")]
    assert len({type(static) for static in statics}) == 3
    for static in statics:
        assert isinstance(static, StaticOperation) and static.name == "conv"
        np.testing.assert_array_equal(*map(ops.convert_to_numpy, (static.bias, layer.bias)))
        assert not static.trainable and static.activity_regularizer is not None
        assert (static.channels, static.filters, static.groups) == (2, 4, 2)
        assert static.activation is layer.activation
    without = forms(use_bias=False)[1]
    assert all(static.bias is None for static in without)


@pytest.mark.parametrize("keep", ["spectrum", "kernel", "low_rank"])
def test_what_the_search_has_found_is_not_reset(keep):
    space = keras.Sequential([keras.Input((16, 16, 2)), layers.XDConv2D(4, 3, padding="same")])
    with pytest.raises(ValueError, match="finalized layer"):
        keras_xd.reset_weights(keras_xd.finalize(space, form=keep))


def test_numbers_beyond_float16_are_refused_in_every_form():
    layer, _ = forms()
    layer.kernel.assign(layer.kernel * 1e6)
    for keep in ("spectrum", "kernel", "low_rank"):
        with pytest.raises(ValueError, match=r"larger than 65504.*storage='float16'"):
            layer.finalize(keep, "float16")
        layer.finalize(keep, "bfloat16")
