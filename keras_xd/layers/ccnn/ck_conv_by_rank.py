"""Continuous kernel convolutions of one and two dimensions."""

from typing import Unpack

import keras

from keras_xd.core import validation
from keras_xd.core.type_aliases import (
    Activation,
    Initializer,
    InitialSize,
    LayerOptions,
    Regularizer,
    Sizes,
    Tensor,
)
from keras_xd.layers.ccnn.ck_conv import CKConv
from keras_xd.layers.ccnn.kernel_network import KernelNetwork
from keras_xd.layers.masked import masks


class CKConvOptions(LayerOptions, total=False):
    """Keyword arguments of a `CKConv` after the size of its kernel."""

    padding: str
    learn_kernel_size: bool
    initial_kernel_size: InitialSize
    learn_resolution: bool
    temperature: float
    convolution: str
    rendering: str
    data_format: str | None
    activation: Activation
    use_bias: bool
    bias_initializer: Initializer
    architecture_regularizer: Regularizer
    seed: int | None
    kernel_scaling: str


class _RankedCKConv(CKConv):
    """A `CKConv` whose rank is that of the class."""

    fixed = ("rank",)

    def __init__(
        self,
        network: KernelNetwork | None = None,
        kernel_size: Sizes | None = None,
        **kwargs: Unpack[CKConvOptions],
    ):
        super().__init__(self.fixed_rank, network, kernel_size, **kwargs)


@keras.saving.register_keras_serializable(package="keras_xd")
class CKConv1D(_RankedCKConv):
    """Continuous kernel convolution of sequences, of learned size: see `CKConv`.

    Args:
        network: a `KernelNetwork`, which other layers may share, or `None` for one of its own.
        kernel_size: as in `CKConv`.
        **kwargs: all other arguments of `CKConv`.

    Input shape:
        `(batch, steps, channels)`, or `(batch, channels, steps)` for "channels_first".

    Output shape:
        That of the input; an unknown number of steps with dynamic rendering of learned resolutions.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.CKConv1D(padding="causal")(np.ones((2, 100, 3))).shape
    TensorShape([2, 100, 3])
    """

    fixed_rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class CKConv2D(_RankedCKConv):
    """Continuous kernel convolution of images, of learned size: see `CKConv`.

    Args:
        network: a `KernelNetwork`, which other layers may share, or `None` for one of its own.
        kernel_size: as in `CKConv`.
        **kwargs: all other arguments of `CKConv`.

    Input shape:
        `(batch, height, width, channels)`, or `(batch, channels, height, width)`.

    Output shape:
        That of the input; unknown spatial sizes with dynamic rendering of learned resolutions.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.CKConv2D(kernel_size=(9, 7))(np.ones((2, 16, 12, 3))).shape
    TensorShape([2, 16, 12, 3])
    """

    fixed_rank = 2


class _FlexConv(_RankedCKConv):
    """A `CKConv` of Gabor filters, whose frequencies are kept below those that alias."""

    def __init__(
        self,
        network: KernelNetwork | None = None,
        kernel_size: Sizes | None = None,
        alias_penalty: float = 0.001,
        **kwargs: Unpack[CKConvOptions],
    ):
        super().__init__(network, kernel_size, **kwargs)
        if self.kernel_network.kind != "magnet":
            raise ValueError(
                "A FlexConv needs a `KernelNetwork` of kind='magnet'. "
                f"Received: kind={self.kernel_network.kind!r}"
            )
        validation.real_number(alias_penalty, "alias_penalty")
        if not alias_penalty >= 0:
            raise ValueError(
                "`alias_penalty` must be a number of at least 0. "
                f"Received: alias_penalty={alias_penalty!r}"
            )
        self.alias_penalty = alias_penalty

    def own_network(self, seed: int | None) -> KernelNetwork:
        """Return a network of Gabor filters."""
        # The filters begin around the kernel that the search begins with.
        spread = masks.gaussian_edge(masks.INITIAL_WIDTH)
        return KernelNetwork("magnet", units=32, spread=spread, seed=seed)

    def call(self, inputs: Tensor) -> Tensor:
        outputs = super().call(inputs)
        if self.alias_penalty:
            penalty = self.kernel_network.alias_penalty(self.largest_size)
            self.add_loss(self.alias_penalty * penalty)
        return outputs


@keras.saving.register_keras_serializable(package="keras_xd")
class FlexConv1D(_FlexConv):
    """Convolution of sequences with a kernel of Gabor filters and of learned size.

    It is a `CKConv1D` whose network is a multiplicative anisotropic Gabor network, `"magnet"`, with
    a penalty on filters of frequencies that its grid cannot hold. So a kernel means the same on a
    finer grid.

    Args:
        network: a `KernelNetwork` of `"magnet"`, which other layers may share, or `None` for one of
            its own, of 32 units.
        kernel_size: as in `CKConv`.
        alias_penalty: factor of `KernelNetwork.alias_penalty`, which is added to the loss.
        **kwargs: all other arguments of `CKConv`.

    Input shape:
        `(batch, steps, channels)`, or `(batch, channels, steps)` for "channels_first".

    Output shape:
        That of the input; an unknown number of steps with dynamic rendering of learned resolutions.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.FlexConv1D(kernel_size=33)
    >>> layer(np.ones((2, 100, 3))).shape, len(layer.losses)
    (TensorShape([2, 100, 3]), 1)

    Reference:
        Romero et al., "FlexConv: Continuous Kernel Convolutions with Differentiable Kernel Sizes",
        2022.
    """

    fixed_rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class FlexConv2D(_FlexConv):
    """Convolution of images with a kernel of Gabor filters and of learned size: see `FlexConv1D`.

    Args:
        network: a `KernelNetwork` of `"magnet"`, which other layers may share, or `None` for one of
            its own, of 32 units.
        kernel_size: as in `CKConv`.
        alias_penalty: factor of `KernelNetwork.alias_penalty`, which is added to the loss.
        **kwargs: all other arguments of `CKConv`.

    Input shape:
        `(batch, height, width, channels)`, or `(batch, channels, height, width)`.

    Output shape:
        That of the input; unknown spatial sizes with dynamic rendering of learned resolutions.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.FlexConv2D(kernel_size=7)(np.ones((2, 16, 12, 3))).shape
    TensorShape([2, 16, 12, 3])

    Reference:
        Romero et al., "FlexConv: Continuous Kernel Convolutions with Differentiable Kernel Sizes",
        2022.
    """

    fixed_rank = 2
