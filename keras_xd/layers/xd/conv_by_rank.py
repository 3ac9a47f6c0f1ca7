"""XD-operations of a fixed rank: drop-ins for Keras' `Conv1D`, `Conv2D` and `Conv3D`."""

from typing import Unpack

import keras

from keras_xd.core.type_aliases import (
    Activation,
    Config,
    Constraint,
    Initializer,
    Regularizer,
    Sizes,
)
from keras_xd.layers.xd.conv import XDConv
from keras_xd.layers.xd.sliding import SlidingXDOptions


class _RankedXDConv(XDConv):
    """An `XDConv` whose rank is that of the class."""

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        groups: int = 1,
        activation: Activation = None,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        kernel_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        activity_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        **kwargs: Unpack[SlidingXDOptions],
    ):
        super().__init__(
            self.fixed_rank,
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            dilation_rate,
            groups,
            activation,
            use_bias,
            kernel_initializer,
            bias_initializer,
            kernel_regularizer,
            bias_regularizer,
            activity_regularizer,
            kernel_constraint,
            bias_constraint,
            **kwargs,
        )

    def get_config(self) -> Config:
        config = super().get_config()
        del config["rank"]
        return config


@keras.saving.register_keras_serializable(package="keras_xd")
class XDConv1D(_RankedXDConv):
    """XD-operation on sequences, a drop-in for `keras.layers.Conv1D`.

    Takes every argument of `keras.layers.Conv1D` with the same meaning, and the keyword arguments
    of `XDConv` (`depth`, `radix`, `warm_start`, `frequency_bias`, `channel_gates`, `seed`), which
    has the definitions.

    Input shape:
        `(batch, steps, channels)`, or `(batch, channels, steps)` for "channels_first".

    Output shape:
        `(batch, new_steps, filters)` or `(batch, filters, new_steps)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.XDConv1D(8, 5, padding="causal", depth=3)(np.ones((2, 100, 3), "float32")).shape
    TensorShape([2, 100, 8])

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, Definition 3.2.
    """

    fixed_rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class XDConv2D(_RankedXDConv):
    """XD-operation on images, a drop-in for `keras.layers.Conv2D`.

    Takes every argument of `keras.layers.Conv2D` with the same meaning, and the keyword arguments
    of `XDConv` (`depth`, `radix`, `warm_start`, `frequency_bias`, `channel_gates`, `seed`), which
    has the definitions.

    Input shape:
        `(batch, height, width, channels)`, or `(batch, channels, height, width)` for
        "channels_first".

    Output shape:
        `(batch, new_height, new_width, filters)` or `(batch, filters, new_height, new_width)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.XDConv2D(8, 3, strides=2)(np.ones((2, 32, 32, 3), "float32")).shape
    TensorShape([2, 15, 15, 8])

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, Definition 3.2.
    """

    fixed_rank = 2


@keras.saving.register_keras_serializable(package="keras_xd")
class XDConv3D(_RankedXDConv):
    """XD-operation on volumes, a drop-in for `keras.layers.Conv3D`.

    Takes every argument of `keras.layers.Conv3D` with the same meaning, and the keyword arguments
    of `XDConv` (`depth`, `radix`, `warm_start`, `frequency_bias`, `channel_gates`, `seed`), which
    has the definitions.

    Input shape:
        `(batch, depth, height, width, channels)`, or `(batch, channels, depth, height, width)` for
        "channels_first".

    Output shape:
        `(batch, *new_sizes, filters)` or `(batch, filters, *new_sizes)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.XDConv3D(4, 3, padding="same")(np.ones((1, 8, 10, 12, 2), "float32")).shape
    TensorShape([1, 8, 10, 12, 4])

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, Definition 3.2.
    """

    fixed_rank = 3
