"""ResNet-18 for small images, as in table 1 of Neural Operator Search."""

import keras

from keras_xd.models.blocks import convolution, normalization


def resnet18(input_shape, classes):
    """Return ResNet-18 whose first convolution is 3 × 3 without stride, and without pooling.

    Four stages of two blocks with 64, 128, 256 and 512 channels; 11,173,962 trainable parameters at
    `(32, 32, 3)` with 10 classes. The layers' names are those of `keras_xd.models.resnet20`.
    """
    inputs = keras.Input(input_shape, name="image")
    x = keras.layers.ReLU(name="conv_relu")(_normalized(inputs, 64, 3, 1, "conv"))
    for stage, filters in enumerate((64, 128, 256, 512), start=1):
        for block in (1, 2):
            strides = 2 if stage > 1 and block == 1 else 1
            x = _block(x, filters, strides, f"stage{stage}_block{block}")
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    x = keras.layers.Dense(classes, kernel_initializer="he_normal", name="classifier")(x)
    return keras.Model(inputs, x, name="resnet18")


def _block(x, filters, strides, name):
    """Two convolutions and a shortcut."""
    shortcut = x
    if strides > 1:
        shortcut = keras.layers.AveragePooling2D(1, strides, name=f"{name}_subsample")(x)
        shortcut = _normalized(shortcut, filters, 1, 1, f"{name}_shortcut")
    x = _normalized(x, filters, 3, strides, f"{name}_conv1")
    x = keras.layers.ReLU(name=f"{name}_relu1")(x)
    x = _normalized(x, filters, 3, 1, f"{name}_conv2")
    x = keras.layers.Add(name=f"{name}_add")([x, shortcut])
    return keras.layers.ReLU(name=f"{name}_relu2")(x)


def _normalized(x, filters, kernel_size, strides, name):
    """A convolution and batch normalisation."""
    x = convolution(x, filters, kernel_size, strides, name)
    return normalization(x, f"{name}_normalization")
