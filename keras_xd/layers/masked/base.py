"""Layers of Keras with learned numbers of channels and taps."""

import math
from collections.abc import Sequence
from typing import Any, Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core import shared_objects, validation
from keras_xd.core.configured import ConfiguredLayer, config_with_functions
from keras_xd.core.searchable import SearchableLayer
from keras_xd.core.type_aliases import (
    Config,
    Constraint,
    ConvOptions,
    Description,
    Initializer,
    Regularizer,
    Shape,
    Sizes,
    Tensor,
)
from keras_xd.layers.masked import crop_kernel, masks
from keras_xd.layers.masked.finalized_mask import multiply_along
from keras_xd.layers.masked.relative_mask import RelativeMask

PARTS = ("input_width", "output_width", "depth_mask")


class KerasOptions(ConvOptions, total=False):
    """Keyword arguments of the layers of Keras that have a masked twin; each has some of them."""

    filters: int
    kernel_size: Sizes
    units: int
    depth_multiplier: int
    depthwise_initializer: Initializer
    depthwise_regularizer: Regularizer
    depthwise_constraint: Constraint


class MaskedLayer(ConfiguredLayer, SearchableLayer):
    """Base class of layers of Keras whose kernels are masked, and that know what is masked around.

    A subclass inherits from it and from a layer of Keras, in this order. It computes
    """

    keras_class: Any = None

    def __init__(
        self,
        *args: Any,
        input_width: RelativeMask | None = None,
        output_width: RelativeMask | None = None,
        depth_mask: RelativeMask | None = None,
        block: tuple[int, int] | None = None,
        mask_kernel: bool = False,
        initial_value: float = masks.LARGEST_AT_END,
        **kwargs: Unpack[KerasOptions],
    ):
        super().__init__(*args, **kwargs)
        self.input_width = shared_objects.restored(input_width, RelativeMask, "input_width")
        self.output_width = shared_objects.restored(output_width, RelativeMask, "output_width")
        self.depth_mask = shared_objects.restored(depth_mask, RelativeMask, "depth_mask")
        self.block = checked_block(block, depth_mask)
        self.mask_kernel = mask_kernel
        self.initial_value = initial_value
        self.kernel_mask = None
        axes = [axis for axis, taps in enumerate(self.window, start=1) if taps > 1]
        if mask_kernel and axes:
            self.kernel_mask = RelativeMask(
                tuple(axes),
                "gaussian",
                centre=1.0 if getattr(self, "padding", None) == "causal" else 0.0,
                initial_value=initial_value,
                name="kernel_mask",
            )

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        if self.kernel_mask is not None and not self.kernel_mask.built:
            self.kernel_mask.build((None, *self.window))
        outputs = self.compute_output_shape(input_shape)
        build_mask(self.input_width, self.channels_of(input_shape))
        build_mask(self.output_width, self.channels_of(outputs))
        if self.depth_mask is not None:
            build_mask(self.depth_mask, self.block[1])

    @property
    def window(self) -> tuple[int, ...]:
        """The number of taps along each spatial axis, a tuple."""
        return tuple(getattr(self, "kernel_size", ()))

    @property
    def shared_parts(self) -> dict[str, Any]:
        """What a copy of a model must copy once for all layers, by the name of the argument."""
        return {name: getattr(self, name) for name in PARTS if getattr(self, name) is not None}

    @property
    def architecture_variables(self) -> list[keras.Variable]:
        """The variables of its masks: of the kernel, and of those shared with other layers."""
        return [v for mask in self._masks() for v in mask.architecture_variables]

    @property
    def kernel_sizes(self) -> list[float | Tensor]:
        """The size of the kernel along each axis, differentiable scalars where it is learned."""
        sizes = list(self.window)
        if self.kernel_mask is not None:
            for axis, size in zip(self.kernel_mask.axis, self.kernel_mask.sizes, strict=True):
                sizes[axis - 1] = size
        return sizes

    @property
    def masked_kernel(self) -> Tensor:
        """The kernel as it is used, a tensor."""
        kernel = ops.convert_to_tensor(self.kernel)
        if self.kernel_mask is not None:
            axes = [axis - 1 for axis in self.kernel_mask.axis]
            kernel = multiply_along(kernel, axes, self.kernel_mask.values)
        if self.input_width is not None:
            kernel = multiply_along(kernel, [len(self.window)], self.input_width.values)
        return kernel

    @property
    def channel_axis(self) -> int:
        """The axis of the channels of inputs and outputs, -1 or 1."""
        return 1 if getattr(self, "data_format", None) == "channels_first" else -1

    def channels_of(self, shape: Shape) -> int:
        """Return the number of channels of a shape."""
        return shape[self.channel_axis]

    def complexity(self, input_shape: Shape) -> float | Tensor:
        """Multiply–adds of one sample that are left once the model is finalized."""
        outputs = self.compute_output_shape(input_shape)
        channels = _count(self.input_width, self.channels_of(input_shape))
        filters = _count(self.output_width, self.channels_of(outputs))
        positions = math.prod(outputs[1:]) // self.channels_of(outputs)
        taps = math.prod(self.window)
        if self.kernel_mask is not None:
            masked = math.prod(self.window[axis - 1] for axis in self.kernel_mask.axis)
            taps = taps // masked * math.prod(self.kernel_mask.counts)
        present = 1 if self.depth_mask is None else self.depth_mask.presence[self.block[0]]
        return positions * taps * self.count(channels, filters) * present

    def count(self, channels: float | Tensor, filters: float | Tensor) -> float | Tensor:
        """Return the multiply–adds of one tap at one place."""
        groups = getattr(self, "groups", 1)  # more than 1 only where no channel is masked
        return (channels if groups == 1 else channels // groups) * filters

    @property
    def gate(self) -> float | Tensor:
        """How much of the block that the layer is in lies under the mask of the depth."""
        return 1 if self.depth_mask is None else self.depth_mask.gates[self.block[0]]

    def finalize(self) -> keras.layers.Layer:
        """Return a built layer of Keras of the same shapes, with the masks in its kernel."""
        shape = self.get_build_config()["input_shape"]
        around, plain = self.trimmed(shape)
        return self.trimmed(shape, cut_taps=False)[1] if around else plain

    def trimmed(
        self,
        input_shape: Shape,
        inputs: Sequence[int] | np.ndarray | None = None,
        outputs: Sequence[int] | np.ndarray | None = None,
        scale: float = 1.0,
        cut_taps: bool = True,
    ) -> tuple[list[keras.layers.Layer], keras.layers.Layer]:
        """Return what computes the same for some of the channels, as built layers of Keras."""
        input_shape = tuple(input_shape)
        exact = "float64" if self.variable_dtype == "float64" else "float32"
        kernel = scale * ops.convert_to_numpy(ops.cast(self.masked_kernel, exact))
        bias = getattr(self, "bias", None)
        bias = None if bias is None else scale * ops.convert_to_numpy(ops.cast(bias, exact))
        config, around = self.plain_config(), []
        if cut_taps and self.kernel_mask is not None:
            around, cropped, supports = crop_kernel.crop(self, input_shape, self.kernel_supports)
            config |= cropped
            kernel = kernel[tuple(slice(*support) for support in supports)]
        kernel = self.cut_channels(kernel, inputs, outputs)
        if outputs is not None and bias is not None:
            bias = bias[outputs]
        config |= self.sizes_of(kernel)
        plain = self.keras_class.from_config(config)
        shape = list(input_shape)
        if inputs is not None:
            shape[self.channel_axis] = len(inputs)
        for layer in around:
            shape = layer.compute_output_shape(tuple(shape))
        plain.build(tuple(shape))
        plain.trainable = self.trainable
        for name, value in (("kernel", kernel), ("bias", bias)):
            if value is not None:
                getattr(plain, name).assign(value)
                getattr(plain, name).trainable = getattr(self, name).trainable
        return around, plain

    def cut_channels(
        self,
        kernel: np.ndarray,
        inputs: Sequence[int] | np.ndarray | None,
        outputs: Sequence[int] | np.ndarray | None,
    ) -> np.ndarray:
        """Return a kernel for some of the input and output channels; `None` are all."""
        kernel = kernel if inputs is None else kernel[..., inputs, :]
        return kernel if outputs is None else kernel[..., outputs]

    def sizes_of(self, kernel: np.ndarray) -> Config:
        """Return the arguments of the layer of Keras that tell the number of output channels."""
        return {"filters": kernel.shape[-1]}

    @property
    def kernel_supports(self) -> list[tuple[int, int]]:
        """`(start, stop)` of the taps under the mask, of each axis."""
        supports = [(0, taps) for taps in self.window]
        if self.kernel_mask is not None:
            pairs = zip(self.kernel_mask.axis, self.kernel_mask.values, strict=True)
            for axis, values in pairs:
                supports[axis - 1] = masks.support(values)
        return supports

    def describe(self) -> Description:
        """Return `kernel_size/<axis>`, `taps/<axis>`, and the sizes of the shared masks."""
        result = {}
        pairs = zip(self.kernel_sizes, self.kernel_supports, strict=True)
        for axis, (size, (start, stop)) in enumerate(pairs):
            result[f"kernel_size/{axis}"] = float(size)
            result[f"taps/{axis}"] = float(stop - start)
        for name, mask in (
            ("input_channels", self.input_width),
            ("output_channels", self.output_width),
        ):
            if mask is not None:
                result[name] = float(mask.sizes[0])
        if self.depth_mask is not None:
            result["gate"] = float(self.gate)
        return result

    def random_architecture(self, generator: np.random.Generator) -> list[np.ndarray]:
        """Return what the masks draw."""
        return [value for mask in self._masks() for value in mask.random_architecture(generator)]

    def _masks(self):
        """Return the masks that there are."""
        found = [self.kernel_mask, *(getattr(self, name) for name in PARTS)]
        return [mask for mask in found if mask is not None]

    def plain_config(self) -> Config:
        """Return the configuration of the layer of Keras that it is without masks."""
        config = config_with_functions(self)
        for name in (*PARTS, "block", "mask_kernel", "initial_value"):
            del config[name]
        return config


def checked_block(block, depth_mask):
    """Return the number of a block and of all blocks as a tuple, or `None` without a mask."""
    if block is None and depth_mask is None:
        return None
    pair = isinstance(block, (tuple, list)) and len(block) == 2
    pair = pair and all(map(validation.is_integer, block))
    if depth_mask is None or not pair or not 0 <= block[0] < block[1]:
        raise ValueError(
            "`block` must be the number of a block and how many there are, with a `depth_mask`. "
            f"Received: block={block!r}, depth_mask={depth_mask!r}"
        )
    return tuple(block)


def build_mask(mask, points):
    """Build a mask for an axis, if there is one."""
    if mask is None:
        return
    if not mask.built:
        mask.build((None, points))
    elif len(mask.values[0]) != points:
        raise ValueError(
            "A mask can be shared by axes of the same number of points only. Received: mask "
            f"'{mask.name}' of {len(mask.values[0])} points for an axis of {points}"
        )


def _count(mask, points):
    return points if mask is None else mask.counts[0]
