"""LeNet with ReLU activations."""

import keras

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types


@check_types
def lenet(
    input_shape: tuple[int, int, int],
    classes: int,
    padding: str = "valid",
    pooling: str = "max",
    name: str = "lenet",
) -> keras.Model:
    """Return LeNet: two 5 × 5 convolutions (6 and 16 channels), then 120, 84 and `classes` units.

    The convolutions are named `conv1` and `conv2`. A 2 × 2 pooling follows each.

    Args:
        input_shape: shape of one image, channels where Keras' image data format has them.
        classes: number of outputs, which are logits.
        padding: padding of the convolutions, `"valid"` or `"same"`.
        pooling: `"max"` or `"average"`.

    Returns:
        A `keras.Model`; 62,006 parameters at `(32, 32, 3)` with 10 classes.

    Example:

    ```python
    import keras
    from keras_xd import models

    model = models.lenet((32, 32, 3), classes=10)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    ```

    Reference:
        LeCun et al., "Gradient-based learning applied to document recognition", 1998.
    """
    input_shape = validation.integer_tuple(input_shape, 3, "input_shape")
    classes = validation.positive_integer(classes, "classes")
    validation.one_of(padding, ("valid", "same"), "padding")
    poolings = {"max": keras.layers.MaxPooling2D, "average": keras.layers.AveragePooling2D}
    pool = poolings[validation.one_of(pooling, tuple(poolings), "pooling")]

    inputs = keras.Input(input_shape, name="image")
    x = inputs
    for index, filters in enumerate((6, 16), start=1):
        x = keras.layers.Conv2D(
            filters, 5, padding=padding, activation="relu", name=f"conv{index}"
        )(x)
        x = pool(2, name=f"pool{index}")(x)
    x = keras.layers.Flatten(name="flatten")(x)
    x = keras.layers.Dense(120, activation="relu", name="dense1")(x)
    x = keras.layers.Dense(84, activation="relu", name="dense2")(x)
    return keras.Model(inputs, keras.layers.Dense(classes, name="classifier")(x), name=name)
