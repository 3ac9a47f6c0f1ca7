"""Wide residual networks for small images."""

import keras

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.models.blocks import channel_axis, check_dropout, convolution, normalization


@check_types
def wide_resnet(
    input_shape: tuple[int, int, int],
    classes: int,
    depth: int = 40,
    width: int = 4,
    dropout: float = 0.0,
    name: str = "wide_resnet",
) -> keras.Model:
    """Return a wide residual network, WRN-depth-width.

    A 3 × 3 convolution of 16 channels, then three stages of `(depth - 4) / 6` blocks with 16, 32
    and 64 times `width` channels; stages 2 and 3 begin with stride 2. A block is two 3 × 3
    convolutions, with batch normalization and ReLU before each. Where it changes the channels, its
    shortcut is a 1 × 1 convolution of its first ReLU. Convolutions have no bias and are named
    `conv` and `stage…_block…_conv1`, `…_conv2` and `…_skip`.

    Args:
        input_shape: shape of one image, channels where Keras' image data format has them.
        classes: number of outputs, which are logits.
        depth: number of layers, 6 for each block of the stages and 4.
        width: how many times as many channels as in a residual network.
        dropout: share of the values between the convolutions of a block that is set to zero.

    Returns:
        A `keras.Model`; 8,949,210 trainable parameters at `(32, 32, 3)` with 10 classes, WRN-40-4.

    Example:

    ```python
    from keras_xd import models

    model = models.wide_resnet((32, 32, 3), classes=10, depth=16, width=2)
    print(model.output_shape)  # (None, 10)
    ```

    Reference:
        Zagoruyko and Komodakis, "Wide Residual Networks", 2016; Roberts et al., "Rethinking Neural
        Operations for Diverse Tasks", 2021, appendix C.
    """
    input_shape = validation.integer_tuple(input_shape, 3, "input_shape")
    classes = validation.positive_integer(classes, "classes")
    depth = validation.positive_integer(depth, "depth")
    width = validation.positive_integer(width, "width")
    check_dropout(dropout)
    if depth < 10 or depth % 6 != 4:
        raise ValueError(
            f"`depth` must be 4 and 6 for each block of the stages: 10, 16, …. Received: {depth=}"
        )

    inputs = keras.Input(input_shape, name="image")
    x = convolution(inputs, 16, 3, 1, "conv")
    for stage in (1, 2, 3):
        for block in range(1, (depth - 4) // 6 + 1):
            strides = 2 if stage > 1 and block == 1 else 1
            filters, block_name = 8 * 2**stage * width, f"stage{stage}_block{block}"
            x = _block(x, filters, strides, dropout, block_name)
    x = _activated(x, "final")
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    x = keras.layers.Dense(classes, kernel_initializer="he_normal", name="classifier")(x)
    return keras.Model(inputs, x, name=name)


def _block(x, filters, strides, dropout, name):
    """Two convolutions, each after its normalization, and a shortcut."""
    shortcut, y = x, _activated(x, f"{name}_1")
    if x.shape[channel_axis()] != filters:
        shortcut = keras.layers.Conv2D(
            *(filters, 1, strides),
            use_bias=False,
            kernel_initializer="he_normal",
            name=f"{name}_skip",
        )(y)
    y = convolution(y, filters, 3, strides, f"{name}_conv1")
    y = _activated(y, f"{name}_2")
    if dropout:
        y = keras.layers.Dropout(dropout, name=f"{name}_dropout")(y)
    y = convolution(y, filters, 3, 1, f"{name}_conv2")
    return keras.layers.Add(name=f"{name}_add")([y, shortcut])


def _activated(x, name):
    """Batch normalization and ReLU."""
    return keras.layers.ReLU(name=f"{name}_relu")(normalization(x, f"{name}_normalization"))
