"""XD-operations beside their Keras twins, to compare how exact both are in a data type."""

import functools

import keras

from keras_xd import layers

# twin, XD-operation, positional arguments, keywords of both, of the operation, shape of inputs
CASES = {
    "conv1d": (
        keras.layers.Conv1D,
        layers.XDConv1D,
        (8, 3),
        {"padding": "same", "groups": 2},
        {"depth": 3},
        (2, 300, 8),
    ),
    "conv2d": (
        keras.layers.Conv2D,
        layers.XDConv2D,
        (8, 3),
        {"padding": "same"},
        {"depth": 3},
        (2, 16, 16, 8),
    ),
    "conv3d": (keras.layers.Conv3D, layers.XDConv3D, (4, 3), {}, {}, (2, 6, 6, 6, 4)),
    "long": (keras.layers.Conv1D, layers.XDConv1D, (2, 200), {}, {}, (2, 600, 2)),
    "depthwise": (
        keras.layers.DepthwiseConv2D,
        layers.XDDepthwiseConv2D,
        (3,),
        {"padding": "same"},
        {"channel_gates": True},
        (2, 16, 16, 8),
    ),
    "transposed": (
        keras.layers.Conv2DTranspose,
        layers.XDConv2DTranspose,
        (8, 3),
        {"strides": 2},
        {"frequency_bias": True},
        (2, 16, 16, 8),
    ),
    "causal": (
        keras.layers.Conv1D,
        layers.XDCausalConv1D,
        (8, 3),
        {"padding": "causal"},
        {},
        (2, 40, 8),
    ),
}


@functools.cache
def pair(name, dtype):
    """Return a twin and an XD-operation of a policy, built, and the shape of their inputs.

    They are made once: tests give them weights and change nothing else.
    """
    twin_class, layer_class, arguments, keywords, own, shape = CASES[name]
    twin = twin_class(*arguments, **keywords, dtype=dtype)
    if name == "causal":
        keywords = {}
    layer = layer_class(*arguments, **keywords, **own, dtype=dtype)
    twin.build(shape)
    layer.build(shape)
    return twin, layer, shape
