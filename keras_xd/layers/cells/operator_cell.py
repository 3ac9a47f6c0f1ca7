"""Base class of relaxed and derived cells of heterogeneous operations."""

from collections.abc import Sequence
from typing import Any, Unpack

import keras
from keras import ops

from keras_xd.core import validation, window_padding
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.type_aliases import LayerOptions, Shape, Tensor
from keras_xd.layers.cells.attention import ChannelAttention, SpatialAttention
from keras_xd.layers.cells.dynamic_conv import (
    DynamicKernel,
    dynamic_depthwise_conv,
    image_channels,
    widened,
)
from keras_xd.layers.cells.features import FactorizedReduction, FeatureOperation, PointwiseOperation
from keras_xd.layers.cells.genotypes import (
    BLOCKS,
    DILATION_RATES,
    INPUTS,
    KERNEL_SIZES,
    is_feature,
)
from keras_xd.layers.cells.self_calibration import GATES, gate_value

ATTENTION_MAPS = ("spatial", "channel")


class OperatorCell(ConfiguredLayer):
    """Base class of cells: two inputs brought to one shape, four blocks, their concatenation.

    A subclass makes its operations in the constructor, `self.operations`, and gives
    `tiers`, `operation_names`, `operation_shapes`, `block_sources`, `first_tier` and `second_tier`.
    The arguments are those of `HeterogeneousCell` and `DerivedCell`.
    """

    tiers: int

    def __init__(
        self,
        filters: int,
        reduction: bool = False,
        previous_reduction: bool = False,
        partial_channels: int = 1,
        affine: bool = True,
        calibration_gate: str | None = None,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**kwargs)
        self.filters = validation.positive_integer(filters, "filters")
        self.reduction = validation.boolean(reduction, "reduction")
        self.previous_reduction = bool(previous_reduction)
        self.partial_channels = validation.positive_integer(partial_channels, "partial_channels")
        self.affine = validation.boolean(affine, "affine")
        self.calibration_gate = validation.one_of(calibration_gate, GATES, "calibration_gate")
        self.calibration_gates = None
        validation.channel_groups(self.partial_channels, self.filters, argument="partial_channels")
        common = {"affine": affine, "dtype": self.dtype_policy}
        first = FactorizedReduction if self.previous_reduction else PointwiseOperation
        # A tuple, as `operations`, because TensorFlow's checkpoints reach nothing in lists.
        self.preprocessing = (
            first(self.filters, name="first_input", **common),
            PointwiseOperation(self.filters, name="second_input", **common),
        )

    @property
    def operation_filters(self) -> int:
        """The number of channels that the operations act on."""
        return self.filters // self.partial_channels

    def build(self, input_shape: Sequence[Shape]) -> None:
        self.check_shapes(input_shape)
        for layer, shape in zip(self.preprocessing, input_shape, strict=True):
            layer.build(tuple(shape))
        for operation, shape in self.operation_shapes(input_shape):
            if not operation.built:
                operation.build(shape)
        if self.calibration_gate and not all(map(is_feature, self.operation_names)):
            self.calibration_gates = self.add_weight(
                name="calibration_gates", shape=(2 * BLOCKS,), initializer="zeros"
            )

    def call(self, inputs: Sequence[Tensor], training: bool | None = None) -> Tensor:
        nodes = [
            layer(x, training=training) for layer, x in zip(self.preprocessing, inputs, strict=True)
        ]
        common = self.common_values(training)
        for block in range(BLOCKS):
            made = self.first_tier(block, nodes, common, training)
            surrogate = made
            if self.partial_channels > 1:
                sources = self.block_sources(block)
                others = [
                    self.passing_by(block, n, self._other_channels(nodes, n, common))
                    for n in sources
                ]
                surrogate = self._with_other_channels(made, others)
            if self.tiers == 1:
                nodes.append(surrogate)
                continue
            made = self.second_tier(block, self.operated(surrogate), common, training)
            if self.partial_channels > 1:
                others = [surrogate[..., self.operation_filters :]]
                made = self._with_other_channels(made, others)
            nodes.append(made)
        self.after_call(common, training)
        return ops.concatenate(nodes[INPUTS:], axis=-1)

    def common_values(self, training: bool | None) -> dict[Any, Tensor]:
        """Return a dictionary of what is computed once in a call."""
        return {}

    def operated(self, node: Tensor) -> Tensor:
        """Return the channels of a node that the operations act on."""
        return node if self.partial_channels == 1 else node[..., : self.operation_filters]

    def passing_by(self, block: int, source: int, x: Tensor) -> Tensor:
        """Return what reaches a block of the channels of a node that pass its operations by."""
        return x

    def after_call(self, common: dict[Any, Tensor], training: bool | None) -> None:
        """Do what is left to do at the end of a call; nothing by default."""

    def tier_gate(self, block: int, second: bool = False) -> Tensor | None:
        """Return the gate of the first or second tier of a block, `None` without gates."""
        if self.calibration_gates is None:
            return None
        gates = gate_value(self.calibration_gates, self.calibration_gate)
        return gates[block + BLOCKS * second]

    def compute_output_shape(self, input_shape: Sequence[Shape]) -> Shape:
        sizes = self.check_shapes(input_shape)
        if self.reduction:
            sizes = [-(-n // 2) for n in sizes]
        return (input_shape[1][0], *sizes, BLOCKS * self.filters)

    def check_shapes(self, input_shape: Sequence[Shape]) -> list[int]:
        """Return the spatial sizes of the second input, or raise `ValueError`."""
        shapes = list(input_shape)
        fits = len(shapes) == INPUTS and all(isinstance(s, (list, tuple)) for s in shapes)
        if fits:
            for shape in shapes:
                image_channels(shape, self.name)
            sizes = tuple(shapes[0][1:-1])
            if self.previous_reduction:
                sizes = tuple(-(-n // 2) for n in sizes)
            fits = sizes == tuple(shapes[1][1:-1])
        if not fits:
            raise ValueError(
                "A cell needs a list of two batches of images, of the same size, or with "
                "`previous_reduction` the first twice as large. Received: "
                f"input_shape={input_shape}, previous_reduction={self.previous_reduction}"
            )
        return list(sizes)

    def strides_from(self, source: int | None) -> int:
        """Return the strides of operations on a node; `None` is a surrogate node."""
        return 2 if self.reduction and source is not None and source < INPUTS else 1

    def make_operation(self, operation: str, strides: int, name: str) -> keras.layers.Layer:
        """Return the layer of an operation by its name."""
        common = {"name": name, "dtype": self.dtype_policy}
        if is_feature(operation):
            return FeatureOperation(
                self.operation_filters, operation, strides, self.affine, **common
            )
        if operation in KERNEL_SIZES:
            common |= {"affine": self.affine, "dilation_rate": DILATION_RATES[operation]}
            return DynamicKernel(KERNEL_SIZES[operation], **common)
        if operation == "spatial_attention":
            return SpatialAttention(strides, affine=self.affine, **common)
        return ChannelAttention(**common)

    def node_shape(self, input_shape: Sequence[Shape], source: int | None) -> Shape:
        """Return the shape of what operations on a node are given; `None` is a surrogate node."""
        sizes = self.check_shapes(input_shape)
        if self.reduction and (source is None or source >= INPUTS):
            sizes = [-(-n // 2) for n in sizes]
        return (None, *sizes, self.operation_filters)

    def preprocessing_multiply_adds(self, input_shape: Sequence[Shape]) -> int:
        """Return the multiply–adds that bring the inputs of one sample to one shape."""
        pairs = zip(self.preprocessing, input_shape, strict=True)
        return sum(layer.multiply_adds(tuple(shape)) for layer, shape in pairs)

    def operation_multiply_adds(
        self,
        operation: keras.layers.Layer,
        name: str,
        input_shape: Sequence[Shape],
        source: int | None,
    ) -> int:
        """Return the multiply–adds of an operation on a node, its dynamic convolution included."""
        count = operation.multiply_adds(self.node_shape(input_shape, source))
        if name not in KERNEL_SIZES:
            return count
        _, height, width, channels = self.node_shape(input_shape, None)
        return count + KERNEL_SIZES[name] ** 2 * height * width * channels

    def _other_channels(self, nodes, source, common):
        """Return the channels of a node that pass the operations by, with their strides."""
        key = ("others", source)
        if key not in common:
            x, strides = nodes[source][..., self.operation_filters :], self.strides_from(source)
            if strides > 1:
                steps = (strides, strides)
                border = window_padding.borders(x.shape[1:-1], steps, steps, steps, "same")
                x = window_padding.max_pool(x, steps, border, steps)
            common[key] = x
        return common[key]

    def _with_other_channels(self, made, others):
        """Return what operations made of some channels and the sum of other ones, interleaved."""
        together = ops.concatenate([made, sum(others)], axis=-1)
        return window_padding.shuffled(together, self.partial_channels)


def outcome_kind(operation: str) -> str:
    """Return what an operation makes: `features`, a map `spatial` or `channel`, or a `kernel`."""
    if is_feature(operation):
        return "features"
    return "kernel" if operation in KERNEL_SIZES else operation.removesuffix("_attention")


class Outcomes:
    """Adds up what operations make, by its kind, with kernels widened to one size."""

    def __init__(self, kernel_size: int):
        self.kernel_size, self.sums = kernel_size, {}

    def add(self, kind: str, outcome: Tensor) -> None:
        """Add an outcome, weighted as it is, to the sum of its kind."""
        if kind == "kernel":
            outcome = widened(outcome, self.kernel_size)
        self.sums[kind] = self.sums[kind] + outcome if kind in self.sums else outcome

    def calibrated(self, features: Tensor, gate: Tensor | None = None) -> Tensor:
        """Return features plus features times attention plus features convolved dynamically.

        Equations 3 and 5 of the paper; what is added is multiplied by `gate`, if there is one. The
        convolution is linear in its kernel, so that one with the sum of all kernels is the sum of
        all convolutions.
        """
        gated = (lambda x: x) if gate is None else (lambda x: gate * x)  # before x has all sizes
        total = features
        # Maps of one kind are small; only their sum over both kinds has the size of features.
        attention = [self.sums[kind] for kind in ATTENTION_MAPS if kind in self.sums]
        if attention:
            total = total + features * gated(sum(attention))
        if "kernel" in self.sums:
            total = total + dynamic_depthwise_conv(features, gated(self.sums["kernel"]))
        return total


def combined(
    kernel_size: int, made: Sequence[dict[str, Tensor]], gate: Tensor | None
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the node that the weighted outcomes of its edges make, and nothing aside."""
    outcomes = added_up(kernel_size, made)
    return outcomes.calibrated(outcomes.sums["features"], gate), {}


def added_up(kernel_size: int, made: Sequence[dict[str, Tensor]]) -> Outcomes:
    """Return the sum of the outcomes of edges, as `combined` is given them."""
    outcomes = Outcomes(kernel_size)
    for outcome in made:
        for kind, value in outcome.items():
            outcomes.add(kind, value)
    return outcomes
