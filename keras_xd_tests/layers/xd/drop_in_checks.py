"""What every drop-in for a layer of Keras must have, shared by the tests of these layers."""

import inspect

import keras
import numpy as np

from keras_xd.testing import assert_close


def assert_signature(twin, layer_class, *positional):
    """Check that a class has every argument of its twin, in its order and with its defaults."""
    theirs = inspect.signature(twin.__init__).parameters
    ours = inspect.signature(layer_class.__init__).parameters
    for position, (name, parameter) in enumerate(theirs.items()):
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        # Keras' Conv3DTranspose alone has these two the other way round.
        if not (twin is keras.layers.Conv3DTranspose and name in ("data_format", "output_padding")):
            assert list(ours)[position] == name
        default = parameter.default
        if name in ("strides", "dilation_rate"):
            default = 1  # Keras writes (1, 1) for some ranks
        assert ours[name].default == default, name
    assert layer_class(*positional).get_config().keys() >= expected_config(twin(*positional))


def expected_config(twin):
    """Return the names in a twin's configuration that are not leftovers of its base class."""
    config = twin.get_config().keys()
    if isinstance(twin, keras.layers.DepthwiseConv1D | keras.layers.DepthwiseConv2D):
        config -= {"kernel_initializer", "kernel_regularizer", "kernel_constraint"}
    return config


def assert_twin(twin, layer, kernels, x, atol=1e-5):
    """Check that a layer computes its twin's outputs once it has its weights, finalized too."""
    expected = keras.ops.convert_to_numpy(twin(x))
    assert layer.compute_output_shape(x.shape) == expected.shape
    layer(x)
    for name in (*kernels, "bias"):
        old, new = getattr(twin, name), getattr(layer, name)
        if old is not None:
            value = np.random.default_rng(1).standard_normal(old.shape) / 3
            old.assign(value)
            new.assign(value)
    expected = twin(x)
    assert_close(layer(x), expected, atol)
    assert_close(layer.finalize()(x), expected, atol)
