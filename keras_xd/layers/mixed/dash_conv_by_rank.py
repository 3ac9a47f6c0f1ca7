"""Mixtures of convolutions of many sizes and dilations, of one to three dimensions."""

from collections.abc import Sequence
from typing import Unpack

import keras

from keras_xd.core.type_aliases import (
    Activation,
    BaseOptions,
    Config,
    Constraint,
    Initializer,
    Regularizer,
    Sizes,
)
from keras_xd.layers.mixed.dash_conv import DashConv


class DashOptions(BaseOptions, total=False):
    """Keyword arguments of a `DashConv`, beyond those of Keras' convolutions."""

    kernel_sizes: Sequence[int]
    dilations: Sequence[int]
    relaxation: str
    temperature: float
    convolution: str
    perturb: float | None
    update: str
    partial_channels: int
    seed: int | None


class _RankedDashConv(DashConv):
    """A `DashConv` whose rank is that of the class."""

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
        **kwargs: Unpack[DashOptions],
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
class DashConv1D(_RankedDashConv):
    """A mixture of convolutions on sequences in place of a `keras.layers.Conv1D`.

    Takes every argument of `keras.layers.Conv1D` with the same meaning, and the keyword arguments
    of `DashConv` (`kernel_sizes`, `dilations`, `relaxation`, `temperature`, `convolution`,
    `perturb`, `update`, `partial_channels`, `seed`), which has the definitions.

    Input shape:
        `(batch, steps, channels)`, or `(batch, channels, steps)` for "channels_first".

    Output shape:
        `(batch, new_steps, filters)` or `(batch, filters, new_steps)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.DashConv1D(8, 5, padding="causal")(np.ones((2, 100, 3))).shape
    TensorShape([2, 100, 8])

    Reference:
        Shen, Khodak, Talwalkar, "Efficient Architecture Search for Diverse Tasks", 2022.
    """

    fixed_rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class DashConv2D(_RankedDashConv):
    """A mixture of convolutions on images in place of a `keras.layers.Conv2D`.

    Takes every argument of `keras.layers.Conv2D` with the same meaning, and the keyword arguments
    of `DashConv` (`kernel_sizes`, `dilations`, `relaxation`, `temperature`, `convolution`,
    `perturb`, `update`, `partial_channels`, `seed`), which has the definitions.

    Input shape:
        `(batch, height, width, channels)`, or `(batch, channels, height, width)` for
        "channels_first".

    Output shape:
        `(batch, new_height, new_width, filters)` or `(batch, filters, new_height, new_width)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.DashConv2D(6, 5)(np.ones((2, 32, 32, 3))).shape
    TensorShape([2, 28, 28, 6])

    Reference:
        Shen, Khodak, Talwalkar, "Efficient Architecture Search for Diverse Tasks", 2022.
    """

    fixed_rank = 2


@keras.saving.register_keras_serializable(package="keras_xd")
class DashConv3D(_RankedDashConv):
    """A mixture of convolutions on volumes in place of a `keras.layers.Conv3D`.

    Takes every argument of `keras.layers.Conv3D` with the same meaning, and the keyword arguments
    of `DashConv` (`kernel_sizes`, `dilations`, `relaxation`, `temperature`, `convolution`,
    `perturb`, `update`, `partial_channels`, `seed`), which has the definitions.

    Input shape:
        `(batch, *spatial, channels)`, or `(batch, channels, *spatial)` for "channels_first".

    Output shape:
        `(batch, *new_spatial, filters)` or `(batch, filters, *new_spatial)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.DashConv3D(2, 3, dilations=(1, 3))(np.ones((1, 8, 8, 8, 1))).shape
    TensorShape([1, 6, 6, 6, 2])

    Reference:
        Shen, Khodak, Talwalkar, "Efficient Architecture Search for Diverse Tasks", 2022.
    """

    fixed_rank = 3
