"""What a configuration says: a layer, its inputs, and what it must compute."""

import dataclasses
import math
from collections.abc import Callable

import keras
import numpy as np

ACTIVATIONS = (None, None, "tanh", "gelu", "sigmoid")


@dataclasses.dataclass(frozen=True)
class Twin:
    """What computes the same as a layer, by Keras.

    Attributes:
        function: function of a tensor.
        variables: variables of the layer and of what computes the same, in pairs, whose gradients
            must be equal; empty where TensorFlow has no gradient of the twin on the CPU.
    """

    function: Callable
    variables: tuple = ()


@dataclasses.dataclass(frozen=True)
class Subject:
    """A layer to check, and what it is checked against.

    Attributes:
        layer_class: the class of the layer.
        arguments: arguments of its constructor.
        shapes: shapes of its inputs, the batch first.
        twin: function of a built layer that returns its `Twin`, for what is searched as it begins.
        oracle: function of a built layer and its inputs that returns what NumPy computes, for any
            values of the layer's weights.
        settle: function of a built layer and a generator that gives the weights the values they
            are checked with; by default those that are not searched are random.
        move: function of a layer and a generator that moves what is searched away from where it
            begins; by default by random numbers.
        finalizes: whether `finalize` gives the same outputs wherever the search has moved to.
        derivatives: whether the outputs are smooth in all trainable variables and the inputs.
        tolerance: largest relative error in float32.
        tolerance64: the same in float64.
        extra: function of a data type that returns further arguments, which JSON does not know.
        convolves: whether Keras' convolution computes the outputs.
    """

    layer_class: type
    arguments: dict
    shapes: tuple
    twin: Callable | None = None
    oracle: Callable | None = None
    settle: Callable | None = None
    move: Callable | None = None
    finalizes: bool = True
    derivatives: bool = True
    tolerance: float = 1e-5
    tolerance64: float = 1e-9
    extra: Callable | None = None
    convolves: bool = False


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of layers.

    Attributes:
        draw: function of a NumPy generator that returns a configuration, of JSON's types.
        subject: function of a configuration that returns a `Subject`.
    """

    draw: Callable
    subject: Callable


def subject(layer_class, **options):
    """Return the function from a configuration of a layer with one input to its `Subject`."""
    return lambda configuration: Subject(
        layer_class, configuration["arguments"], (shape_of(configuration),), **options
    )


def of_json(value):
    """Return a configuration as JSON gives it back, with lists as tuples."""
    if isinstance(value, dict):
        return {key: of_json(part) for key, part in value.items()}
    return tuple(map(of_json, value)) if isinstance(value, list | tuple) else value


def choice(rng, values):
    """Return one of a sequence, as it is."""
    return values[int(rng.integers(len(values)))]


def integer(rng, low, high):
    """Return an integer from `low` to `high`."""
    return int(rng.integers(low, high + 1))


def chance(rng, probability):
    return bool(rng.random() < probability)


def sizes(rng, rank, largest=(24, 9, 5)):
    """Return spatial sizes: odd, even, prime and powers of two."""
    return [integer(rng, 2, largest[rank - 1]) for _ in range(rank)]


def batch(rng):
    return integer(rng, 2, 3)


def sliding(rng, spatial, padding):
    """Return kernel sizes, strides and dilations that fit, one of the last two being 1."""
    rank = len(spatial)
    kernel = [integer(rng, 1, min(5 if rank < 3 else 3, n)) for n in spatial]
    strides, dilation = [1] * rank, [1] * rank
    step = choice(rng, ("none", "none", "strides", "dilation"))
    if step == "strides":
        # TensorFlow's kernels on the CPU have equal strides for depthwise convolutions only.
        strides = [integer(rng, 1, 3) for _ in spatial]
    elif step == "dilation":
        dilation = [
            integer(rng, 1, min(3, (n - 1) // (k - 1))) if k > 1 else 1
            for n, k in zip(spatial, kernel, strict=True)
        ]
    return {"kernel_size": kernel, "strides": strides, "dilation_rate": dilation}


def finishing(rng):
    """Return the arguments of bias and activation."""
    return {"use_bias": chance(rng, 0.8), "activation": choice(rng, ACTIVATIONS)}


def searching(rng, rank, extras=True):
    """Return the arguments of what is searched."""
    found = {"depth": choice(rng, (1, 1, 2, 3, [2, 1, 3]))}
    if chance(rng, 0.3):
        found["radix"] = choice(rng, (2, 4, 100))
    if extras:
        for name in ("frequency_bias", "channel_gates"):
            if chance(rng, 0.3):
                found[name] = True
    return found


def shape_of(configuration):
    """Return the shape of the inputs, the channels where the layer wants them."""
    shape = configuration["batch"], *configuration["sizes"], configuration["channels"]
    first = configuration["arguments"].get("data_format") == "channels_first"
    return (shape[0], shape[-1], *shape[1:-1]) if first else shape


def channels_last(layer, function):
    """Return a function of inputs with the channels last for inputs as the layer takes them."""
    if getattr(layer, "data_format", "channels_last") == "channels_last":
        return function
    move = keras.ops.moveaxis
    return lambda x: move(function(move(x, 1, -1)), -1, 1)


def finished(layer, values):
    """Return what NumPy computes with the bias and the activation of a layer."""
    if layer.bias is not None:
        values = values + keras.ops.convert_to_numpy(layer.bias)
    return keras.ops.convert_to_numpy(layer.activation(values))


def copy_weights(source, target, names):
    """Give a layer the weights of another one that it has too."""
    for name in names:
        value = getattr(source, name, None)
        if value is not None:
            getattr(target, name).assign(keras.ops.convert_to_numpy(value))
    return target


def differences(rng, variables, evaluate, step, norm):
    """Return the central difference of a function along a random direction, and the direction.

    Args:
        rng: a generator.
        variables: the variables to move; they have their values again afterwards.
        evaluate: function of a number that returns the value with all inputs moved by so much too.
        step: size of a step.
        norm: what random directions are divided by.
    """
    starts = [np.asarray(keras.ops.convert_to_numpy(v), "float64") for v in variables]
    directions = [rng.standard_normal(start.shape) / norm for start in starts]
    values = []
    for sign in (1, -1):
        for variable, start, direction in zip(variables, starts, directions, strict=True):
            variable.assign(start + sign * step * direction)
        values.append(evaluate(sign * step))
    for variable, start in zip(variables, starts, strict=True):
        variable.assign(start)
    return (values[0] - values[1]) / (2 * step), directions


def relative(actual, expected):
    """Return the largest difference by the largest value; infinite for other shapes and NaN."""
    actual, expected = (np.asarray(keras.ops.convert_to_numpy(v)) for v in (actual, expected))
    if actual.shape != expected.shape:
        return math.inf
    if not actual.size:
        return 0.0
    actual, expected = actual.astype("float64"), expected.astype("float64")
    error = np.max(np.abs(actual - expected)) / max(np.max(np.abs(expected)), 1e-3)
    return float(error) if np.isfinite(error) else math.inf
