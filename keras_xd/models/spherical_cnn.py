"""The planar network that spherical convolutions are compared with."""

import keras

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types


@check_types
def spherical_cnn(
    input_shape: tuple[int, int, int],
    classes: int,
    filters: int | tuple[int, int] = (20, 40),
    name: str = "spherical_cnn",
) -> keras.Model:
    """Return two 5 × 5 convolutions of stride 3 and a dense layer.

    The convolutions, with ReLU, are named `conv1` and `conv2`. The network reads a grid of angles
    of the sphere as if it were a plane: the convolutional baseline of spherical networks, with
    operations to be searched.

    Args:
        input_shape: shape of one image, channels where Keras' image data format has them; height
            and width are at least 17.
        classes: number of outputs, which are logits.
        filters: channels of the two convolutions.

    Returns:
        A `keras.Model`; 30,570 parameters at `(60, 60, 1)` with 10 classes.

    Example:

    >>> import keras_xd
    >>> model = keras_xd.models.spherical_cnn((60, 60, 1), classes=10)
    >>> model.get_layer("conv2").output.shape
    (None, 5, 5, 40)

    Reference:
        Cohen et al., "Spherical CNNs", 2018, section 5.2; ButterfLeNet-Spherical in Roberts et al.,
        "Searching for Convolutions and a More Ambitious NAS", 2020, section 5.
    """
    input_shape = validation.integer_tuple(input_shape, 3, "input_shape")
    classes = validation.positive_integer(classes, "classes")
    filters = validation.integer_tuple(filters, 2, "filters")
    channels_last = keras.config.image_data_format() == "channels_last"
    if min(input_shape[:2] if channels_last else input_shape[1:]) < 17:
        raise ValueError(
            "`input_shape` must have a height and a width of at least 17. "
            f"Received: input_shape={input_shape!r}"
        )

    inputs = keras.Input(input_shape, name="image")
    x = inputs
    for index, channels in enumerate(filters, start=1):
        x = keras.layers.Conv2D(channels, 5, strides=3, activation="relu", name=f"conv{index}")(x)
    x = keras.layers.Flatten(name="flatten")(x)
    return keras.Model(inputs, keras.layers.Dense(classes, name="classifier")(x), name=name)
