"""Convolutional networks that classify time series: FCN, ResNet and InceptionTime."""

import keras

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.models.blocks import checked_shape

KERNEL_SIZES = (8, 5, 3)  # of FCN, and of every block of the ResNet


@check_types
def fcn(
    input_shape: tuple[int | None, int],
    classes: int,
    filters: tuple[int, int, int] = (128, 256, 128),
    name: str = "fcn",
) -> keras.Model:
    """Return the fully convolutional network for time series.

    Three convolutions of sizes 8, 5 and 3, each with batch normalization and ReLU, then the mean
    over the steps and a dense layer. The convolutions are named `conv1`, `conv2` and `conv3`.
    Batch normalization has momentum 0.9 here, for data sets of a few batches; published is 0.99.

    Args:
        input_shape: `(steps, channels)`. The number of steps may be `None`, but a search over the
            operations has to know it.
        classes: number of outputs, which are logits.
        filters: channels of the three convolutions.

    Returns:
        A `keras.Model` from `(batch, steps, channels)` to `(batch, classes)`, whatever Keras'
        image data format; 264,962 trainable parameters at one channel and two classes.

    Example:

    >>> from keras_xd import models
    >>> models.fcn((150, 1), classes=2).output_shape
    (None, 2)

    Reference:
        Wang et al., "Time series classification from scratch with deep neural networks: A strong
        baseline", 2017.
    """
    input_shape, classes = _checked(input_shape, classes)
    filters = validation.integer_tuple(filters, 3, "filters")

    inputs = keras.Input(input_shape, name="series")
    x = inputs
    for number, (width, size) in enumerate(zip(filters, KERNEL_SIZES, strict=True), start=1):
        x = _normalized_convolution(x, width, size, f"conv{number}")
        x = keras.layers.ReLU(name=f"conv{number}_relu")(x)
    return _classifier(inputs, x, classes, name)


@check_types
def resnet1d(
    input_shape: tuple[int | None, int],
    classes: int,
    filters: tuple[int, int, int] = (64, 128, 128),
    name: str = "resnet1d",
) -> keras.Model:
    """Return the residual network for time series.

    Three blocks of three convolutions of sizes 8, 5 and 3, each with batch normalization and all
    but the last of a block with ReLU. The block's input is added, through batch normalization and,
    where the number of channels changes, a convolution of size 1; a ReLU follows. The mean over the
    steps and a dense layer classify. The convolutions are named `block1_conv1`, `block1_skip` and
    so on. Batch normalization is as in `fcn`.

    Args:
        input_shape, classes, name: as in `fcn`.
        filters: channels of the three blocks.

    Returns:
        A `keras.Model` as of `fcn`; 504,258 trainable parameters at one channel and two classes.

    Example:

    >>> from keras_xd import models
    >>> models.resnet1d((150, 1), classes=2, filters=(8, 16, 16)).output_shape
    (None, 2)

    Reference:
        Wang et al., "Time series classification from scratch with deep neural networks: A strong
        baseline", 2017.
    """
    input_shape, classes = _checked(input_shape, classes)
    filters = validation.integer_tuple(filters, 3, "filters")

    inputs = keras.Input(input_shape, name="series")
    x = inputs
    for block, width in enumerate(filters, start=1):
        shortcut = x
        for number, size in enumerate(KERNEL_SIZES, start=1):
            x = _normalized_convolution(x, width, size, f"block{block}_conv{number}")
            if number < len(KERNEL_SIZES):
                x = keras.layers.ReLU(name=f"block{block}_relu{number}")(x)
        skip = f"block{block}_skip"
        if shortcut.shape[-1] == width:
            shortcut = _normalization(shortcut, skip)
        else:
            shortcut = _normalized_convolution(shortcut, width, 1, skip)
        x = keras.layers.Add(name=f"block{block}_add")([x, shortcut])
        x = keras.layers.ReLU(name=f"block{block}_relu")(x)
    return _classifier(inputs, x, classes, name)


