"""What relaxed and derived cells of heterogeneous operations have in common."""

from collections.abc import Sequence
from typing import Any, Unpack

import keras
from keras import ops

from keras_xd.core import validation
from keras_xd.core.type_aliases import Config, LayerOptions, Shape, Tensor
from keras_xd.layers.cells.attention import ChannelAttention, SpatialAttention
from keras_xd.layers.cells.dynamic_conv import (
    DynamicKernel,
    dynamic_depthwise_conv,
    image_channels,
    widened,
)
from keras_xd.layers.cells.features import FactorizedReduction, FeatureOperation, PointwiseOperation
from keras_xd.layers.cells.genotypes import (
    ATTENTION_OPERATIONS,
    BLOCKS,
    DYNAMIC_OPERATIONS,
    INPUTS,
    is_feature,
)
from keras_xd.layers.cells.self_calibration import GATES, gate_value
from keras_xd.layers.mixed import window_padding

# An operation whose outcomes are added up as those of each kind are.
_KINDS = {
    "features": "identity",
    "spatial": "spatial_attention",
    "channel": "channel_attention",
    "kernel": "dynamic_5",
}
KERNEL_SIZES = {name: int(name[-1]) for name in DYNAMIC_OPERATIONS}


class OperatorCell(keras.layers.Layer):
    """Base class of cells: two inputs brought to one shape, four blocks, their concatenation.

    A subclass makes its operations in the constructor, `self.operations`, and gives
    `used_operations`, `operation_shapes`, `block_sources`, `first_tier` and `second_tier`.

    Args:
        filters: number of channels of each node; the cell has four times as many.
        reduction: whether the cell halves the size: the operations on its inputs have strides 2.
        previous_reduction: whether the cell before did, so that the first input is twice as large
            as the second.
        partial_channels: integer `k`; operations act on the first 1 / k of the channels. What the
            inputs of a tier have in their other channels is added up (with strides as the maxima of
            windows of that size), put beside, and the channels of all parts are interleaved.
        affine: whether normalisations have a scale and an offset that are learned; `False` is the
            form in a search.
        calibration_gate: `None`, or `"zero"` for a learned factor of what attention and dynamic
            convolutions add in each tier of each block, `z = F + g · (F · A + F ∗ D)`, which starts
            at 0, or `"tanh"` for the hyperbolic tangent of such a number.

    Example:

    >>> from keras_xd import layers
    >>> issubclass(layers.DerivedCell, layers.cells.operator_cell.OperatorCell)
    True
    """

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
        if self.filters % self.partial_channels:
            raise ValueError(
                "`partial_channels` must divide `filters`. "
                f"Received: partial_channels={partial_channels}, filters={filters}"
            )
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
        if self.calibration_gate and not all(map(is_feature, self.used_operations)):
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

    def apply_operation(
        self, operation: keras.layers.Layer, name: str, x: Tensor, training: bool | None
    ) -> Tensor:
        """Return what an operation of a name makes of the channels of a node."""
        if name == "channel_attention":
            return operation(x)
        return operation(x, training=training)

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
            return DynamicKernel(KERNEL_SIZES[operation], affine=self.affine, **common)
        if operation == "spatial_attention":
            return SpatialAttention(strides, affine=self.affine, **common)
        return ChannelAttention(**common)

    def node_shape(self, input_shape: Sequence[Shape], source: int | None) -> Shape:
        """Return the shape of what operations on a node are given; `None` is a surrogate node."""
        sizes = self.check_shapes(input_shape)
        if self.reduction and (source is None or source >= INPUTS):
            sizes = [-(-n // 2) for n in sizes]
        return (None, *sizes, self.operation_filters)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "filters": self.filters,
            "reduction": self.reduction,
            "previous_reduction": self.previous_reduction,
            "partial_channels": self.partial_channels,
            "calibration_gate": self.calibration_gate,
        }

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


class Outcomes:
    """Adds up what operations make: features, attention maps of both kinds, and kernels.

    Args:
        kernel_size: size that all dynamic kernels are widened to.

    Example:

    >>> from keras_xd.layers.cells.operator_cell import Outcomes
    >>> outcomes = Outcomes(kernel_size=3)
    >>> outcomes.add("identity", 2.0)
    >>> outcomes.calibrated(outcomes.features)
    2.0
    """

    def __init__(self, kernel_size: int):
        self.kernel_size = kernel_size
        self.features, self.attention, self.kernel = None, {}, None

    def add(self, operation: str, outcome) -> None:
        """Add what an operation of a name has made, weighted as it is."""
        if operation in KERNEL_SIZES:
            outcome = widened(outcome, self.kernel_size)
            self.kernel = outcome if self.kernel is None else self.kernel + outcome
        elif operation in ATTENTION_OPERATIONS:
            # Maps of one kind are small; only their sum over both kinds has the size of features.
            before = self.attention.get(operation)
            self.attention[operation] = outcome if before is None else before + outcome
        else:
            self.features = outcome if self.features is None else self.features + outcome

    def calibrated(self, features, gate=None):
        """Return features plus features times attention plus features convolved dynamically.

        Equations 3 and 5 of the paper; what is added is multiplied by `gate`, if there is one. The
        convolution is linear in its kernel, so that one with the sum of all kernels is the sum of
        all convolutions.
        """
        gated = (lambda x: x) if gate is None else (lambda x: gate * x)  # before x has all sizes
        total = features
        if self.attention:
            total = total + features * gated(sum(self.attention.values()))
        if self.kernel is not None:
            total = total + dynamic_depthwise_conv(features, gated(self.kernel))
        return total


def combined(
    kernel_size: int, made: Sequence[dict[str, Tensor]], gate: Tensor | None
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the node that the outcomes of its edges make, and nothing aside.

    Args:
        kernel_size: size that all dynamic kernels are widened to.
        made: of each edge, weighted outcomes by the names of operations or of their kinds.
        gate: factor of what attention and dynamic convolutions add, or `None`.
    """
    outcomes = added_up(kernel_size, made)
    return outcomes.calibrated(outcomes.features, gate), {}


def added_up(kernel_size: int, made: Sequence[dict[str, Tensor]]) -> Outcomes:
    """Return the sum of the outcomes of edges, as `combined` is given them."""
    outcomes = Outcomes(kernel_size)
    for outcome in made:
        for kind, value in outcome.items():
            outcomes.add(_KINDS.get(kind, kind), value)
    return outcomes
