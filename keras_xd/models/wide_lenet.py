"""A wider LeNet with batch normalization."""

import keras

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types


@check_types
def wide_lenet(
    input_shape: tuple[int, int, int],
    classes: int,
    filters: tuple[int, int, int] = (32, 64, 128),
    units: int = 128,
    name: str = "wide_lenet",
) -> keras.Model:
    """Return LeNet with three 3 × 3 convolutions, more channels and batch normalization.

    The convolutions `conv1`, `conv2` and `conv3` have padding "same", ReLU and batch normalization
    after each; a dense layer with ReLU and batch normalization and one of `classes` units follow.
    A 2 × 2 average pooling is behind the first and the third convolution. The reference says
    nothing of poolings; it shares one operation between the second and the third layer, which
    therefore see the same sizes here.

    Args:
        input_shape: shape of one image, channels where Keras' image data format has them; height
            and width are at least 4.
        classes: number of outputs, which are logits.
        filters: channels of the three convolutions.
        units: units of the first dense layer.

    Returns:
        A `keras.Model`; 1,144,650 parameters at `(32, 32, 3)` with 10 classes.

    Example: a search space where the second and the third K-operation are one.

    >>> import keras_xd
    >>> model = keras_xd.models.wide_lenet(
    ...     (8, 8, 3), classes=10, filters=(4, 4, 4), units=8
    ... )
    >>> shared = keras_xd.layers.KOperation()
    >>> tied = keras_xd.rewrite(
    ...     model, "k_operation", only=["conv2", "conv3"], operation=shared
    ... )
    >>> space = keras_xd.rewrite(tied, "k_operation", only="conv1")
    >>> len(
    ...     keras_xd.architecture_variables(space)
    ... )  # three matrices for both axes of two
    12

    Reference:
        Roberts et al., "Searching for Convolutions and a More Ambitious NAS", 2020, appendix B.
    """
    input_shape = validation.integer_tuple(input_shape, 3, "input_shape")
    classes = validation.positive_integer(classes, "classes")
    filters = validation.integer_tuple(filters, 3, "filters")
    units = validation.positive_integer(units, "units")
    channels_last = keras.config.image_data_format() == "channels_last"
    if min(input_shape[:2] if channels_last else input_shape[1:]) < 4:
        raise ValueError(
            "`input_shape` must have a height and a width of at least 4. "
            f"Received: input_shape={input_shape!r}"
        )

    inputs = keras.Input(input_shape, name="image")
    x = inputs
    for index, channels in enumerate(filters, start=1):
        x = keras.layers.Conv2D(
            channels, 3, padding="same", activation="relu", name=f"conv{index}"
        )(x)
        axis = -1 if channels_last else 1
        x = keras.layers.BatchNormalization(axis=axis, name=f"normalization{index}")(x)
        if index != 2:
            x = keras.layers.AveragePooling2D(2, name=f"pool{index}")(x)
    x = keras.layers.Flatten(name="flatten")(x)
    x = keras.layers.Dense(units, activation="relu", name="dense1")(x)
    x = keras.layers.BatchNormalization(name="normalization4")(x)
    return keras.Model(inputs, keras.layers.Dense(classes, name="classifier")(x), name=name)
