"""Backbones and experts of the scoreboard's tasks; all end in logits or the values of fields."""

import bisect

import keras

import keras_xd

WIDTH, MODES, PROJECTION = {1: 16, 2: 10}, {1: 8, 2: 5}, 32
MUSIC = {"channels": 32, "levels": 3, "dropout": 0.2}

_SIZES = ("filters", "units", "output_dim")
_STEPS = 32  # of a factor of the width


def wide(model, parameters):
    """Return a network, wider everywhere but in its outputs, with at least so many parameters.

    The factor is the smallest of 1, 1 + 1/32, 1 + 2/32, ….
    """
    sized = [layer for layer in model.layers if any(hasattr(layer, name) for name in _SIZES)]
    kept = sized[-1].name  # the outputs

    def widened(steps):
        def clone(layer):
            config = layer.get_config()
            if layer.name != kept:
                for name in set(config).intersection(_SIZES):
                    config[name] = round(config[name] * (1 + steps / _STEPS))
            return type(layer).from_config(config)

        return keras.models.clone_model(model, clone_function=clone)

    if model.count_params() >= parameters:
        return model

    def count(steps):
        return widened(steps).count_params()

    most = 1
    while count(most) < parameters:
        most *= 2
    return widened(bisect.bisect_left(range(most), parameters, lo=most // 2, key=count))


def image(data):
    """Return LeNet with average pooling."""
    return keras_xd.models.lenet(data.shape, data.classes, padding="same", pooling="average")


def wide_resnet(data, width=32):
    """Return a wide residual network: three blocks, twice as wide as those of ResNet-20."""
    inputs = keras.Input(data.shape, name="image")
    x = _convolution(inputs, width // 2, 1, "conv")
    for stage in range(3):
        filters, strides, name = width * 2**stage, 2 - (stage == 2), f"stage{stage + 1}"
        y = keras.layers.BatchNormalization(momentum=0.9, name=f"{name}_normalization1")(x)
        y = keras.layers.ReLU(name=f"{name}_relu1")(y)
        skip = _convolution(y, filters, strides, f"{name}_skip", 1)
        y = _convolution(y, filters, strides, f"{name}_conv1")
        y = keras.layers.BatchNormalization(momentum=0.9, name=f"{name}_normalization2")(y)
        y = keras.layers.ReLU(name=f"{name}_relu2")(y)
        y = _convolution(y, filters, 1, f"{name}_conv2")
        x = keras.layers.Add(name=f"{name}_add")([y, skip])
    x = keras.layers.BatchNormalization(momentum=0.9, name="normalization")(x)
    x = keras.layers.ReLU(name="relu")(x)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(inputs, keras.layers.Dense(data.classes, name="classifier")(x))


def _convolution(x, filters, strides, name, size=3):
    return keras.layers.Conv2D(
        filters,
        size,
        strides,
        padding="same",
        use_bias=False,
        kernel_initializer="he_normal",
        name=name,
    )(x)


def sequence(data):
    """Return LeNet's form in one dimension: two convolutions with average pooling of 4."""
    inputs = x = keras.Input(data.shape, name="sequence")
    for index, filters in enumerate((8, 16), start=1):
        x = keras.layers.Conv1D(filters, 5, padding="same", activation="relu", name=f"conv{index}")(
            x
        )
        x = keras.layers.AveragePooling1D(4, name=f"pool{index}")(x)
    x = keras.layers.Flatten(name="flatten")(x)
    x = keras.layers.Dense(64, activation="relu", name="dense")(x)
    return keras.Model(inputs, keras.layers.Dense(data.classes, name="classifier")(x))


def sequence_tcn(data):
    """Return a temporal convolutional network that classifies by its last step."""
    options = {"channels": 16, "levels": 6, "kernel_size": 3, "dropout": 0.0}
    return last_step(keras_xd.models.tcn(data.shape, data.classes, **options))


def music(data, dilated=False):
    """Return a temporal convolutional network without dilation, of which the last step counts."""
    return last_step(keras_xd.models.tcn(data.shape, data.classes, dilated=dilated, **MUSIC))


def music_tcn(data):
    """Return the network with dilations 1, 2 and 4."""
    return music(data, dilated=True)


def last_step(model):
    """Return a network with the last step of the outputs only."""
    steps, outputs = model.output_shape[1:]
    x = keras.layers.Cropping1D((steps - 1, 0), name="last_step")(model.output)
    return keras.Model(model.input, keras.layers.Reshape((outputs,), name="flat")(x))


def field(data):
    """Return the Fourier neural operator's form with convolutions of zero padding."""
    return _operator(data, operation="convolution", padding="same")


def fourier(data):
    """Return a Fourier neural operator."""
    return _operator(data, operation="fourier")


def _operator(data, **options):
    rank = len(data.shape) - 1
    modes = min(MODES[rank], data.shape[0] // 2 - 1)
    return keras_xd.models.fno(
        data.shape, width=WIDTH[rank], modes=modes, projection=PROJECTION, **options
    )


def sentence(data):
    """Return Kim's network."""
    return keras_xd.models.kim_cnn(
        data.shape[0], data.vocabulary, data.classes, embedding=32, filters=32
    )
