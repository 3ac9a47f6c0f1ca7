"""Residual networks for small images."""

import keras
from keras import ops

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.models.blocks import channel_axis, convolution, normalization


@check_types
def resnet20(
    input_shape: tuple[int, int, int], classes: int, name: str = "resnet20", width: int = 16
) -> keras.Model:
    """Return ResNet-20 for small images, with shortcuts that have no parameters.

    A 3 × 3 convolution, then three stages of three blocks of two 3 × 3 convolutions each, with 16,
    32 and 64 channels: `width`, and 2 and 4 times as many. Stages 2 and 3 begin with stride 2.
    Their shortcuts take every second pixel and pad the channels with zeros (option A of the paper).
    The 19 convolutions have no bias and are named `conv` and `stage…_block…_conv…`. Batch
    normalisation has momentum 0.9.

    Args:
        input_shape: shape of one image, channels where Keras' image data format has them.
        classes: number of outputs, which are logits.
        width: channels of the first stage.

    Returns:
        A `keras.Model`; 269,722 trainable parameters at `(32, 32, 3)` with 10 classes.

    Example:

    ```python
    from keras_xd import models

    model = models.resnet20((32, 32, 3), classes=10)
    print(model.output_shape)  # (None, 10)
    ```

    Reference:
        He et al., "Deep residual learning for image recognition", CVPR 2016, section 4.2.
    """
    input_shape = validation.integer_tuple(input_shape, 3, "input_shape")
    classes = validation.positive_integer(classes, "classes")
    width = validation.positive_integer(width, "width")

    inputs = keras.Input(input_shape, name="image")
    x = _convolution(inputs, width, 1, "conv")
    x = keras.layers.ReLU(name="conv_relu")(x)
    for stage, filters in enumerate((width, 2 * width, 4 * width), start=1):
        for block in range(1, 4):
            strides = 2 if stage > 1 and block == 1 else 1
            x = _block(x, filters, strides, f"stage{stage}_block{block}")
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    x = keras.layers.Dense(classes, kernel_initializer="he_normal", name="classifier")(x)
    return keras.Model(inputs, x, name=name)


def _block(x, filters, strides, name):
    """Two convolutions and a shortcut."""
    shortcut = x
    if strides > 1:
        shortcut = keras.layers.AveragePooling2D(1, strides, name=f"{name}_subsample")(x)
        added = filters - x.shape[channel_axis()]
        padding = [(0, 0)] * 4
        padding[channel_axis()] = (added // 2, added - added // 2)
        shortcut = ops.pad(shortcut, padding)
    x = _convolution(x, filters, strides, f"{name}_conv1")
    x = keras.layers.ReLU(name=f"{name}_relu1")(x)
    x = _convolution(x, filters, 1, f"{name}_conv2")
    x = keras.layers.Add(name=f"{name}_add")([x, shortcut])
    return keras.layers.ReLU(name=f"{name}_relu2")(x)


def _convolution(x, filters, strides, name):
    """A 3 × 3 convolution and batch normalisation."""
    return normalization(convolution(x, filters, 3, strides, name), f"{name}_normalization")
