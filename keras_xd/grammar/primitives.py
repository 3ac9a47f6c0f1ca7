"""Tables of Keras layers for the primitives of the spaces, for `keras_xd.grammar.build`."""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_xd import layers
from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.type_aliases import Tensor
from keras_xd.grammar.einspace_primitives import einspace
from keras_xd.grammar.pointwise import FUNCTIONS, PointwiseFunction

__all__ = [
    "activation_functions",
    "darts",
    "einspace",
    "head",
    "nas_bench_201",
    "searchable_operations",
    "stem",
]


@check_types
def nas_bench_201() -> dict[str, Callable]:
    """Return the table for all spaces of NAS-Bench-201, hierarchical or not.

    `conv3x3` and `conv1x1` are ReLU, convolution and batch normalization; `conv3x3o`, `conv1x1o`
    and `dconv3x3o` (depthwise) are the convolution only. `resBlock` halves the image and doubles
    the channels: two 3 × 3 convolutions beside an average pooling with a 1 × 1 convolution.
    `layer` normalizes over all axes of an image.

    Example:

    ```python
    import keras
    from keras_xd import grammar
    from keras_xd.grammar import primitives

    table = primitives.nas_bench_201()
    term = grammar.parse("(S Linear2 (A Linear2 conv3x3 avg_pool) resBlock)")
    model = grammar.build(
        term, keras.Input((8, 8, 4)), table, head=primitives.head(10)
    )
    print(model.output_shape)  # (None, 10)
    ```

    Reference:
        Dong and Yang, "NAS-Bench-201", ICLR 2020, section 2.1. Schrodi et al., 2022, section 5.
    """
    return {
        "conv3x3": functools.partial(_relu_convolution, size=3),
        "conv1x1": functools.partial(_relu_convolution, size=1),
        "conv3x3o": functools.partial(_convolution, size=3),
        "conv1x1o": functools.partial(_convolution, size=1),
        "dconv3x3o": _depthwise,
        "avg_pool": _average_pooling,
        "resBlock": _residual_block,
        "instance": lambda shape, name: keras.layers.GroupNormalization(-1, name=name),
        **_activations(),
        **_normalizations(),
    }


@check_types
def darts() -> dict[str, Callable]:
    """Return the table for the cells of DARTS, all with stride 1.

    Separable convolutions are applied twice, dilated ones have a dilation of 2; both are ReLU,
    depthwise and 1 × 1 convolution, batch normalization.

    Example:

    ```python
    import keras
    import numpy as np
    from keras_xd import grammar
    from keras_xd.grammar import primitives

    term = grammar.spaces.darts_cell().sample(np.random.default_rng(0))
    inputs = [keras.Input((8, 8, 4)), keras.Input((8, 8, 4))]
    model = grammar.build(term, inputs, primitives.darts())
    print(model.output_shape)  # (None, 8, 8, 16)
    ```

    Reference:
        Liu et al., "DARTS: Differentiable architecture search", ICLR 2019, section 3.1.
    """

    def separable(shape, name, size, dilation, times):
        parts = []
        for number in range(1, times + 1):
            parts += [
                keras.layers.ReLU(name=f"{name}_relu{number}"),
                keras.layers.SeparableConv2D(
                    shape[-1],
                    size,
                    padding="same",
                    dilation_rate=dilation,
                    use_bias=False,
                    name=f"{name}_conv{number}",
                ),
                _batch_normalization(f"{name}_normalization{number}"),
            ]
        return _in_a_row(parts)

    return {
        "max_pool": lambda shape, name: keras.layers.MaxPooling2D(3, 1, "same", name=name),
        "avg_pool": _average_pooling,
        "sep_conv3x3": functools.partial(separable, size=3, dilation=1, times=2),
        "sep_conv5x5": functools.partial(separable, size=5, dilation=1, times=2),
        "dil_conv3x3": functools.partial(separable, size=3, dilation=2, times=1),
        "dil_conv5x5": functools.partial(separable, size=5, dilation=2, times=1),
    }


