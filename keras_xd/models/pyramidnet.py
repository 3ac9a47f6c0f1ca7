"""Pyramidal residual networks for small images."""

import keras
from keras import ops

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.models.blocks import channel_axis, convolution, normalization

EXPANSION = 4  # of the channels behind a bottleneck


@check_types
def pyramidnet(
    depth: int,
    alpha: float,
    input_shape: tuple[int, int, int],
    classes: int,
    name: str = "pyramidnet",
) -> keras.Model:
    """Return a PyramidNet: a residual network whose channels grow in every block.

    A 3 × 3 convolution with 16 channels, then three stages of equally many blocks; stages 2 and 3
    begin with stride 2. Of `n` blocks in all, block `i = 1 … n` has the width `16 + alpha · i / n`,
    rounded. Its branch is

        normalization, 1 × 1 convolution, normalization, ReLU, 3 × 3, normalization, ReLU,
        1 × 1 to four times the width, normalization

    and the shortcut averages 2 × 2 pixels where the branch has stride 2 and pads the channels
    with zeros. ReLU, average pooling and a dense layer end the network. The sums that end the
    stages are the outputs of the layers `stage1`, `stage2` and `stage3`.

    Args:
        depth: number of layers: 9 times the blocks of a stage plus 2.
        alpha: number above 0, how much wider the last block is than 16.
        input_shape: shape of one image, channels where Keras' image data format has them.
        classes: number of outputs, which are logits.

    Returns:
        A `keras.Model`; with depth 110 and alpha 84 it has 2,528,712 trainable parameters at
        `(32, 32, 3)` with 10 classes, and 176, 288 and 400 channels behind the stages.

    Example:

    >>> from keras_xd import models
    >>> model = models.pyramidnet(11, 84, (32, 32, 3), classes=10)
    >>> [model.get_layer(f"stage{stage}").output.shape[1:] for stage in (1, 2, 3)]
    [(32, 32, 176), (16, 16, 288), (8, 8, 400)]

    Reference:
        Han, Kim, Kim, "Deep Pyramidal Residual Networks", CVPR 2017.
    """
    input_shape = validation.integer_tuple(input_shape, 3, "input_shape")
    classes = validation.positive_integer(classes, "classes")
    if depth <= 2 or (depth - 2) % 9:
        raise ValueError(f"`depth` must be a multiple of 9 plus 2. Received: depth={depth!r}")
    blocks = (depth - 2) // 9
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 < alpha < 1e6:
        raise ValueError(f"`alpha` must be a positive number. Received: alpha={alpha!r}")

    inputs = keras.Input(input_shape, name="image")
    x = normalization(_convolution(inputs, 16, 3, 1, "conv"), "conv_normalization")
    for stage in (1, 2, 3):
        for block in range(1, blocks + 1):
            number = (stage - 1) * blocks + block
            width = round(16 + alpha * number / (3 * blocks))
            strides = 2 if stage > 1 and block == 1 else 1
            prefix = f"stage{stage}_block{block}"
            y = _bottleneck(x, width, strides, prefix)
            x = keras.layers.Add(name=f"{prefix}_add")([y, _shortcut(x, y, strides, prefix)])
        x = keras.layers.Identity(name=f"stage{stage}")(x)
    x = keras.layers.ReLU(name="relu")(normalization(x, "normalization"))
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(inputs, keras.layers.Dense(classes, name="classifier")(x), name=name)


def _bottleneck(x, width, strides, name):
    x = normalization(x, f"{name}_normalization1")
    x = _convolution(x, width, 1, 1, f"{name}_conv1")
    x = keras.layers.ReLU(name=f"{name}_relu1")(normalization(x, f"{name}_normalization2"))
    x = _convolution(x, width, 3, strides, f"{name}_conv2")
    x = keras.layers.ReLU(name=f"{name}_relu2")(normalization(x, f"{name}_normalization3"))
    x = _convolution(x, EXPANSION * width, 1, 1, f"{name}_conv3")
    return normalization(x, f"{name}_normalization4")


def _shortcut(x, y, strides, name):
    """Return the input of a block in the shape of its branch `y`."""
    axis = channel_axis()
    if strides > 1:
        x = keras.layers.AveragePooling2D(2, strides, "same", name=f"{name}_subsample")(x)
    padding = [(0, 0)] * 4
    padding[axis] = (0, y.shape[axis] - x.shape[axis])
    return ops.pad(x, padding) if padding[axis][1] else x


def _convolution(x, filters, kernel_size, strides, name):
    draw = keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal")
    return convolution(x, filters, kernel_size, strides, name, kernel_initializer=draw)
