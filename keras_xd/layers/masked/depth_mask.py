"""A mask over the blocks of a network: its depth as a number that is learned."""

import math
from typing import Unpack

import keras
from keras import ops

from keras_xd.core import validation
from keras_xd.core.type_aliases import LayerOptions, Regularizer, Shape, Tensor
from keras_xd.layers.masked import masks
from keras_xd.layers.masked.differentiable_mask import DifferentiableMask
from keras_xd.layers.masked.finalized_mask import StaticMask


@keras.saving.register_keras_serializable(package="keras_xd")
class StaticDepthMask(StaticMask):
    """A finalized `DepthMask`: multiplies the residual branch of each block by a fixed number."""

    fixed = ("axis",)

    def __init__(self, blocks: int, **kwargs: Unpack[LayerOptions]):
        super().__init__(**kwargs)
        self.blocks = validation.positive_integer(blocks, "blocks")

    def build(self, input_shape: Shape) -> None:
        super().build((None, self.blocks))
        self.input_spec = None  # the blocks are no axis of the inputs

    def call(self, inputs: Tensor, index: int = 0) -> Tensor:
        return inputs * ops.cast(self.masks[0][index], inputs.dtype)


@keras.saving.register_keras_serializable(package="keras_xd")
class DepthMask(DifferentiableMask):
    """A sigmoid mask whose points are the residual blocks of a network; one for all of them.

    Called with the output of a residual branch and the `index` of its block, it multiplies by the
    mask's value there ("DNArch", section 2.4.4). At least 2.57 / temperature of the blocks stay.
    """

    fixed = ("axis", "profile", "centre")
    static_class, static_argument = StaticDepthMask, "blocks"

    def __init__(
        self,
        blocks: int,
        temperature: float = 8.0,
        initial_size: float | None = None,
        minimum_size: float | None = None,
        threshold: float = masks.THRESHOLD,
        architecture_regularizer: Regularizer = None,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(
            temperature=temperature,
            initial_size=initial_size,
            minimum_size=minimum_size,
            threshold=threshold,
            architecture_regularizer=architecture_regularizer,
            **kwargs,
        )
        self.blocks = validation.positive_integer(blocks, "blocks", least=2)

    def build(self, input_shape: Shape) -> None:
        super().build((None, self.blocks))
        self.input_spec = None  # the blocks are no axis of the inputs

    def value(self, index: int) -> Tensor:
        """Return the mask's value for the block `index`, a scalar float tensor."""
        return self.values[0][self.checked_index(index)]

    def gate(self, index: int) -> float | Tensor:
        """Return how much of the block `index` counts, a differentiable scalar.

        With the size `s` of the mask it is `clip(s - index, 0, 1)`: the sum over all blocks is `s`.
        The slope is 1 in the block in which the size ends and 0 in the others; a size that ends
        with a block belongs to the next one, unless there is none.
        """
        self.checked_index(index)
        (size,) = self.sizes
        fixed = ops.stop_gradient(size)
        last = ops.clip(ops.floor(fixed), 0, self.blocks - 1)
        slope = ops.cast(ops.equal(last, index), size.dtype)
        return ops.clip(fixed - index, 0, 1) + slope * (size - fixed)

    def call(self, inputs: Tensor, index: int = 0) -> Tensor:
        return inputs * ops.cast(self.value(index), inputs.dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

    def complexity(self, input_shape: Shape) -> float | Tensor:
        """Multiplications of one sample of one block."""
        return math.prod(input_shape[1:])

    def checked_index(self, index: int) -> int:
        """Return the number of a block, or raise `ValueError` if there is none."""
        if not validation.is_integer(index) or not 0 <= index < self.blocks:
            raise ValueError(
                f"`index` must be the number of a block, from 0 to {self.blocks - 1}. "
                f"Received: index={index!r}, blocks={self.blocks}"
            )
        return index
