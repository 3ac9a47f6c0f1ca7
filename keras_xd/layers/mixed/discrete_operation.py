"""The operations of the DARTS search space, each as a plain layer."""

import math
import re
from collections.abc import Sequence
from typing import Any, Unpack

import keras
from keras import ops

from keras_xd.core import validation, window_padding
from keras_xd.core.convolutions import ConvolutionOfAnyRank, convolution
from keras_xd.core.type_aliases import Shape, Sizes, Tensor
from keras_xd.layers.mixed.operation_layer import OperationLayer, OperationOptions

# Kind, window size and dilation rate of each operation, the same along every axis.
_OPERATIONS = {
    "convolution_3": ("convolution", 3, 1),
    "convolution_5": ("convolution", 5, 1),
    "dilated_convolution_3": ("convolution", 3, 2),
    "dilated_convolution_5": ("convolution", 5, 2),
    "max_pooling_3": ("max_pooling", 3, 1),
    "average_pooling_3": ("average_pooling", 3, 1),
    "skip": ("skip", 1, 1),
    "zero": ("zero", 1, 1),
}
DARTS_OPERATIONS = tuple(_OPERATIONS)
_CONVOLUTION = re.compile("convolution_([1-9][0-9]*)(?:_dilated_([1-9][0-9]*))?")


def is_operation(name: object) -> bool:
    """Return whether a name is that of an operation: one of DARTS', or of any convolution."""
    return isinstance(name, str) and (name in _OPERATIONS or bool(_CONVOLUTION.fullmatch(name)))


def _window(name):
    """Return the kind, the window size and the dilation rate of an operation."""
    if name in _OPERATIONS:
        return _OPERATIONS[name]
    size, rate = _CONVOLUTION.fullmatch(name).groups(default="1")
    return "convolution", int(size), int(rate)


