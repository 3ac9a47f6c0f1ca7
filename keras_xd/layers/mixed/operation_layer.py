"""Output shape of layers of one or several operations: a convolution's."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_xd.core import convolutions, shapes, validation, window_padding
from keras_xd.core.configured import ConfiguredLayer, bias_of
from keras_xd.core.protocol import add_bounded_weight
from keras_xd.core.type_aliases import ConvOptions, Shape, Tensor


class OperationOptions(ConvOptions, total=False):
    """Keyword arguments of an `OperationLayer` after the size of its kernel."""

    partial_channels: int


class OperationLayer(ConfiguredLayer):
    """Base class of layers of DARTS operations whose outputs have the shape of a convolution's."""

    add_weight = add_bounded_weight
    earlier_names = {"perturb": "other_weight"}
    like = keras.layers.Conv1D

    def __init__(self, *args: Any, partial_channels: int = 1, **kwargs: Any):
        paddings = ("valid", "same") + (("causal",) if self.rank == 1 else ())
        found = convolutions.checked_arguments(self, args, kwargs, paddings)
        if max(found["strides"]) > 1 and max(found["dilation_rate"]) > 1:
            raise ValueError(
                "`strides > 1` cannot be combined with `dilation_rate > 1`. Received: "
                f"strides={found['strides']}, dilation_rate={found['dilation_rate']}"
            )
        super().__init__(**found)
        self.partial_channels = validation.positive_integer(partial_channels, "partial_channels")
        parts, name = self.partial_channels, "partial_channels"
        validation.channel_groups(parts, self.filters, argument=name)
        validation.channel_groups(self.groups, filters=self.operation_filters)

    @property
    def window(self) -> tuple[int, ...]:
        """The number of places from the first to the last one that the convolution reads."""
        return window_padding.spans(self.kernel_size, self.dilation_rate)

    @property
    def operation_filters(self) -> int:
        """The number of output channels of the operations."""
        return self.filters // self.partial_channels

    def build(self, input_shape: Shape) -> None:
        channels, _ = self.split_shape(input_shape)
        self.input_spec = keras.layers.InputSpec(
            ndim=self.rank + 2,
            axes={-1 if self.data_format == "channels_last" else 1: channels},
        )
        self.build_operations(input_shape)
        self.bias = bias_of(self, (self.filters,))

    def call(self, inputs: Tensor) -> Tensor:
        return self.surrounded(inputs, self.operate)

    def surrounded(self, inputs: Tensor, operate: Callable[[Tensor], Tensor]) -> Tensor:
        """Return what a function makes of the channels that the operations act on, and the rest."""
        last = self.data_format == "channels_last"
        x = inputs if last else ops.moveaxis(inputs, 1, -1)
        if self.partial_channels > 1:
            part = x.shape[-1] // self.partial_channels
            y = self._with_other_channels(operate(x[..., :part]), x[..., part:])
        else:
            y = operate(x)
        if self.bias is not None:
            y = y + self.bias
        return self.activation(y if last else ops.moveaxis(y, -1, 1))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        _, sizes = self.split_shape(input_shape)
        outputs = self.output_sizes(sizes)
        return shapes.joined_shape(input_shape[0], outputs, self.filters, self.data_format)

    def split_shape(self, input_shape: Shape) -> tuple[int, tuple[int, ...]]:
        """Return the number of channels of an input shape and its spatial sizes."""
        arguments = (input_shape, self.rank, self.data_format, self.name)
        channels, sizes = shapes.split_shape(*arguments)
        parts, name = self.partial_channels, "partial_channels"
        validation.channel_groups(parts, channels=channels, argument=name)
        validation.channel_groups(self.groups, channels=channels // parts)
        if min(self.output_sizes(sizes)) < 1:
            raise ValueError(
                "The window of a layer with padding='valid' must fit its input. Received: "
                f"input_shape={tuple(input_shape)}, kernel_size={self.kernel_size}, "
                f"dilation_rate={self.dilation_rate}"
            )
        return channels, sizes

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the spatial sizes of the outputs: those of the Keras convolution."""
        return window_padding.output_sizes(sizes, self.window, self.strides, self.padding)

    def borders(self, sizes: Sequence[int], spans: Sequence[int]) -> list[tuple[int, int]]:
        """Return how many places each axis is extended by for windows of some spans."""
        return window_padding.borders(sizes, spans, self.window, self.strides, self.padding)

    def _with_other_channels(self, y, x):
        """Append the channels that pass the operations by, and shuffle all as PC-DARTS does."""
        border = self.borders(x.shape[1:-1], self.strides)
        x = window_padding.max_pool(x, self.strides, border, self.strides)
        x = window_padding.with_channels(x, self.filters - self.operation_filters)
        return window_padding.shuffled(ops.concatenate([y, x], axis=-1), self.partial_channels)
