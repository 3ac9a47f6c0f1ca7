"""The check that every layer of a search space passes, for tests of your own layers too."""

import collections.abc
import contextlib
import inspect
import json
import tempfile
import typing
import warnings

import keras
import numpy as np

from keras_xd.core import protocol
from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import SearchableLayer

__all__ = ["check_layer"]

# Two ways of computing the same float32 outputs (eager, graph, XLA, reloaded) differ by rounding.
FLOAT32_TOLERANCE = 1e-5
# Eight bits of mantissa, rounded at the layer's input, weights and output.
BFLOAT16_TOLERANCE = 3e-2


@check_types
def check_layer(
    layer_class: type[keras.layers.Layer],
    init_kwargs: dict[str, typing.Any],
    input_shape: collections.abc.Sequence[int],
    *,
    run_jit: bool = True,
    run_mixed_precision: bool = True,
    settle: collections.abc.Callable[[keras.layers.Layer], typing.Any] | None = None,
    seed: int = 7,
) -> keras.layers.Layer:
    """Check everything that Keras users expect of a layer (takes a few seconds).

    Configuration round trip, output shape and data type, symbolic, eager and graph calls, a batch
    size that changes, `.keras` files (also before the layer is built) and TensorFlow's checkpoints,
    training that moves every trainable variable, the same `fit` under XLA, `mixed_bfloat16`, and,
    for a `SearchableLayer`, its protocol.

    Args:
        layer_class: the class to check.
        init_kwargs: arguments of its constructor; each must come back from `get_config()`.
        input_shape: complete shape of one input batch, the batch size (at least 2) first.
        run_jit: whether to compile a training step with XLA too (the slowest part).
        run_mixed_precision: whether to check the `mixed_bfloat16` policy.
        settle: function called with the trained layer before its protocol is checked, for layers
            that equal what they are finalized to only once the search has decided.
        seed: seeds the inputs and the weights.

    Returns:
        The layer after training.

    Raises:
        AssertionError: if a check fails.

    Example:

    ```python
    import keras_xd
    from keras_xd.testing import check_layer

    check_layer(keras_xd.layers.DifferentiableMask, {"axis": -1}, (2, 6, 3))
    ```
    """
    if len(input_shape) < 2 or input_shape[0] < 2:
        raise ValueError(f"`input_shape` needs a batch of at least 2. Received: {input_shape=}")
    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=input_shape).astype("float32")

    check_config(layer_class, init_kwargs)
    layer = check_unbuilt(layer_class, init_kwargs, inputs.shape)
    model, outputs = check_calls(layer, inputs)
    check_checkpoint(model, check_file(model, inputs, outputs))
    if layer.trainable_variables:
        check_training(model, inputs, rng, run_jit=run_jit)
        outputs = keras.ops.convert_to_numpy(layer(inputs))
    if run_mixed_precision:
        check_mixed_precision(layer_class, init_kwargs, layer, inputs, outputs)
    else:
        check_another(layer_class(**init_kwargs), layer, inputs, outputs)
    if isinstance(layer, SearchableLayer):
        if settle is not None:
            settle(layer)
            outputs = None
        check_protocol(layer, inputs, outputs)
    return layer


def check_config(layer_class, init_kwargs):
    """The configuration holds every argument and rebuilds an equal layer, through JSON too."""
    layer = layer_class(**init_kwargs)
    config = layer.get_config()
    missing = set(init_kwargs) - set(config)
    _require(not missing, f"get_config() lacks {sorted(missing)}")
    _require_equal(layer_class.from_config(config).get_config(), config, "from_config()")
    text = json.dumps(keras.saving.serialize_keras_object(layer))
    restored = keras.saving.deserialize_keras_object(json.loads(text))
    _require_equal(type(restored), layer_class, "class after JSON")
    again = json.dumps(keras.saving.serialize_keras_object(restored))
    _require_equal(again, text, "configuration after JSON")


