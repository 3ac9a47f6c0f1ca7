"""Numbers of parameters and activations of a model, which follow its masks."""

import dataclasses
import math
import re

import keras

from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import SearchableLayer, architecture_variables, flatten_layers
from keras_xd.core.type_aliases import Tensor
from keras_xd.graph.cost import model_calls, unknown_size
from keras_xd.graph.sequence_counts import ATTENTION_OF_HEADS


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerChange:
    """A layer and the one in its place.

    Attributes:
        name: the layer's path: its name, after those of the nested models around it.
        kind_before, kind_after: names of the classes.
        left_because: why the layer was left as it is, or `None`.
        parameters_before, parameters_after: number of weights.
        multiply_adds_before, multiply_adds_after: of one sample, `None` if unknown.
    """

    name: str
    kind_before: str
    kind_after: str
    left_because: str | None = None
    parameters_before: int
    parameters_after: int
    multiply_adds_before: int | None
    multiply_adds_after: int | None


@check_types
def count_parameters(model: keras.layers.Layer) -> float | Tensor:
    """Return the number of weights that a model has once it is finalized."""
    total = 0
    counted = {id(variable) for variable in architecture_variables(model)}
    for layer in flatten_layers(model):
        if _tells_parameters(layer):
            total = total + layer.parameters()
            counted |= {id(variable) for variable in layer.weights}
    return total + sum(math.prod(w.shape) for w in model.weights if id(w) not in counted)


@check_types
def count_activations(model: keras.layers.Layer) -> float | Tensor:
    """Return the number of entries that the layers of a model give out for one sample."""
    total = 0
    for _, layer, shape, times in model_calls(model):
        if shape is None or None in shape[1:]:
            raise unknown_size("Activations", layer, shape)
        if callable(getattr(type(layer), "activations", None)):
            count = layer.activations(shape)
        else:
            several = isinstance(shape[0], (list, tuple))
            tensors = [keras.KerasTensor(one) for one in (shape if several else [shape])]
            apart = not several or isinstance(layer, ATTENTION_OF_HEADS)
            arguments = tensors if apart else [tensors]
            outputs = keras.tree.flatten(layer.compute_output_spec(*arguments))
            count = sum(math.prod(tensor.shape[1:]) for tensor in outputs)
        total = total + times * count
    return total


def weight_bytes(layer):
    """Return the bytes of the weights of a layer or model, 0 for `None`."""
    weights = [] if layer is None else layer.weights
    return sum(tensor_bytes(weight.shape, weight.dtype) for weight in weights)


def tensor_bytes(shape, dtype):
    """Return the memory of a tensor."""
    bits = re.search(r"\d+", keras.backend.standardize_dtype(dtype))
    return math.prod(shape) * (int(bits.group()) if bits else 8) // 8


def _tells_parameters(layer):
    """Return whether a searchable layer has the method itself, not only that of torch modules."""
    kinds = [kind for kind in type(layer).__mro__ if issubclass(kind, SearchableLayer)]
    return any("parameters" in vars(kind) for kind in kinds)
