"""Weights of finished layers in eight bits, by `keras.Model.quantize`."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd.core.protocol import add_bounded_weight
from keras_xd.core.type_aliases import Tensor

MODES = ("int8", "float8")
_LARGEST = 127  # of int8, of both signs
_FEWEST_OF_A_SCALE = 16  # entries, so that scales take a quarter of the bytes, not more
_FLOAT8, _LARGEST_FLOAT8 = "float8_e4m3fn", 448.0


class QuantizedWeights(keras.layers.Layer):
    """A layer whose weights `quantize` stores in int8, or rounds to float8.

    A subclass names its weights in `quantized_weights`, calls `finish_quantized_build` at the end
    of `build`, and reads them by `stored`. With `"int8"` each of these weights becomes integers
    and scales, which the entries of leading axes share; they are multiplied out in every call, and
    activations stay as they are. With `"float8"`, as in Keras' own layers, weights keep their type
    and are rounded to float8 in every call. Neither is trained further.
    """

    add_weight = add_bounded_weight
    dtype_policy: Any
    quantized_weights: tuple[str, ...] = ()
    # Called with the mode: a layer of several parts quantizes the rest of itself by that, because
    # `keras.Model.quantize` asks only layers that have no layers in them.
    after_quantization: Callable[[Any], None] | None = None

    def quantize(
        self, mode: str | None = None, type_check: bool = True, config: Any = None
    ) -> None:
        """Store the weights in eight bits."""
        if getattr(self, "_converting", False):  # called by the policy that is set below
            return
        if mode not in MODES:
            super().quantize(mode, type_check, config)
        if getattr(self, "quantized_mode", None) is not None:
            raise ValueError(
                f"A layer is quantized once. Received: mode={mode!r} for layer '{self.name}', "
                f"whose mode is {self.quantized_mode!r}"
            )
        self._convert(mode)
        if self.dtype_policy.quantization_mode is None:
            self._converting = True
            try:
                name = f"{mode}_from_{self.dtype_policy.name}"
                self.dtype_policy = keras.dtype_policies.get(name)
            finally:
                self._converting = False
        if self.after_quantization is not None:
            self.after_quantization(mode)

    def finish_quantized_build(self) -> None:
        """Make the weights of a layer that is read from a file as `quantize` does."""
        if self.quantization_mode in MODES:
            self._convert(self.quantization_mode)

    def quantized_call(self, *args: Any, **kwargs: Any) -> Any:
        """Return what `call` does, which reads the weights by `stored`."""
        return self.call(*args, **kwargs)

    def stored(self, weight: keras.Variable, dtype: str | None = None) -> Tensor:
        """Return a weight as a tensor of a type, by default that of the layer's computations."""
        dtype = dtype or self.compute_dtype
        value, mode = ops.convert_to_tensor(weight), getattr(self, "quantized_mode", None)
        for quantized, scale in getattr(self, "_scales", ()):
            if quantized is weight:
                return ops.cast(value, dtype) * ops.cast(ops.convert_to_tensor(scale), dtype)
        value = ops.cast(value, dtype)
        if mode == "float8" and any(weight is other for other in self._named()):
            scale = ops.maximum(ops.max(ops.abs(value)), 1e-12) / _LARGEST_FLOAT8
            return keras.quantizers.quantize_and_dequantize(value, scale, _FLOAT8, dtype)
        return value

    def _named(self):
        """Return the weights that are quantized, in order."""
        return [w for name in self.quantized_weights for w in _sequence(getattr(self, name))]

    def _convert(self, mode):
        self.quantized_mode = mode
        if mode != "int8":
            return
        scales = []
        for name in self.quantized_weights:
            weights = getattr(self, name)
            pairs = [self._rounded(weight) for weight in _sequence(weights)]
            scales += pairs
            values = tuple(weight for weight, _ in pairs)
            setattr(self, name, values if isinstance(weights, tuple) else values[0])
        # Tuples, because TensorFlow's checkpoints reach nothing in lists and dictionaries.
        self._scales = tuple(scales)

    def _rounded(self, weight):
        """Return the integers of a weight and their scale, in place of it."""
        value = ops.convert_to_numpy(ops.cast(weight, "float32"))
        scale = np.abs(value).max(axis=_shared_axes(value.shape), keepdims=True)
        scale = np.maximum(scale, 1e-12) / _LARGEST
        name = weight.name
        self.replaced = weight
        del self.replaced  # so Keras forgets it, without a public name for that
        integers = self.add_weight(
            name=name, shape=value.shape, initializer="zeros", dtype="int8", trainable=False
        )
        integers.assign(np.round(value / scale).astype("int8"))
        scales = self.add_weight(
            name=f"{name}_scale",
            shape=scale.shape,
            initializer="ones",
            dtype="float32",
            trainable=False,
            autocast=False,
        )
        scales.assign(scale)
        return integers, scales


def without_quantization(policy: keras.DTypePolicy) -> keras.DTypePolicy:
    """Return the data types of a layer before it was quantized."""
    if policy.quantization_mode is None:
        return policy
    return keras.DTypePolicy(policy.name.partition("_from_")[2])


def _shared_axes(shape):
    """Return the axes whose entries share a scale: the fewest leading ones that hold enough."""
    for count in range(1, len(shape)):
        if math.prod(shape[:count]) >= _FEWEST_OF_A_SCALE:
            return tuple(range(count))
    last = len(shape) - 1
    return (last,) if math.prod(shape[:last]) < shape[last] else tuple(range(last))


def _sequence(weights):
    return weights if isinstance(weights, tuple) else (weights,)
