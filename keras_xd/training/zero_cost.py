"""Scores of untrained networks: one batch, no training."""

import importlib
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd.core.argument_types import check_types

_RECTIFIERS = (
    keras.layers.ReLU,
    keras.layers.Activation,
    keras.layers.LeakyReLU,
    keras.layers.PReLU,
    keras.layers.ELU,
)


@check_types
def synflow(model: keras.Model) -> float:
    """Return the logarithm of the synaptic flow of a network, which needs no data.

    With the absolute values of all weights and inputs of ones, the sum over the weights of weight
    times derivative of the sum of the outputs. Normalizations are those of a network in use, which
    change nothing before training.

    Args:
        model: a built functional model whose inputs have known shapes, except for the batch.

    Returns:
        A number, larger for networks through which more flows; minus infinity if nothing does.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_xd.training import synflow
    >>> model = keras.Sequential(
    ...     [keras.Input((2,)), keras.layers.Dense(1, use_bias=False)]
    ... )
    >>> model.layers[0].set_weights([np.array([[2.0], [-3.0]])])
    >>> round(synflow(model), 4)  # log(2 + 3)
    1.6094

    Reference:
        Tanaka et al., "Pruning neural networks without any data by iteratively conserving synaptic
        flow", 2020; as a score of architectures: Abdelfattah et al., "Zero-cost proxies for
        lightweight NAS", 2021.
    """
    inputs = [np.ones((1, *tensor.shape[1:]), "float32") for tensor in model.inputs]
    weights = [ops.abs(variable.value) for variable in model.trainable_variables]
    gradients = _flow_gradients(model, inputs, weights)
    flow = sum(
        float(np.abs(np.asarray(ops.convert_to_numpy(w * g), np.float64)).sum())
        for w, g in zip(weights, gradients, strict=True)
        if g is not None
    )
    return _finite(np.log(flow)) if flow > 0 else -np.inf


@check_types
def naswot(model: keras.Model, x: Any) -> float:
    """Return how well a network tells samples apart by which of its units are active.

    The logarithm of the determinant of the matrix of how many units are active, or not, in both of
    two samples. The units are those of all rectifiers and other activation layers.

    Args:
        model: a built functional model.
        x: a batch, or a list of them if the model has several inputs.

    Returns:
        A number; minus infinity if two samples activate the same units, or the units are fewer
        than the samples.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_xd.training import naswot
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.ReLU()])
    >>> round(
    ...     naswot(model, np.array([[1.0, -1.0], [1.0, 1.0]])), 4
    ... )  # of [[2, 1], [1, 2]]
    1.0986

    Reference:
        Mellor et al., "Neural architecture search without training", 2021, section 3.
    """
    outputs = [layer.output for layer in model.layers if isinstance(layer, _RECTIFIERS)]
    if not outputs:
        return -np.inf
    features = keras.Model(_structure(model), outputs)
    found, _ = features.stateless_call(
        [variable.value for variable in features.trainable_variables],
        [variable.value for variable in features.non_trainable_variables],
        _given(features, x if isinstance(x, list) else [x]),
        training=True,
    )
    found = found if isinstance(found, list) else [found]  # Keras unpacks a list of one
    codes = np.concatenate(
        [np.reshape(ops.convert_to_numpy(value) > 0, (len(value), -1)) for value in found], axis=1
    ).astype(np.float64)
    kernel = codes @ codes.T + (1 - codes) @ (1 - codes).T
    if np.linalg.matrix_rank(kernel) < len(kernel):
        return -np.inf
    return float(np.linalg.slogdet(kernel)[1])


def _flow_gradients(model, inputs, weights):
    """Return the gradients of the sum of the outputs in weights that stand for those of a model."""
    backend = importlib.import_module(f"keras_xd.training.backends.{keras.backend.backend()}")
    others = [variable.value for variable in model.non_trainable_variables]
    given = _given(model, inputs)

    def function(values):
        return ops.sum(model.stateless_call(values, others, given, training=False)[0]), None

    return backend.loss_and_gradients(function, weights)[2]


def _given(model, inputs):
    tensors = [ops.convert_to_tensor(value) for value in inputs]
    return tensors if isinstance(_structure(model), (list, tuple)) else tensors[0]


def _structure(model):
    """The inputs in the structure in which the model takes them."""
    return model.inputs[0] if isinstance(model, keras.Sequential) else model.input


def _finite(value):
    return float(value) if np.isfinite(value) else -np.inf
