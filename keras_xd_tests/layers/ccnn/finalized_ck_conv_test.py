import keras
import numpy as np
import pytest
from keras import ops

from keras_xd import layers
from keras_xd.testing import check_layer


def test_layer():
    init_kwargs = {
        "kernel_size": (4,),
        "before": (1,),
        "learn_resolution": True,
        "bins": (5,),
        "activation": "relu",
        "data_format": "channels_first",
    }
    check_layer(layers.StaticCKConv, init_kwargs, (2, 3, 8), run_jit=False)


@pytest.mark.parametrize("convolution", ["auto", "direct", "fourier"])
def test_it_is_the_keras_convolution_of_its_taps(convolution, rng):
    x = rng.normal(size=(2, 9, 8, 3)).astype("float32")
    layer = layers.StaticCKConv((3, 4), (1, 1), convolution=convolution)
    plain = keras.layers.DepthwiseConv2D((3, 4), padding="same")
    layer.build(x.shape)
    plain.build(x.shape)
    layer.bias.assign(rng.normal(size=3))
    plain.set_weights([ops.expand_dims(layer.kernel, -1), layer.bias])
    np.testing.assert_allclose(layer(x), plain(x), atol=1e-5)


@pytest.mark.parametrize(
    "kwargs", [{"padding": "causal"}, {"learn_resolution": True}, {"padding": "circular"}]
)
def test_a_finalized_layer_holds_only_the_taps_under_the_mask(kwargs, rng):
    x = rng.normal(size=(2, 16, 3)).astype("float32")
    searched = layers.CKConv1D(
        layers.KernelNetwork(units=4, features=4), initial_kernel_size=6.0, **kwargs
    )
    expected = searched(x)
    static = searched.finalize()
    assert static.kernel_size == (6,)
    np.testing.assert_allclose(static(x), expected, atol=1e-5)


def test_inputs_of_other_sizes_are_refused(rng):
    layer = layers.StaticCKConv((3,), (1,))
    layer.build((None, 8, 2))
    with pytest.raises(ValueError, match="expected axis 1 of input shape to have value 8"):
        layer(np.zeros((1, 9, 2)))
    with pytest.raises(ValueError, match="known size"):
        layers.StaticCKConv((3,), (1,)).build((None, None, 2))
