"""Small Keras models with convolutions, of every structure that the package walks."""

import contextlib

import keras
import numpy as np
from keras import layers

import keras_xd


def residual(size=8, **options):
    """A Functional model with batch normalization, raw operations and additions."""
    inputs = keras.Input((size, size, 3), name="image")
    x = layers.Conv2D(4, 3, padding="same", name="stem", **options)(inputs)
    for index, stride in enumerate((1, 2)):
        shortcut = x if stride == 1 else layers.Conv2D(4, 1, stride, name="shortcut")(x)
        x = layers.Conv2D(4, 3, stride, padding="same", use_bias=False, name=f"block{index}_a")(x)
        x = layers.BatchNormalization(name=f"block{index}_norm")(x)
        x = layers.Conv2D(4, 3, padding="same", activation="relu", name=f"block{index}_b")(x)
        x = layers.Add(name=f"block{index}_add")([x, shortcut])
    x = layers.GlobalAveragePooling2D(name="pool")(x * 0.5 + 1.0)
    x = layers.Dropout(0.5, name="dropout")(x)
    return keras.Model(inputs, layers.Dense(3, name="classifier")(x), name="residual")


def sequential():
    """A Sequential model on sequences, with a causal and a dilated convolution."""
    return keras.Sequential(
        [
            keras.Input((13, 2)),
            layers.Conv1D(4, 3, padding="causal", activation="relu", name="causal"),
            layers.Conv1D(4, 2, dilation_rate=3, groups=2, name="dilated"),
            layers.Flatten(name="flatten"),
            layers.Dense(2, name="classifier"),
        ],
        name="sequence",
    )


def nested():
    """A model that calls the same nested model twice, around a nested Sequential model."""
    inside = keras.Input((6, 6, 2), name="features")
    stack = keras.Sequential(
        [layers.Conv2D(2, 3, padding="same", name="conv"), layers.ReLU(name="relu")], name="stack"
    )
    block = keras.Model(inside, stack(inside) + inside, name="block")
    inputs = keras.Input((6, 6, 2), name="image")
    x = layers.Conv2D(2, 3, padding="same", name="conv")(block(inputs))
    return keras.Model(inputs, layers.Flatten(name="flatten")(block(x)), name="nested")


def shared():
    """A model with dictionaries of inputs and outputs, whose inputs share a convolution."""
    left, right = keras.Input((7, 5, 1), name="left"), keras.Input((7, 5, 1), name="right")
    convolution = layers.Conv2D(3, (3, 2), name="twin")
    difference = layers.Subtract(name="subtract")([convolution(left), convolution(right)])
    pooled = layers.GlobalMaxPooling2D(name="pool")(difference)
    return keras.Model(
        {"left": left, "right": right}, {"map": difference, "pooled": pooled}, name="shared"
    )


def volumes():
    """A Sequential model with a three-dimensional convolution."""
    return keras.Sequential(
        [keras.Input((4, 3, 5, 1)), layers.Conv3D(2, 2, padding="same", name="volume")],
        name="volumes",
    )


ALL = (residual, sequential, nested, shared, volumes)


def inputs_of(model, rng, batch=3, sizes=()):
    """Return a random input batch in the structure of the model's inputs.

    Sizes that are not known are those of `sizes`.
    """

    def draw(shape):
        unknown = iter(sizes)
        shape = [next(unknown) if size is None else size for size in shape]
        return rng.normal(size=(batch, *shape)).astype("float32")

    if isinstance(model, keras.Sequential):
        return draw(model.input_shape[1:])
    return keras.tree.map_structure(lambda tensor: draw(tensor.shape[1:]), model.input)


def randomize(model, rng):
    """Give every weight of a model, batch-norm statistics too, a random value of its own."""
    for weight in model.weights:
        noise = rng.normal(scale=0.3, size=weight.shape)
        weight.assign(np.abs(noise) + 0.5 if "variance" in weight.name else noise)
    return model


def outputs_of(model, inputs):
    """Return the model's outputs as a flat list of arrays."""
    outputs = model(inputs, training=False)
    return [keras.ops.convert_to_numpy(output) for output in keras.tree.flatten(outputs)]


def assert_same_outputs(model, other, inputs, tolerance):
    """Assert that the largest difference is below `tolerance` times the largest output."""
    for expected, actual in zip(outputs_of(model, inputs), outputs_of(other, inputs), strict=True):
        scale = np.max(np.abs(expected))
        assert scale > 0.01
        np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def fingerprint(model):
    """Return what must not change when a model is left untouched: configuration and weights."""
    return model.to_json(), [weight.tobytes() for weight in model.get_weights()]


@contextlib.contextmanager
def architecture_restored(model):
    """Give the architecture its values of before at the end, for models that tests share."""
    variables = keras_xd.architecture_variables(model)
    before = [keras.ops.convert_to_numpy(variable).copy() for variable in variables]
    yield
    for variable, value in zip(variables, before, strict=True):
        variable.assign(value)
