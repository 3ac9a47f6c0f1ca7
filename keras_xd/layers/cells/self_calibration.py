"""Features plus what attention or a dynamic convolution makes of them."""

from typing import Any, Unpack

import keras
from keras import ops

from keras_xd.core import validation
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.type_aliases import LayerOptions, Shape, Tensor
from keras_xd.layers.cells.attention import ChannelAttention, SpatialAttention
from keras_xd.layers.cells.dynamic_conv import DynamicConv2D, image_channels
from keras_xd.layers.cells.genotypes import (
    ATTENTION_OPERATIONS,
    DILATION_RATES,
    DYNAMIC_OPERATIONS,
    KERNEL_SIZES,
)

OPERATIONS = DYNAMIC_OPERATIONS + ATTENTION_OPERATIONS
GATES = ("zero", "tanh", None)


@keras.saving.register_keras_serializable(package="keras_xd")
class SelfCalibration(ConfiguredLayer):
    """Self-calibration of features by attention or by a dynamic convolution, with a gate.

    `x + g · (x · attention(x))` or `x + g · (x ∗ kernel(x))`, where `∗` is the depthwise
    convolution of each sample with its own kernel. The gate `g` is one learned number that starts
    at 0, or its hyperbolic tangent, so that a network with the layer starts as the network without
    it. With `gate=None` the gate is 1, which is the paper's form: attention starts near 1 / 2 and
    the taps of a kernel add up to 1, so that features start about 1.5 or 2 times as large.

    Args:
        operation: `"dynamic_3"`, `"dynamic_5"`, `"dynamic_dilated_3"`, `"dynamic_dilated_5"`,
            `"spatial_attention"` or `"channel_attention"`.
        gate: `"zero"`; `"tanh"`, which keeps the gate between -1 and 1; or `None` for the paper's
            form.
        reduction: as in the layer of the operation, `DynamicConv2D`, `SpatialAttention` or
            `ChannelAttention`; its default for `None`.
        affine: whether the normalisation has a scale and an offset that are learned. Channel
            attention has no normalisation.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> features = np.random.default_rng(0).normal(size=(2, 8, 8, 16)).astype("float32")
    >>> layer = layers.SelfCalibration("dynamic_3")
    >>> bool(np.all(layer(features) == features)), float(layer.residual_weight)
    (True, 0.0)

    Reference:
        "Neural Operator Search", 2020, equations 3 and 5; Bachlechner et al., "ReZero is all you
        need", 2020; Alayrac et al., "Flamingo", 2022 (tanh).
    """

    def __init__(
        self,
        operation: str,
        gate: str | None = "tanh",
        reduction: int | None = None,
        affine: bool = True,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**kwargs)
        self.operation = validation.one_of(operation, OPERATIONS, "operation")
        self.gate = validation.one_of(gate, GATES, "gate")
        self.reduction = reduction
        if reduction is not None:
            self.reduction = validation.positive_integer(reduction, "reduction")
        self.affine = validation.boolean(affine, "affine")
        options: dict[str, Any] = {"name": operation, "dtype": self.dtype_policy}
        if reduction is not None:
            options["reduction"] = self.reduction
        if operation in DYNAMIC_OPERATIONS:
            options |= {"affine": affine, "dilation_rate": DILATION_RATES[operation]}
            self.calibration = DynamicConv2D(KERNEL_SIZES[operation], **options)
        elif operation == "spatial_attention":
            self.calibration = SpatialAttention(affine=affine, **options)
        else:
            self.calibration = ChannelAttention(**options)
        self.residual_weight = None

    def build(self, input_shape: Shape) -> None:
        self.calibration.build(input_shape)
        if self.gate:
            self.residual_weight = self.add_weight(
                name="residual_weight", shape=(), initializer="zeros"
            )

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        made = self.calibration(inputs, training=training)
        if self.operation in ATTENTION_OPERATIONS:
            made = inputs * made
        if self.gate:
            made = gate_value(self.residual_weight, self.gate) * made
        return inputs + made

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        image_channels(input_shape, self.name)
        return tuple(input_shape)

    def multiply_adds(self, input_shape: Shape) -> int:
        """Return the multiply–adds of one sample; products with attention and gate do not count."""
        return self.calibration.multiply_adds(input_shape)


def gate_value(weight: keras.Variable, gate: str) -> Tensor:
    """Return what features are multiplied by, for one of `GATES` but `None`."""
    value = ops.convert_to_tensor(weight)
    return ops.tanh(value) if gate == "tanh" else value