@keras.saving.register_keras_serializable(package="keras_xd")
class DiscreteOperation(OperationLayer, ConvolutionOfAnyRank):
    """One operation of the DARTS space, with the output shape of a given convolution.

    A `MixedOperation` is a mixture of such operations and becomes one of them. Windows lie around
    the places of the convolution's: those of padding "same" and "causal" by Keras' rules, those of
    "valid" around the same middle, where larger windows read zeros beyond the borders. Poolings do
    not count such places. With strides `s` the skip is every s-th input.

    Poolings and the skip have no weights but the bias. Where the numbers of input and output
    channels differ, they multiply channels by the rectangular identity: the first ones are passed
    on, those missing are zeros.

    Args:
        rank: number of spatial axes, 1 to 3.
        filters: number of output channels.
        operation: one of `keras_xd.layers.mixed.discrete_operation.DARTS_OPERATIONS`;
            `"convolution"`, the one of the given `kernel_size` and `dilation_rate`; or
            `"convolution_<k>"` and `"convolution_<k>_dilated_<d>"`, one of `k` taps along each
            axis, of dilation 1 or `d`.
        kernel_size: integer or tuple, size of the window that output sizes are counted for.
        *args: all others of a Keras convolution. `dilation_rate` is that of the window; the
            dilated operations take any strides. Bias and activation are of the output, whatever
            the operation.
        partial_channels: integer `k`. The operation acts on the first 1 / k of the channels and
            gives the first 1 / k of the filters. The others pass it by (with strides as the
            maxima of windows of that size), and the channels of all k parts are interleaved.

    Input shape:
        `(batch, *spatial, channels)`, or `(batch, channels, *spatial)` for "channels_first"; all
        sizes but the batch's must be known.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> signal = np.arange(6.0)[None, :, None]
    >>> layers.DiscreteOperation(1, 1, "skip", strides=2, padding="same")(signal)[
    ...     0, :, 0
    ... ].numpy()
    array([0., 2., 4.], dtype=float32)

    Reference:
        Liu et al., "DARTS: Differentiable Architecture Search", 2019; Xu et al., "PC-DARTS", 2020.
    """

    def __init__(
        self,
        rank: int,
        filters: int,
        operation: str,
        kernel_size: Sizes = 3,
        *args: Any,
        **kwargs: Unpack[OperationOptions],
    ):
        self.rank = validation.one_of(rank, (1, 2, 3), "rank")
        super().__init__(filters, kernel_size, *args, **kwargs)
        allowed = ("convolution", *DARTS_OPERATIONS)
        if not is_operation(operation):
            validation.one_of(operation, allowed, "operation")
        self.operation = operation
        if operation == "convolution":
            window = ("convolution", self.kernel_size, self.dilation_rate)
        else:
            kind, size, rate = _window(operation)
            window = (kind, (size,) * rank, (rate,) * rank)
        self.kind, self.size, self.rate = window

    def build_operations(self, input_shape: Shape) -> None:
        """Make the kernel of a convolution."""
        self.kernel = None
        if self.kind == "convolution":
            self.kernel = self.add_weight(
                name="kernel",
                shape=self._kernel_shape(input_shape),
                initializer=self.kernel_initializer,
                regularizer=self.kernel_regularizer,
                constraint=self.kernel_constraint,
            )

    def operate(self, x: Tensor) -> Tensor:
        """Return the operation's outputs; inputs and outputs have their channels last."""
        if self.kind == "convolution":
            return self.convolve(x, ops.convert_to_tensor(self.kernel))
        border = self.own_borders(x.shape[1:-1])
        if self.kind == "max_pooling":
            y = self._pooled(window_padding.max_pool, x, border)
        elif self.kind == "average_pooling":
            y = self._pooled(window_padding.average_pool, x, border)
        else:
            y = window_padding.every(window_padding.extended(x, border), self.strides)
        y = window_padding.with_channels(y, self.operation_filters)
        return ops.zeros_like(y) if self.kind == "zero" else y

    def convolve(self, x: Tensor, kernel: Tensor) -> Tensor:
        """Return the convolution with a kernel in place of the layer's own."""
        if self.is_keras_convolution and self.padding != "causal":
            arguments = (self.strides, self.padding, "channels_last", self.rate)
            return convolution(x, kernel, *arguments)
        border = self.own_borders(x.shape[1:-1])
        return window_padding.convolve(x, kernel, border, self.strides, self.rate)

    def widened(
        self, kernel: Tensor, wider: "DiscreteOperation", sizes: Sequence[int]
    ) -> Tensor | None:
        """Return a kernel with which `wider` computes this operation's convolution, or `None`."""
        added = []
        pairs = zip(self.own_borders(sizes), wider.own_borders(sizes), strict=True)
        for axis, ((own, _), (other, _)) in enumerate(pairs):
            before, rest = divmod(other - own, self.rate[axis])
            after = wider.size[axis] - self.size[axis] - before
            if rest or min(before, after) < 0 or self.rate[axis] != wider.rate[axis]:
                return None
            added.append((before, after))
        return ops.pad(kernel, [*added, (0, 0), (0, 0)])

    def count_kernel(self, input_shape: Shape) -> int:
        """Return the number of weights in the kernel."""
        return math.prod(self._kernel_shape(input_shape)) if self.kind == "convolution" else 0

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample: those of a convolution, else none."""
        _, sizes = self.split_shape(input_shape)
        return math.prod(self.output_sizes(sizes)) * self.count_kernel(input_shape)

    @property
    def is_keras_convolution(self) -> bool:
        """Whether a Keras convolution of `size` and `rate` with the same padding does the same."""
        same_window = window_padding.spans(self.size, self.rate) == self.window
        return (
            self.kind == "convolution"
            and (self.padding != "valid" or same_window)
            and not (max(self.strides) > 1 and max(self.rate) > 1)
        )

    def _pooled(self, pool, x, border):
        """Pool axis by axis: XLA on a CPU takes several times as long for whole windows."""
        for axis in reversed(range(self.rank)):
            size, borders, strides = ([one] * self.rank for one in (1, (0, 0), 1))
            size[axis], borders[axis], strides[axis] = (
                self.size[axis],
                border[axis],
                self.strides[axis],
            )
            x = pool(x, tuple(size), borders, tuple(strides))
        return x

    def own_borders(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """Return how many places each axis is extended by for the operation's windows."""
        return self.borders(sizes, window_padding.spans(self.size, self.rate))

    def _kernel_shape(self, input_shape):
        channels, _ = self.split_shape(input_shape)
        inputs = channels // self.partial_channels // self.groups
        return (*self.size, inputs, self.operation_filters)
