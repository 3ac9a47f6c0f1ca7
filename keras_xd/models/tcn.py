"""Temporal convolutional networks for sequences."""

import keras

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.layers import WeightNormalizedConv1D
from keras_xd.models.blocks import check_dropout, checked_shape


@check_types
def tcn(
    input_shape: tuple[int | None, int],
    outputs: int,
    channels: int = 150,
    levels: int = 3,
    kernel_size: int = 2,
    dilated: bool = True,
    dropout: float = 0.5,
    weight_normalization: bool = False,
    name: str = "tcn",
) -> keras.Model:
    """Return a temporal convolutional network: an output for each step, from it and earlier ones.

    Each level has two causal convolutions, each with ReLU and dropout after it. Their result is
    added to the level's input, which passes a convolution of size 1 where it has another number of
    channels, and a ReLU follows. A Dense layer makes the outputs of each step alone. The
    convolutions are named `level1_conv1`, `level1_conv2`, `level1_skip` and so on.

    Args:
        input_shape: `(steps, channels)`. The number of steps may be `None`, but a search over the
            operations has to know it.
        outputs: number of outputs of each step, which are logits.
        channels: number of channels between.
        levels: number of levels.
        kernel_size: size of the convolutions.
        dilated: whether the dilation doubles from level to level, beginning with 1. Otherwise it
            is 1 everywhere. An output depends on its own step and on
            `2 * (kernel_size - 1) * (2**levels - 1)` steps before it, or on
            `2 * (kernel_size - 1) * levels` of them without dilation.
        dropout: share of the channels that each dropout sets to zero in training.
        weight_normalization: whether the two convolutions of each level are
            `keras_xd.layers.WeightNormalizedConv1D`, as published, whose filters train a direction
            and a length.

    Returns:
        A `keras.Model` from `(batch, steps, channels)` to `(batch, steps, outputs)`, whatever
        Keras' image data format; 278,938 parameters at 88 channels and 88 outputs, dilated or not.

    Example:

    >>> import numpy as np
    >>> from keras_xd import models
    >>> model = models.tcn((40, 88), outputs=88, channels=16)
    >>> tuple(model(np.zeros((1, 40, 88))).shape)
    (1, 40, 88)

    Reference:
        Bai et al., "An Empirical Evaluation of Generic Convolutional and Recurrent Networks for
        Sequence Modeling", 2018; without dilation the backbone of Roberts et al., "Rethinking
        Neural Operations for Diverse Tasks", 2021, section 5.
    """
    input_shape = checked_shape(input_shape, (2,), "(steps, channels)")
    outputs = validation.positive_integer(outputs, "outputs")
    channels = validation.positive_integer(channels, "channels")
    levels = validation.positive_integer(levels, "levels")
    kernel_size = validation.positive_integer(kernel_size, "kernel_size")
    check_dropout(dropout)
    normalized = validation.boolean(weight_normalization, "weight_normalization")
    layer_class = WeightNormalizedConv1D if normalized else keras.layers.Conv1D

    inputs = keras.Input(input_shape, name="sequence")
    x = inputs
    for level in range(1, levels + 1):
        dilation = 2 ** (level - 1) if dilated else 1
        shortcut = x
        if x.shape[-1] != channels:
            shortcut = _convolution(keras.layers.Conv1D, channels, 1, 1, f"level{level}_skip")(x)
        for number in (1, 2):
            convolution = f"level{level}_conv{number}"
            x = _convolution(layer_class, channels, kernel_size, dilation, convolution)(x)
            x = keras.layers.ReLU(name=f"level{level}_relu{number}")(x)
            x = keras.layers.Dropout(dropout, name=f"level{level}_dropout{number}")(x)
        x = keras.layers.Add(name=f"level{level}_add")([x, shortcut])
        x = keras.layers.ReLU(name=f"level{level}_relu")(x)
    return keras.Model(inputs, keras.layers.Dense(outputs, name="outputs")(x), name=name)


def _convolution(layer_class, filters, kernel_size, dilation, name):
    """A causal convolution whose kernel is drawn as in the published network."""
    return layer_class(
        filters,
        kernel_size,
        padding="causal",
        data_format="channels_last",
        dilation_rate=dilation,
        kernel_initializer=keras.initializers.RandomNormal(stddev=0.01),
        name=name,
    )
