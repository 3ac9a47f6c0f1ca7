"""Residual branches of a network whose depth is learned."""

from typing import Any, Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core import shared_objects
from keras_xd.core.configured import ConfiguredLayer, built_like
from keras_xd.core.searchable import SearchableLayer
from keras_xd.core.type_aliases import Description, LayerOptions, Shape, Tensor
from keras_xd.layers.masked.base import build_mask, checked_block
from keras_xd.layers.masked.relative_mask import RelativeMask


@keras.saving.register_keras_serializable(package="keras_xd")
class MaskedBranch(ConfiguredLayer, SearchableLayer):
    """Multiplies a residual branch by one value of a mask that several blocks share.

    In `x + m_l · f_l(x)` of the blocks `l = 0, 1, …` the mask `m` along the depth is a
    `RelativeMask`, which begins as 1. Blocks beyond its edge add nothing, and
    `keras_xd.finalize` leaves them out. The layer stands at the end of the branch, after its last
    batch normalization, which a factor before would have no effect on.

    Args:
        depth_mask: the `RelativeMask` that the branches share.
        block: the number of this block, from 0, and how many there are: two integers.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> from keras_xd.layers.masked.relative_mask import RelativeMask
    >>> mask = RelativeMask(temperature=8.0)
    >>> branches = [layers.MaskedBranch(mask, (number, 3)) for number in range(3)]
    >>> [float(branch(np.ones((1, 1)))[0, 0]) for branch in branches]
    [1.0, 1.0, 1.0]
    >>> _ = mask.length.assign([0.0])
    >>> [branch.describe()["gate"] for branch in branches][2]
    0.0
    """

    def __init__(
        self, depth_mask: RelativeMask, block: tuple[int, int], **kwargs: Unpack[LayerOptions]
    ):
        super().__init__(**kwargs)
        self.depth_mask = shared_objects.restored(depth_mask, RelativeMask, "depth_mask")
        self.block = checked_block(block, self.depth_mask)
        if self.block is None:
            raise ValueError(
                "A branch must have a mask and a block. Received: depth_mask=None, block=None"
            )

    def build(self, input_shape: Shape) -> None:
        build_mask(self.depth_mask, self.block[1])

    @property
    def shared_parts(self) -> dict[str, Any]:
        """What a copy of a model must copy once for all layers, by the name of the argument."""
        return {"depth_mask": self.depth_mask}

    @property
    def architecture_variables(self) -> list[keras.Variable]:
        """The variable of the mask."""
        return self.depth_mask.architecture_variables

    @property
    def value(self) -> Tensor:
        """The factor of the branch, a tensor."""
        return self.depth_mask.values[0][self.block[0]]

    def call(self, inputs: Tensor) -> Tensor:
        return inputs * ops.cast(self.value, inputs.dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

    def complexity(self, input_shape: Shape) -> float | Tensor:
        """No multiply–adds: the factor goes into the layer before."""
        return 0

    def finalize(self) -> keras.layers.Layer:
        """Return a `keras.layers.Rescaling` by the value that the mask has."""
        return built_like(self, keras.layers.Rescaling, float(self.value))

    def describe(self) -> Description:
        """Return the `value` of the factor, and the `gate` of the block under the mask."""
        return {
            "value": float(self.value),
            "gate": float(self.depth_mask.gates[self.block[0]]),
        }

    def random_architecture(self, generator: np.random.Generator) -> list[np.ndarray]:
        """Return what the mask draws."""
        return self.depth_mask.random_architecture(generator)
