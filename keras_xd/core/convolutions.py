"""Arguments of Keras' convolutions, for layers that take them."""

import inspect
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_xd.core import validation
from keras_xd.core.configured import (
    KERAS_OBJECTS,
    arguments_of,
    bias_of,
    checked_data_format,
    serialized,
)
from keras_xd.core.type_aliases import Config, Shape


class RankArgument(keras.layers.Layer):
    """First base class of a layer with its rank before the arguments of the next base class."""

    ranks: tuple[int, ...] = (1, 2, 3)

    def __init__(self, rank: int, *args: Any, **kwargs: Any):
        self.rank = validation.one_of(rank, self.ranks, "rank")
        super().__init__(*args, **kwargs)


class ConvolutionOfAnyRank(keras.layers.Layer):
    """Last base class of such a layer in place of a Keras convolution."""

    def __init__(self, **arguments: Any):
        own = {name: arguments.pop(name) for name in arguments_of(self.like)}
        super().__init__(activity_regularizer=own.pop("activity_regularizer"), **arguments)
        for name, value in own.items():
            module = KERAS_OBJECTS.get(name.rpartition("_")[2])
            setattr(self, name, value if module is None else module.get(value))

    def build(self, input_shape: Shape) -> None:
        channels = input_shape[-1 if self.data_format == "channels_last" else 1]
        kernel = "kernel_" if hasattr(self, "kernel_initializer") else "depthwise_"
        self.kernel = self.add_weight(
            name="kernel",
            shape=self._kernel_shape(channels),
            initializer=getattr(self, kernel + "initializer"),
            regularizer=getattr(self, kernel + "regularizer"),
            constraint=getattr(self, kernel + "constraint"),
        )
        self.bias = bias_of(self, (self.filters,))

    def get_config(self) -> Config:
        arguments = {n: serialized(n, getattr(self, n)) for n in arguments_of(self.like)}
        return {**super().get_config(), "rank": self.rank, **arguments}


def checked_arguments(
    layer: Any, args: Sequence[Any], kwargs: dict[str, Any], paddings: Sequence[str]
) -> dict[str, Any]:
    """Return the arguments of a convolution by name, or raise `ValueError` for wrong ones."""
    signature = inspect.signature(layer.like.__init__)
    arguments = signature.bind(layer, *args, **kwargs)
    arguments.apply_defaults()
    _, *named, others = arguments.arguments.values()
    found = {**dict(zip(arguments_of(layer.like), named, strict=True)), **others}
    for name in ("filters", "groups", "depth_multiplier"):
        if name in found:
            found[name] = validation.positive_integer(found[name], name)
    for name in ("kernel_size", "strides", "dilation_rate"):
        found[name] = validation.integer_tuple(found[name], layer.rank, name)
    padding = found["padding"]
    padding = padding.lower() if isinstance(padding, str) else padding
    found["padding"] = validation.one_of(padding, paddings, "padding")
    found["data_format"] = checked_data_format(found["data_format"])
    found["use_bias"] = validation.boolean(found["use_bias"], "use_bias")
    if "groups" in found:
        validation.channel_groups(found["groups"], filters=found["filters"])
    if found.get("lora_rank") is not None:
        raise ValueError(
            "LoRA is for the result of a search: `keras_xd.finalize` comes before it. "
            f"Received: lora_rank={found['lora_rank']}"
        )
    return found


def known_to_keras(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of a convolution that Keras' constructor takes, for those of a layer.

    The layer sets its own ones, `padding` and `dilation_rate`, afterwards: Keras knows no padding
    "circular" and refuses strides together with dilation.
    """
    padding = "same" if arguments["padding"] == "circular" else arguments["padding"]
    return {**arguments, "padding": padding, "dilation_rate": 1}


def convolution(inputs, kernel, strides, padding, data_format, dilation_rate):
    """Return `keras.ops.conv` of the arguments, of which strides and dilation are tuples."""
    if not (kernel.shape[-2] == 1 and len(strides) > 1 and strides[-2] == 1 < strides[-1]):
        return ops.conv(inputs, kernel, strides, padding, data_format, dilation_rate)
    last = len(strides) + (data_format == "channels_first")
    outputs = ops.conv(
        ops.swapaxes(inputs, last, last - 1),
        ops.swapaxes(kernel, len(strides) - 1, len(strides) - 2),
        (*strides[:-2], strides[-1], strides[-2]),
        padding,
        data_format,
        (*dilation_rate[:-2], dilation_rate[-1], dilation_rate[-2]),
    )
    return ops.swapaxes(outputs, last, last - 1)
