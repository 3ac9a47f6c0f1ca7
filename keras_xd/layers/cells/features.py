"""The operations on features that cells are made of, each a layer."""

import math
from typing import Unpack

import keras
from keras import ops

from keras_xd.core import validation, window_padding
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.type_aliases import LayerOptions, Shape, Tensor
from keras_xd.graph.cost import multiply_adds
from keras_xd.layers.cells.dynamic_conv import (
    batch_normalization,
    convolution,
    image_channels,
    same_border,
)
from keras_xd.layers.cells.genotypes import FEATURE_OPERATIONS, XD_OPERATIONS
from keras_xd.layers.mixed.discrete_operation import DiscreteOperation
from keras_xd.layers.xd.depthwise import XDDepthwiseConv

# Kernel size, dilation rate and how often it is done in a row.
SEPARABLE = {
    "separable_3": (3, 1, 2),
    "separable_5": (5, 1, 2),
    "dilated_3": (3, 2, 1),
    "dilated_5": (5, 2, 1),
    "xd_3": (3, 1, 1),
    "xd_5": (5, 1, 1),
}
POOLING = ("max_pooling_3", "average_pooling_3")


@keras.saving.register_keras_serializable(package="keras_xd")
class FeatureOperation(ConfiguredLayer):
    """One operation of a cell from features to as many features."""

    def __init__(
        self,
        filters: int,
        operation: str,
        strides: int = 1,
        affine: bool = True,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**kwargs)
        self.filters = validation.positive_integer(filters, "filters")
        allowed = FEATURE_OPERATIONS + XD_OPERATIONS
        self.operation = validation.one_of(operation, allowed, "operation")
        self.strides = validation.one_of(strides, (1, 2), "strides")
        self.affine = validation.boolean(affine, "affine")
        if operation in SEPARABLE:
            steps = self._separable_steps()
        elif operation == "identity":
            sizes = {"filters": self.filters, "affine": self.affine}
            steps = []
            if strides > 1:
                steps.append(self._named(FactorizedReduction, "reduction", **sizes))
        else:
            steps = self._pooling_steps()
        # A tuple, because TensorFlow's checkpoints reach nothing in lists.
        self.steps = tuple(steps)

    @property
    def keeps_channels(self) -> bool:
        """Whether the number of outputs must be that of the inputs."""
        return self.operation not in SEPARABLE and (self.operation, self.strides) != (
            "identity",
            2,
        )

    def build(self, input_shape: Shape) -> None:
        channels = image_channels(input_shape, self.name)
        if self.keeps_channels and channels != self.filters:
            raise ValueError(
                f"Operation '{self.operation}' must have as many `filters` as channels. Received: "
                f"filters={self.filters}, input_shape={tuple(input_shape)}"
            )
        self.input_spec = keras.layers.InputSpec(ndim=4, axes={-1: channels})
        shape = tuple(input_shape)
        for step in self.steps:
            if not step.built:
                step.build(shape)
            shape = step.compute_output_shape(shape)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        x = inputs
        for step in self.steps:
            normalizes = isinstance(step, (keras.layers.BatchNormalization, FactorizedReduce))
            x = step(x, training=training) if normalizes else step(x)
        return x

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        image_channels(input_shape, self.name)
        sizes = (-(-n // self.strides) for n in input_shape[1:3])
        return (input_shape[0], *sizes, self.filters)

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample."""
        total, shape = 0, tuple(input_shape)
        for step in self.steps:
            total = total + (multiply_adds(step, shape) or 0)
            shape = tuple(step.compute_output_shape(shape))
        return total

    def _separable_steps(self):
        size, rate, times = SEPARABLE[self.operation]
        steps = []
        for number in range(times):
            strides = self.strides if number == 0 else 1
            common = {"use_bias": False, "data_format": "channels_last"}
            common |= {"name": f"depthwise_{number}", "dtype": self.dtype_policy}
            steps.append(self._named(keras.layers.ReLU, f"relu_{number}"))
            if self.operation in XD_OPERATIONS:
                common |= {"frequency_bias": False, "channel_gates": False}
                steps.append(XDDepthwiseConv(2, size, strides, "same", **common))
            elif strides > 1 and rate > 1:
                # With both equal, the convolution of every so many-th input is all it takes.
                steps.append(self._named(_Sparse, "sparse", span=rate * (size - 1) + 1, step=rate))
                steps.append(keras.layers.DepthwiseConv2D(size, **common))
            else:
                steps.append(
                    keras.layers.DepthwiseConv2D(
                        size, strides, "same", dilation_rate=rate, **common
                    )
                )
            steps.append(convolution(self.filters, f"pointwise_{number}", self.dtype_policy))
            steps.append(self._normalization(f"normalization_{number}"))
        return steps

    def _pooling_steps(self):
        pooling = self._named(
            DiscreteOperation,
            "pooling",
            rank=2,
            filters=self.filters,
            operation=self.operation,
            strides=self.strides,
            padding="same",
            data_format="channels_last",
            use_bias=False,
        )
        return [pooling] if self.affine else [pooling, self._normalization("normalization")]

    def _normalization(self, name):
        return batch_normalization(self.affine, name, self.dtype_policy)

    def _named(self, layer_class, name, **arguments):
        return layer_class(name=name, dtype=self.dtype_policy, **arguments)


class _PointwiseLayer(ConfiguredLayer):
    """Base class of layers whose 1 × 1 convolutions make so many channels."""

    def __init__(self, filters: int, affine: bool = True, **kwargs: Unpack[LayerOptions]):
        super().__init__(**kwargs)
        self.filters = validation.positive_integer(filters, "filters")
        self.affine = validation.boolean(affine, "affine")

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample."""
        outputs = math.prod(self.compute_output_shape(input_shape)[1:])
        return outputs * input_shape[-1]


@keras.saving.register_keras_serializable(package="keras_xd")
class FactorizedReduce(_PointwiseLayer):
    """Halves the size of images and reads all of them."""

    def __init__(self, filters: int, affine: bool = True, **kwargs: Unpack[LayerOptions]):
        super().__init__(filters, affine, **kwargs)
        validation.positive_integer(filters, "filters", least=2)
        self.even = convolution((self.filters + 1) // 2, "even", self.dtype_policy)
        self.odd = convolution(self.filters // 2, "odd", self.dtype_policy)
        self.normalization = batch_normalization(affine, "normalization", self.dtype_policy)

    def build(self, input_shape: Shape) -> None:
        image_channels(input_shape, self.name)
        halved = (*self.compute_output_shape(input_shape)[:-1], input_shape[-1])
        self.even.build(halved)
        self.odd.build(halved)
        self.normalization.build(self.compute_output_shape(input_shape))

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        x = ops.relu(inputs)
        whole = window_padding.extended(x, [(0, n % 2) for n in x.shape[1:3]])
        halves = [
            self.even(window_padding.every(x, (2, 2))),
            self.odd(window_padding.every(whole, (2, 2), (1, 1))),
        ]
        return self.normalization(ops.concatenate(halves, axis=-1), training=training)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        image_channels(input_shape, self.name)
        return (input_shape[0], *(-(-n // 2) for n in input_shape[1:3]), self.filters)


@keras.saving.register_keras_serializable(package="keras_xd")
class ReLUConvBN(_PointwiseLayer):
    """Rectification, a 1 × 1 convolution without bias and normalisation."""

    def __init__(self, filters: int, affine: bool = True, **kwargs: Unpack[LayerOptions]):
        super().__init__(filters, affine, **kwargs)
        self.pointwise = convolution(self.filters, "pointwise", self.dtype_policy)
        self.normalization = batch_normalization(affine, "normalization", self.dtype_policy)

    def build(self, input_shape: Shape) -> None:
        image_channels(input_shape, self.name)
        self.pointwise.build(input_shape)
        self.normalization.build(self.compute_output_shape(input_shape))

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        return self.normalization(self.pointwise(ops.relu(inputs)), training=training)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        image_channels(input_shape, self.name)
        return (*input_shape[:-1], self.filters)


# Saved files address what is in a tuple by the name of its class, which was another one.
@keras.saving.register_keras_serializable(package="keras_xd")
class PointwiseOperation(ReLUConvBN):
    """A `ReLUConvBN` that is found under its name in saved files."""


@keras.saving.register_keras_serializable(package="keras_xd")
class FactorizedReduction(FactorizedReduce):
    """A `FactorizedReduce` that is found under its name in saved files."""


class _Sparse(keras.layers.Layer):
    """Keeps every `step`-th place, with the zeros around that dilated windows of a span read."""

    def __init__(self, span, step, **kwargs):
        super().__init__(**kwargs)
        self.span, self.step = span, step

    def call(self, inputs):
        x = window_padding.extended(inputs, same_border(inputs.shape[1:-1], self.span, self.step))
        return window_padding.every(x, (self.step, self.step))

    def compute_output_shape(self, input_shape):
        border = same_border(input_shape[1:-1], self.span, self.step)
        sizes = (n + sum(b) for n, b in zip(input_shape[1:-1], border, strict=True))
        return (input_shape[0], *(-(-n // self.step) for n in sizes), input_shape[-1])
