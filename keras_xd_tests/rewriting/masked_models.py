"""Small models whose kernels, widths and depth can be masked."""

import keras
from keras import layers


def _normalized(x, filters, kernel_size, strides, name):
    options = {"padding": "same", "use_bias": False, "name": name}
    x = layers.Conv2D(filters, kernel_size, strides, **options)(x)
    return layers.BatchNormalization(name=f"{name}_norm")(x)


def residual(size=8):
    """Two stages of two residual blocks, with a projection, and two dense layers.

    The convolution `a` of each block has a kernel of 5, `b` of 3.
    """
    inputs = keras.Input((size, size, 3), name="image")
    x = layers.Conv2D(4, 3, padding="same", activation="relu", name="stem")(inputs)
    for stage, filters in enumerate((4, 6)):
        for block in range(2):
            name, strides = f"s{stage}b{block}", 2 if stage and not block else 1
            y = _normalized(x, filters, 5, strides, f"{name}_a")
            y = layers.ReLU(name=f"{name}_relu")(y)
            y = _normalized(y, filters, 3, 1, f"{name}_b")
            if strides > 1:
                x = layers.Conv2D(filters, 1, strides, name=f"{name}_projection")(x)
            x = layers.ReLU(name=f"{name}_out")(layers.Add(name=f"{name}_add")([y, x]))
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    x = layers.Dense(5, activation="gelu", name="hidden")(x)
    return keras.Model(inputs, layers.Dense(3, name="classifier")(x), name="residual")
