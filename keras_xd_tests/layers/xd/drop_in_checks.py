"""What every drop-in for a layer of Keras must have, shared by the tests of these layers."""

import inspect

import keras
import numpy as np

from keras_xd import layers
from keras_xd.core.argument_types import constructor_parameters
from keras_xd.testing import assert_close

# Arguments of a layer and of its twin, and the shape of an input without the batch.
TWINS = {
    "XDConv1D": ((4, 3), {"padding": "causal"}, (13, 2)),
    "XDConv2D": ((4, (3, 2)), {"padding": "same", "strides": 2}, (9, 7, 2)),
    "XDConv3D": ((3, 2), {"padding": "same", "activation": "relu"}, (4, 5, 6, 2)),
    "XDConv1DTranspose": ((3, 3), {"strides": 2, "activation": "relu"}, (9, 2)),
    "XDConv2DTranspose": ((3, (2, 3)), {"strides": (3, 1), "padding": "same"}, (5, 6, 3)),
    "XDConv3DTranspose": ((2, (2, 3, 4)), {"strides": (3, 1, 2)}, (3, 4, 5, 2)),
    "XDDepthwiseConv1D": ((3,), {"depth_multiplier": 2, "use_bias": False}, (9, 3)),
    "XDDepthwiseConv2D": ((3,), {"padding": "same", "strides": 2}, (9, 8, 3)),
    "XDSeparableConv1D": ((4, 3), {"padding": "same", "dilation_rate": 2}, (9, 3)),
    "XDSeparableConv2D": ((4, 3), {"strides": 2, "depth_multiplier": 2}, (7, 8, 3)),
    "XDCausalConv1D": ((4, 3), {"dilation_rate": 2}, (9, 2)),
    "KOpConv1D": ((4, 3), {"padding": "same", "strides": 3}, (16, 2)),
    "KOpConv2D": ((4, 3), {"padding": "same", "dilation_rate": 2, "groups": 2}, (11, 9, 2)),
    "KOpConv3D": ((2, 3), {"padding": "same", "strides": 2}, (5, 6, 7, 2)),
    "KOpCausalConv1D": ((4, 3), {"strides": 2}, (9, 2)),
}


def twin_class(layer_class):
    """Return the class of Keras that a layer is a drop-in for."""
    kinds = layer_class.__mro__
    return next(kind for kind in kinds if getattr(keras.layers, kind.__name__, None) is kind)


def twins(name, dtype=None, **options):
    """Return the twin and the layer of a case, and the shape of a batch of two inputs."""
    layer_class, (arguments, keywords, shape) = getattr(layers, name), TWINS[name]
    theirs = {"padding": "causal", **keywords} if "Causal" in name else keywords
    twin = twin_class(layer_class)(*arguments, **theirs, dtype=dtype)
    return twin, layer_class(*arguments, **keywords, **options, dtype=dtype), (2, *shape)


def assert_signature(twin, layer_class, *positional):
    """Check that a class has every argument of its twin, in its order and with its defaults."""
    theirs = constructor_parameters(twin)
    ours = inspect.signature(layer_class).parameters  # which `help` shows
    assert issubclass(layer_class, twin)
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


def assert_twin(twin, layer, x, atol=1e-5):
    """Check that a layer computes its twin's outputs once it has its weights, finalized too."""
    expected = keras.ops.convert_to_numpy(twin(x))
    assert layer.compute_output_shape(x.shape) == expected.shape
    layer(x)
    give_weights(twin, layer)
    expected = twin(x)
    assert_close(layer(x), expected, atol)
    assert_close(layer.finalize()(x), expected, atol)


def give_weights(twin, layer):
    """Give both the same random kernels and bias."""
    for name in ("kernel", "depthwise_kernel", "pointwise_kernel", "bias"):
        old = getattr(twin, name, None)
        if old is not None:
            value = np.random.default_rng(1).standard_normal(old.shape) / 3
            old.assign(value)
            getattr(layer, name).assign(value)