@check_types
def searchable_operations(**layer_options: Any) -> dict[str, Callable]:
    """Return the table for `spaces.searchable_operations`.

    XD-operations keep the number of channels and begin as a 3 × 3 or 1 × 1 convolution, a depthwise
    3 × 3 convolution, a 3 × 3 average pooling or the identity; `k_operation` begins as a 3 × 3
    convolution. `attention` is multi-head attention of all pixels to each other, `dynamic_conv` a
    3 × 3 convolution of each channel with nonnegative weights that are computed from the image.
    `down` halves the image and doubles the channels by a 3 × 3 convolution.

    Args:
        layer_options: arguments for all XD- and K-operations, such as `depth` and `radix`.

    Example:

    ```python
    import keras
    from keras_xd import grammar
    from keras_xd.grammar import primitives

    table = primitives.searchable_operations(depth=3)
    term = grammar.parse(
        "(S Diamond2 xd_conv3x3 xd_identity attention dynamic_conv)"
    )
    model = grammar.build(term, keras.Input((4, 4, 8)), table)
    print(model.get_layer("xd_conv3x3_edge1").depth)  # (3, 3, 3)
    ```

    Reference:
        Roberts et al., "Rethinking neural operations for diverse tasks", 2021; "Searching for
        convolutions and a more ambitious NAS", 2020. Vaswani et al., "Attention is all you need",
        2017. "Neural operator search", section 3.
    """

    options = {"padding": "same"} | layer_options

    def operation(shape, name, size, start):
        return layers.XDConv2D(shape[-1], size, name=name, **({"warm_start": start} | options))

    def depthwise(shape, name):
        return layers.XDDepthwiseConv2D(3, name=name, **options)

    def k_operation(shape, name):
        return layers.KOpConv2D(shape[-1], 3, name=name, **options)

    return {
        "xd_conv3x3": functools.partial(operation, size=3, start="convolution"),
        "xd_conv1x1": functools.partial(operation, size=1, start="convolution"),
        "xd_depthwise3x3": depthwise,
        "xd_avg_pool": functools.partial(operation, size=3, start="average_pooling"),
        "xd_identity": functools.partial(operation, size=1, start="identity"),
        "k_operation": k_operation,
        "attention": _attention,
        "dynamic_conv": _dynamic_convolution,
        "down": _downsampling,
        **_activations(),
        **_normalizations(),
    }


@check_types
def activation_functions() -> dict[str, Callable]:
    """Return the table for activation functions, of tensors of any rank.

    Coefficients β are trained, one a channel (the last axis), and begin at 1. Denominators get
    1e-5 added, logarithms and roots take the absolute value plus 1e-5.

    Example:

    ```python
    import keras
    from keras_xd import grammar
    from keras_xd.grammar import primitives

    term = grammar.spaces.activation_functions().parse(
        "(L2 UnaryTopo (L1 BinaryTopo (BINARY sigmoid_product) (UNARY scale)"
        " (UNARY identity) id id))"
    )
    swish = grammar.build(
        term, keras.Input((4,)), primitives.activation_functions()
    )
    print(float(swish(keras.ops.ones((1, 4)))[0, 0]))  # 1 · sigmoid(1) = 0.731…
    ```

    Reference:
        Ramachandran et al., "Searching for activation functions", 2017, section 2.
    """

    def layer(shape, name, function):
        return PointwiseFunction(function, name=name)

    return {name: functools.partial(layer, function=name) for name in FUNCTIONS}


@check_types
def stem(filters: int) -> Callable[[Tensor], Tensor]:
    """Return the stem of NAS-Bench-201: a 3 × 3 convolution and batch normalization.

    Example:

    >>> import keras
    >>> from keras_xd.grammar import primitives
    >>> primitives.stem(16)(keras.Input((32, 32, 3))).shape
    (None, 32, 32, 16)
    """
    filters = validation.positive_integer(filters, "filters")
    convolution = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False, name="stem_conv")
    return _in_a_row([convolution, _batch_normalization("stem_normalization")])


@check_types
def head(classes: int) -> Callable[[Tensor], Tensor]:
    """Return the head of NAS-Bench-201: normalization, ReLU, global average and a dense layer.

    It takes images, and columns `(batch, positions, channels)`.

    Example:

    >>> import keras
    >>> from keras_xd.grammar import primitives
    >>> primitives.head(10)(keras.Input((8, 8, 64))).shape
    (None, 10)
    """
    classes = validation.positive_integer(classes, "classes")
    first = [_batch_normalization("head_normalization"), keras.layers.ReLU(name="head_relu")]
    classifier = keras.layers.Dense(classes, name="head_classifier")

    def apply(x):
        pools = {3: keras.layers.GlobalAveragePooling1D, 4: keras.layers.GlobalAveragePooling2D}
        return _in_a_row([*first, pools[len(x.shape)](name="head_pool"), classifier])(x)

    return apply


