"""Mixtures of operations of one and two dimensions."""

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
from keras_xd.layers.mixed.mixed_operation import MixedOperation


class MixedOptions(BaseOptions, total=False):
    """Keyword arguments of a mixture, beyond those of Keras' convolutions."""

    candidates: Sequence[str]
    perturb: float | None
    update: str
    partial_channels: int


class _RankedMixedOperation(MixedOperation):
    """A `MixedOperation` whose rank is that of the class."""

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
        **kwargs: Unpack[MixedOptions],
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
class MixedOperation1D(_RankedMixedOperation):
    """A mixture of operations on sequences in place of a `keras.layers.Conv1D`.

    Takes every argument of `keras.layers.Conv1D` with the same meaning, and the keyword arguments
    of `MixedOperation` (`candidates`, `perturb`, `update`, `partial_channels`), which has the
    definitions.

    Input shape:
        `(batch, steps, channels)`, or `(batch, channels, steps)` for "channels_first".

    Output shape:
        `(batch, new_steps, filters)` or `(batch, filters, new_steps)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.MixedOperation1D(8, 5, padding="causal")(np.ones((2, 100, 3))).shape
    TensorShape([2, 100, 8])

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, section 4.
    """

    fixed_rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class MixedOperation2D(_RankedMixedOperation):
    """A mixture of operations on images in place of a `keras.layers.Conv2D`.

    Takes every argument of `keras.layers.Conv2D` with the same meaning, and the keyword arguments
    of `MixedOperation` (`candidates`, `perturb`, `update`, `partial_channels`), which has the
    definitions.

    Input shape:
        `(batch, height, width, channels)`, or `(batch, channels, height, width)` for
        "channels_first".

    Output shape:
        `(batch, new_height, new_width, filters)` or `(batch, filters, new_height, new_width)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.MixedOperation2D(6, 5, partial_channels=3)(np.ones((2, 32, 32, 3))).shape
    TensorShape([2, 28, 28, 6])

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, section 4.
    """

    fixed_rank = 2
