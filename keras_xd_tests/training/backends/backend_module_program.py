"""What the modules `jax` and `torch` of `keras_xd.training.backends` compute."""

import importlib

import keras

from keras_xd.training.search_model import SearchModel
from keras_xd_tests.training.gated_dense import GatedDense


def number(value):
    return None if value is None else float(keras.ops.convert_to_numpy(value))


def changed(search, backend):
    """Return a bias before and after a function that adds to it, with or without a state."""
    layer = search.model.layers[0]
    layer.bias.assign([3.0])
    state = []
    if keras.backend.backend() == "jax":
        groups = [
            search.trainable_variables,
            search.non_trainable_variables,
            search.optimizer.variables,
            search.metrics_variables,
        ]
        state = [tuple([variable.value for variable in group] for group in groups)]
    _, *after = backend.with_state(search, lambda: layer.bias.assign_add([2.0]), *state)
    if not after:
        value = number(layer.bias[0])
        return [value, value - 2.0]
    place = [variable is layer.bias for variable in search.trainable_variables].index(True)
    # The variable itself stays as it was.
    return [number(after[0][0][place][0]), number(layer.bias[0])]


def results():
    backend = importlib.import_module(f"keras_xd.training.backends.{keras.backend.backend()}")
    values = [keras.Variable(3.0), keras.ops.convert_to_tensor(1.0)]
    loss, others, gradients = backend.loss_and_gradients(lambda v: (v[0] ** 2, [2 * v[0]]), values)
    search = SearchModel(keras.Sequential([keras.Input((2,)), GatedDense(1)]))
    search.compile("sgd", "sgd", "mse", mode="second_order")
    return {
        "loss": number(loss),
        "others": [number(other) for other in others],
        "gradients": [number(gradient) for gradient in gradients],
        "state": changed(search, backend),
    }