@check_types
def inception_time(
    input_shape: tuple[int | None, int],
    classes: int,
    filters: int = 32,
    kernel_size: int = 40,
    depth: int = 6,
    name: str = "inception_time",
) -> keras.Model:
    """Return one network of InceptionTime, which is an ensemble of five of them.

    Each module has a convolution of size 1 (the bottleneck, unless the input has one channel) and,
    side by side on its result, convolutions of sizes `kernel_size`, half and a quarter of it;
    beside them is a maximum over 3 steps with a convolution of size 1. All four together pass batch
    normalization and ReLU. Behind every third module the input of the first of the three is added,
    through a convolution of size 1 and batch normalization, with a ReLU. The mean over the steps
    and a dense layer classify. The convolutions, all without bias, are named `module1_bottleneck`,
    `module1_conv40`, `module1_pool_conv`, `module3_skip` and so on. Batch
    normalization is as in `fcn`.

    Args:
        input_shape: `(steps, channels)`. The number of steps may be `None`, but a search over the
            operations has to know it.
        classes: number of outputs, which are logits.
        filters: channels of each convolution of a module, of which there are four.
        kernel_size: size of the longest convolution, at least 4.
        depth: number of modules.

    Returns:
        A `keras.Model` from `(batch, steps, channels)` to `(batch, classes)`, whatever Keras'
        image data format; 420,450 trainable parameters at one channel and two classes.

    Example:

    >>> from keras_xd import models
    >>> models.inception_time((150, 1), classes=2, filters=4, depth=3).output_shape
    (None, 2)

    Reference:
        Ismail Fawaz et al., "InceptionTime: Finding AlexNet for time series classification", 2020.
    """
    input_shape, classes = _checked(input_shape, classes)
    filters = validation.positive_integer(filters, "filters")
    kernel_size = validation.positive_integer(kernel_size, "kernel_size")
    depth = validation.positive_integer(depth, "depth")
    if kernel_size < 4:
        raise ValueError(f"`kernel_size` must be at least 4. Received: {kernel_size=}")

    inputs = keras.Input(input_shape, name="series")
    x = shortcut = inputs
    for module in range(1, depth + 1):
        x = _inception_module(x, filters, kernel_size, f"module{module}")
        if module % 3 == 0:
            added = _normalized_convolution(
                shortcut, x.shape[-1], 1, f"module{module}_skip", use_bias=False
            )
            x = keras.layers.Add(name=f"module{module}_add")([x, added])
            x = shortcut = keras.layers.ReLU(name=f"module{module}_skip_relu")(x)
    return _classifier(inputs, x, classes, name)


def _inception_module(x, filters, kernel_size, name):
    """Convolutions of three sizes and a pooling, side by side."""
    pooled = keras.layers.MaxPooling1D(
        3, 1, padding="same", data_format="channels_last", name=f"{name}_pool"
    )(x)
    if x.shape[-1] > 1:
        x = _convolution(x, filters, 1, f"{name}_bottleneck", use_bias=False)
    parts = [
        _convolution(x, filters, size, f"{name}_conv{size}", use_bias=False)
        for size in (kernel_size, kernel_size // 2, kernel_size // 4)
    ]
    parts.append(_convolution(pooled, filters, 1, f"{name}_pool_conv", use_bias=False))
    x = keras.layers.Concatenate(name=f"{name}_concatenate")(parts)
    return keras.layers.ReLU(name=f"{name}_relu")(_normalization(x, name))


def _checked(input_shape, classes):
    """Return shape and number of classes, if they are what all three networks take."""
    shape = checked_shape(input_shape, (2,), "(steps, channels)")
    return shape, validation.positive_integer(classes, "classes")


def _convolution(x, filters, size, name, use_bias=True):
    """A convolution over the steps, whose outputs are as many."""
    return keras.layers.Conv1D(
        filters, size, padding="same", data_format="channels_last", use_bias=use_bias, name=name
    )(x)


def _normalized_convolution(x, filters, size, name, use_bias=True):
    """A convolution and batch normalization."""
    return _normalization(_convolution(x, filters, size, name, use_bias), name)


def _normalization(x, name):
    """Batch normalization whose averages follow in a few dozen updates, as data sets are small."""
    return keras.layers.BatchNormalization(momentum=0.9, name=f"{name}_normalization")(x)


def _classifier(inputs, x, classes, name):
    """The model that classifies by the mean over the steps."""
    x = keras.layers.GlobalAveragePooling1D(data_format="channels_last", name="pool")(x)
    return keras.Model(inputs, keras.layers.Dense(classes, name="classifier")(x), name=name)