def check_unbuilt(layer_class, init_kwargs, input_shape):
    """Before it is built a layer is saved as Keras' own are, and its protocol tells what to do."""
    model = keras.Sequential([layer_class(**init_kwargs)])
    with tempfile.TemporaryDirectory() as folder:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "You are saving a model that has not yet been built")
            model.save(f"{folder}/model.keras")
        restored = keras.models.load_model(f"{folder}/model.keras")
    (layer,) = restored.layers
    _require_equal(type(layer), layer_class, "class of an unbuilt layer in a file")
    _require(not layer.built, "a layer that was saved unbuilt came back built")
    configs = [json.dumps(found.get_config()) for found in (layer, model.layers[0])]
    _require_equal(*configs, "configuration of an unbuilt layer in a file")
    if isinstance(layer, SearchableLayer):
        for name in protocol.NAMES:
            with _refused(f"must be built before its `{name}` is asked"):
                method = getattr(layer, name)
                method(*[input_shape] * len(inspect.signature(method).parameters))
    return layer


@contextlib.contextmanager
def _refused(text):
    """Check that a `with` statement raises a `ValueError` with a text in its message."""
    try:
        yield
    except ValueError as error:
        _require(text in str(error), f"{text!r} is not in {error}")
    else:
        raise AssertionError(f"no ValueError says {text!r}")


def check_calls(layer, inputs):
    """Symbolic, eager and graph calls agree in shape, type and value at any batch size."""
    batch = inputs.shape[0]
    shape_before_build = layer.compute_output_shape(inputs.shape)
    symbolic = keras.Input(inputs.shape[1:], name="inputs")
    model = keras.Model(symbolic, layer(symbolic))
    promised = tuple(layer.compute_output_shape((None, *inputs.shape[1:])))
    _require_equal(model.output.shape, promised, "symbolic shape and compute_output_shape()")

    eager = layer(inputs)
    for promised in (layer.compute_output_shape(inputs.shape), shape_before_build):
        _require_equal(tuple(eager.shape), tuple(promised), "shape and compute_output_shape()")
    found = keras.backend.standardize_dtype(eager.dtype)
    _require_equal(found, layer.compute_dtype, "data type and compute_dtype")
    eager = keras.ops.convert_to_numpy(eager)
    _require_finite(eager, "the outputs")

    assert_close(model.predict(inputs, batch_size=batch - 1, verbose=0), eager)
    return model, eager


def check_file(model, inputs, outputs=None):
    """The model comes back from a `.keras` file with the same configuration and outputs."""
    if outputs is None:
        outputs = keras.ops.convert_to_numpy(model(inputs))  # in graphs: `check_calls`
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
        restored = keras.models.load_model(f"{folder}/model.keras")
    for now, then in zip(restored.layers, model.layers, strict=True):
        before, after = then.get_config(), now.get_config()
        if isinstance(now, keras.Sequential):  # Keras' own configurations hold tuples or lists
            before, after = json.dumps(before, sort_keys=True), json.dumps(after, sort_keys=True)
        _require_equal(after, before, "configuration from a file")
    names = [[v.path.split("/")[-1] for v in kept.variables] for kept in (restored, model)]
    _require_equal(*names, "variables from a file")
    assert_close(keras.ops.convert_to_numpy(restored(inputs)), outputs)
    return restored


def check_checkpoint(model, other):
    """A checkpoint of TensorFlow, on its own backend, has all weights of a model."""
    if keras.backend.backend() != "tensorflow":
        return
    import tensorflow as tf

    for weight in other.weights:
        weight.assign(keras.ops.ones_like(weight) * 3)
    with tempfile.TemporaryDirectory() as folder:
        path = tf.train.Checkpoint(model=model).write(f"{folder}/checkpoint")
        tf.train.Checkpoint(model=other).read(path).assert_existing_objects_matched()
    for now, then in zip(other.weights, model.weights, strict=True):
        now, then = keras.ops.convert_to_numpy(now), keras.ops.convert_to_numpy(then)
        np.testing.assert_array_equal(now, then, "a checkpoint lacks a weight")


def check_training(model, inputs, rng, *, run_jit):
    """Training moves all trainable variables; XLA computes the same steps."""
    targets = rng.normal(size=(len(inputs), *model.output.shape[1:])).astype("float32")
    initial = model.get_weights()
    losses = {}
    for jit_compile in (True, False) if run_jit else (False,):
        model.set_weights(initial)
        model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=jit_compile)
        history = model.fit(inputs, targets, batch_size=len(inputs), epochs=2, verbose=0)
        losses[jit_compile] = history.history["loss"]
        _require_finite(losses[jit_compile], "the losses")
    if run_jit:
        assert_close(np.array(losses[True]), np.array(losses[False]))
    for variable in model.trainable_variables:
        _require_finite(keras.ops.convert_to_numpy(variable), variable.path)
    unmoved = _unmoved(model, initial)
    _require(not unmoved, f"{unmoved} did not move")


