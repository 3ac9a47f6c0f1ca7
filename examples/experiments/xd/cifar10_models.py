"""The four networks that `cifar10.py` compares, all made from LeNet."""

import keras

import keras_xd

IMAGE_SHAPE = (32, 32, 3)
CLASSES = 10
POOLED_SIZES = (6 * 14 * 14, 16 * 5 * 5)  # what LeNet holds after its first and second pooling


def backbone():
    """Return LeNet with maximum pooling."""
    return keras_xd.models.lenet(IMAGE_SHAPE, CLASSES)


def searched():
    """Return LeNet with average pooling, both convolutions and both poolings XD-operations.

    Every K-matrix has depth 3; all four operations have a frequency bias `b` and channel gates `C`.
    The convolutions are not padded, so that circular padding would change nothing.
    `keras_xd.rewrite` with `operations=("convolution", "pooling")` makes the same of
    `keras_xd.models.lenet(…, pooling="average")`; here it is written out, to be seen.
    """
    options = {"depth": 3, "frequency_bias": True, "channel_gates": True}
    inputs = keras.Input(IMAGE_SHAPE, name="image")
    x = inputs
    for index, filters in enumerate((6, 16), start=1):
        x = keras_xd.layers.XDConv2D(filters, 5, activation="relu", name=f"conv{index}", **options)(
            x
        )
        x = keras_xd.layers.XDConv2D(
            filters,
            2,
            strides=2,
            use_bias=False,
            warm_start="average_pooling",
            name=f"pool{index}",
            **options,
        )(x)
    return _classified(inputs, keras.layers.Flatten(name="flatten")(x), "searched_lenet")


def linear():
    """Return LeNet with a dense layer in place of each convolution and its pooling."""
    return _without_convolutions(keras.layers.Dense, "linear")


def k_layer():
    """Return LeNet with a K-matrix of the whole image in place of each convolution and pooling."""
    return _without_convolutions(keras_xd.layers.KDense, "k_layer")


def _without_convolutions(layer_class, name):
    inputs = keras.Input(IMAGE_SHAPE, name="image")
    x = keras.layers.Flatten(name="flatten")(inputs)
    for index, units in enumerate(POOLED_SIZES, start=1):
        x = layer_class(units, activation="relu", name=f"{name}{index}")(x)
    return _classified(inputs, x, name)


def _classified(inputs, x, name):
    """Return the model that ends with LeNet's three dense layers."""
    x = keras.layers.Dense(120, activation="relu", name="dense1")(x)
    x = keras.layers.Dense(84, activation="relu", name="dense2")(x)
    return keras.Model(inputs, keras.layers.Dense(CLASSES, name="classifier")(x), name=name)


METHODS = {"backbone": backbone, "xd": searched, "linear": linear, "k_layer": k_layer}
