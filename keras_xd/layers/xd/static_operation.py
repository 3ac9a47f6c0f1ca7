"""Base class of the finalized forms of an XD-operation."""

from collections.abc import Sequence
from typing import Any, Unpack

import keras
import numpy as np
from keras import activations, constraints, ops, regularizers

from keras_xd.core import validation
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.quantization import QuantizedWeights
from keras_xd.core.type_aliases import (
    Activation,
    Constraint,
    LayerOptions,
    Regularizer,
    Shape,
    Tensor,
)
from keras_xd.layers.xd import functional

STORAGES = ("float16", "bfloat16")
LARGEST_HALF = 65504.0  # of float16
DATA_FORMATS = ("channels_last", "channels_first")
# Arguments of a searched layer that its finalized form has too.
SHARED = (
    *("name", "trainable", "filters", "groups", "data_format", "use_bias", "activation"),
    *("activity_regularizer", "bias_regularizer", "bias_constraint"),
)


class StaticOptions(LayerOptions, total=False):
    """Keyword arguments of all finalized XD-operations."""

    groups: int
    data_format: str
    use_bias: bool
    activation: Activation
    storage: str | None
    bias_regularizer: Regularizer
    bias_constraint: Constraint


class StaticOperation(QuantizedWeights, ConfiguredLayer):
    """Base class of finalized XD-operations, which have `output_sizes`."""

    # Then `keras_xd.reset_weights` refuses the layer: it would reset what the search has found.
    weights_hold_architecture = True
    bias_initializer = "zeros"

    def __init__(
        self,
        channels: int,
        filters: int,
        groups: int = 1,
        data_format: str = "channels_last",
        use_bias: bool = True,
        activation: Activation = None,
        storage: str | None = None,
        bias_regularizer: Regularizer = None,
        bias_constraint: Constraint = None,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**kwargs)
        self.channels = validation.positive_integer(channels, "channels")
        self.filters = validation.positive_integer(filters, "filters")
        self.groups = validation.positive_integer(groups, "groups")
        self.data_format = validation.one_of(data_format, DATA_FORMATS, "data_format")
        self.use_bias = validation.boolean(use_bias, "use_bias")
        self.activation = activations.get(activation)
        self.storage = validation.one_of(storage, (None, *STORAGES), "storage")
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.bias_constraint = constraints.get(bias_constraint)

    @staticmethod
    def arguments_like(layer: keras.layers.Layer, storage: str | None) -> dict[str, Any]:
        """Return the arguments that a static layer shares with the `XDConv` it is made of."""
        shape = layer.get_build_config()["input_shape"]
        return {
            **{name: getattr(layer, name) for name in SHARED},
            "channels": shape[-1 if layer.data_format == "channels_last" else 1],
            "dtype": layer.dtype_policy,
            "storage": storage,
        }

    def add_stored(
        self,
        name: str,
        shape: tuple[int, ...],
        trained: bool,
        regularizer: Regularizer = None,
        constraint: Constraint = None,
    ) -> keras.Variable:
        """Return a new weight in the type that is stored."""
        return self.add_weight(
            name=name,
            shape=shape,
            initializer="glorot_uniform",
            regularizer=regularizer,
            constraint=constraint,
            trainable=trained and self.storage is None,
            dtype=self.storage or functional.exact_dtype(self.variable_dtype),
            autocast=False,
        )

    def take_values(
        self,
        layer: keras.layers.Layer,
        weights: Sequence[keras.Variable],
        values: Sequence[Tensor],
    ) -> None:
        """Give weights their values, and the bias that of the layer it is made of."""
        for weight, value in zip(weights, values, strict=True):
            if self.storage is not None:
                _check_range(layer, value, self.storage)
            weight.assign(ops.copy(value))
        if self.bias is not None:
            self.bias.assign(ops.copy(layer.bias))

    def computed(self, weight: keras.Variable) -> Tensor:
        """Return a weight as a tensor of the type that transforms are computed in."""
        if self.storage is None and self.quantization_mode is None:
            return functional.exact(ops.convert_to_tensor(weight))
        return self.stored(weight, functional.exact_dtype(self.compute_dtype))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        sizes = self.output_sizes
        return functional.output_shape(input_shape[0], sizes, self.filters, self.data_format)

    def finished(self, outputs: Tensor) -> Tensor:
        """Return outputs in the layer's type, activated."""
        outputs = ops.cast(outputs, self.compute_dtype)
        return outputs if self.activation is None else self.activation(outputs)


def _check_range(layer, value, storage):
    """Raise `ValueError` if a number becomes infinite in a shorter type."""
    largest = float(np.max(np.abs(ops.convert_to_numpy(value)), initial=0.0))
    if storage == "float16" and largest > LARGEST_HALF:
        raise ValueError(
            f"Numbers stored in float16 must not be larger than {LARGEST_HALF:.0f}; take "
            f"'bfloat16'. Received: {largest:.3g} in layer '{layer.name}', weight_dtype={storage!r}"
        )