def _unmoved(model, initial):
    """Return the paths of a model's trainable variables that have their initial values."""
    before = dict(zip((v.path for v in model.variables), initial, strict=True))
    values = {v.path: keras.ops.convert_to_numpy(v) for v in model.trainable_variables}
    return [path for path, value in values.items() if np.array_equal(value, before[path])]


def check_mixed_precision(layer_class, init_kwargs, layer, inputs, expected):
    """With `mixed_bfloat16` the weights stay float32 and the outputs nearly the same."""
    mixed = layer_class(**{**init_kwargs, "dtype": "mixed_bfloat16"})
    outputs = check_another(mixed, layer, inputs, expected, BFLOAT16_TOLERANCE)
    for variable in mixed.trainable_variables:
        _require_equal(variable.dtype, "float32", f"data type of {variable.path}")
    _require_equal(keras.backend.standardize_dtype(outputs.dtype), "bfloat16", "data type")


def check_another(other, layer, inputs, expected, tolerance=FLOAT32_TOLERANCE):
    """A layer that was made of the same arguments has the same outputs with the same weights."""
    other.build(inputs.shape)
    other.set_weights(layer.get_weights())
    outputs = other(inputs)
    assert_close(
        keras.ops.convert_to_numpy(keras.ops.cast(outputs, "float32")), expected, tolerance
    )
    return outputs


def check_protocol(layer, inputs, outputs=None):
    """The four things of `SearchableLayer` hold for the layer as it is now."""
    trainable = {id(variable) for variable in layer.trainable_variables}
    architecture = layer.architecture_variables
    _require(architecture, "architecture_variables is empty")
    for variable in architecture:
        _require(id(variable) in trainable, f"{variable.path} is not in trainable_variables")

    shapes = (inputs.shape, (None, *inputs.shape[1:]))
    costs = [float(keras.ops.convert_to_numpy(layer.complexity(shape))) for shape in shapes]
    _require(np.isfinite(costs[0]) and costs[0] > 0, f"complexity() is {costs[0]}")
    _require_equal(*costs, "complexity() with and without a batch size")

    for name, value in layer.describe().items():
        _require(isinstance(name, str), f"describe()'s name {name!r} is not a str")
        numbers = isinstance(value, (float, np.ndarray))
        _require(numbers, f"describe()[{name!r}] is {type(value)}")
        _require_finite(value, f"describe()[{name!r}]")

    weights = layer.get_weights()
    if outputs is None:
        outputs = keras.ops.convert_to_numpy(layer(inputs))
    static = layer.finalize()
    _require(static.built, "finalize() returned a layer that is not built")
    searched = isinstance(static, SearchableLayer)
    _require(not searched, f"finalize() returned a searchable layer, {type(static).__name__}")
    found = keras.ops.convert_to_numpy(static(inputs))
    assert_close(found, outputs)
    for now, then in zip(layer.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(now, then, "finalize() changed the layer")

    symbolic = keras.Input(inputs.shape[1:], name="inputs")
    model = keras.Model(symbolic, static(symbolic))
    check_checkpoint(model, check_file(model, inputs, found))


def assert_close(actual, expected, tolerance=FLOAT32_TOLERANCE):
    """Assert that the largest difference is below `tolerance` times the largest value."""
    _require_equal(actual.shape, expected.shape, "shape")
    scale = np.max(np.abs(expected))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


# `python -O` drops assert statements.


def _require(condition, text):
    """Raise an `AssertionError` with a text if a condition does not hold."""
    if not condition:
        raise AssertionError(text)


def _require_equal(found, expected, name):
    """Raise an `AssertionError` that names what differs from what it must be."""
    _require(found == expected, f"{name}: found {found!r}, expected {expected!r}")


def _require_finite(values, name):
    """Raise an `AssertionError` that names what has a value that is not finite."""
    _require(np.all(np.isfinite(values)), f"{name} has values that are not finite: {values}")