def _in_a_row(parts):
    """Return the function that applies layers one after the other."""
    return lambda x: functools.reduce(lambda value, layer: layer(value), parts, x)


def _batch_normalization(name):
    return keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5, name=name)


def _activations():
    def activation(shape, name, function):
        return keras.layers.Activation(function, name=name)

    functions = {"relu": "relu", "hardswish": "hard_swish", "mish": "mish"}
    return {
        primitive: functools.partial(activation, function=function)
        for primitive, function in functions.items()
    }


def _normalizations():
    def layer_normalization(shape, name):
        return keras.layers.LayerNormalization(axis=list(range(1, len(shape))), name=name)

    return {
        "batch": lambda shape, name: _batch_normalization(name),
        "layer": layer_normalization,
    }


def _convolution(shape, name, size, strides=1, widening=1):
    return keras.layers.Conv2D(
        widening * shape[-1], size, strides, padding="same", use_bias=False, name=name
    )


def _depthwise(shape, name):
    return keras.layers.DepthwiseConv2D(3, padding="same", use_bias=False, name=name)


def _average_pooling(shape, name):
    return keras.layers.AveragePooling2D(3, 1, "same", name=name)


def _relu_convolution(shape, name, size, strides=1, widening=1):
    return _in_a_row(
        [
            keras.layers.ReLU(name=f"{name}_relu"),
            _convolution(shape, f"{name}_conv", size, strides, widening),
            _batch_normalization(f"{name}_normalization"),
        ]
    )


def _residual_block(shape, name):
    """Two 3 × 3 convolutions, the first with stride 2, beside a pooled 1 × 1 convolution."""
    wide = (*shape[:-1], 2 * shape[-1])
    main = _in_a_row(
        [
            _relu_convolution(shape, f"{name}_1", 3, strides=2, widening=2),
            _relu_convolution(wide, f"{name}_2", 3),
        ]
    )
    shortcut = _in_a_row(
        [
            keras.layers.AveragePooling2D(2, padding="same", name=f"{name}_pool"),
            _convolution(shape, f"{name}_shortcut", 1, widening=2),
        ]
    )
    add = keras.layers.Add(name=f"{name}_add")
    return lambda x: add([main(x), shortcut(x)])


def _downsampling(shape, name):
    return _convolution(shape, name, 3, strides=2, widening=2)


def _attention(shape, name):
    """Attention of all pixels to each other; heads of about 16 channels."""
    height, width, channels = _image(shape)
    heads = max(1, channels // 16)
    flat = keras.layers.Reshape((height * width, channels), name=f"{name}_flat")
    attention = keras.layers.MultiHeadAttention(heads, -(-channels // heads), name=name)
    image = keras.layers.Reshape((height, width, channels), name=f"{name}_image")

    def apply(x):
        pixels = flat(x)
        return image(attention(pixels, pixels))

    return apply


def _dynamic_convolution(shape, name):
    """A depthwise 3 × 3 convolution whose weights are computed from the image."""
    height, width, channels = _image(shape)
    features = _in_a_row(
        [
            keras.layers.Conv2D(max(1, channels // 8), 1, use_bias=False, name=f"{name}_features"),
            _batch_normalization(f"{name}_normalization"),
            keras.layers.ReLU(name=f"{name}_relu"),
        ]
    )
    maps = keras.layers.Conv2D(9, 1, use_bias=False, name=f"{name}_maps")
    mix = keras.layers.Dense(channels, use_bias=False, name=f"{name}_mix")

    def apply(x):
        gathered = ops.reshape(features(x), (-1, height * width, max(1, channels // 8)))
        attention = ops.softmax(ops.reshape(maps(x), (-1, height * width, 9)), axis=1)
        weights = mix(ops.einsum("bpk,bpc->bkc", attention, gathered))
        weights = ops.reshape(ops.softmax(weights, axis=1), (-1, 9, 1, 1, channels))
        padded = ops.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        taps = [
            padded[:, row : row + height, column : column + width] * weights[:, 3 * row + column]
            for row in range(3)
            for column in range(3)
        ]
        return functools.reduce(ops.add, taps)

    return apply


def _image(shape):
    if len(shape) != 4 or None in shape[1:]:
        raise ValueError(
            "Attention and dynamic convolution need images of known size, channels last. "
            f"Received: shape={tuple(shape)}"
        )
    return shape[1:]
