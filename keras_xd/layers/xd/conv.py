"""XD-operations: convolutions whose Fourier transforms are searched."""

from typing import Unpack

import keras

from keras_xd.core import validation
from keras_xd.core.type_aliases import (
    Activation,
    BaseOptions,
    Config,
    Constraint,
    Depth,
    Initializer,
    Radix,
    Regularizer,
    Shape,
    Sizes,
)
from keras_xd.layers.xd import warm_starts
from keras_xd.layers.xd.sliding import SlidingXDLayer


@keras.saving.register_keras_serializable(package="keras_xd")
class XDConv(SlidingXDLayer):
    """N-D XD-operation: a convolution with searched K-matrices in place of the Fourier transforms.

    A convolution multiplies by a kernel's spectrum between a Fourier transform and its inverse. An
    XD-operation lets the three transforms be any Kaleidoscope matrices `K`, `L`, `M`, shared by all
    channels and trained beside the kernel `w`, with an optional bias `b` of the spectrum and gates
    `C` of the channels:

        y_i = Σ_j C[i, j] · Re( K · diag(L w[i, j] + b) · M · x_j )

    For several spatial axes each matrix is a Kronecker product of one K-matrix per axis. With
    `warm_start="convolution"` the layer is a drop-in for the Keras convolution of the same
    arguments: the same weights `kernel` and `bias`, the same outputs to float32 rounding.
    Use `XDConv1D`, `XDConv2D` or `XDConv3D` for a fixed rank.

    Args:
        rank: number of spatial axes, 1, 2 or 3.
        filters: number of output channels.
        kernel_size: integer or tuple of `rank` integers, size of the kernel.
        strides: integer or tuple; every `strides`-th output is kept.
        padding: `"valid"`, `"same"`, `"causal"` (rank 1), as in Keras, or `"circular"`: as "same",
            with the input continued periodically instead of by zeros.
        data_format: `"channels_last"`, `"channels_first"` or `None` for Keras' default.
        dilation_rate: integer or tuple; cannot be combined with `strides > 1`.
        groups: number of groups the channels are split into.
        activation: activation function, or `None`.
        use_bias: whether a bias is added to the outputs.
        kernel_initializer, bias_initializer: initializers of the model weights.
        kernel_regularizer, bias_regularizer, activity_regularizer: optional regularizers.
        kernel_constraint, bias_constraint: optional constraints.
        window_size: integer or tuple, at most `kernel_size` and by default equal to it: the size of
            the window that padding and output sizes are counted for. The weights around it, the
            odd one after it, let the kernel grow beyond that of the convolution it starts from.
        depth: number of butterflies in each K-matrix, an integer or a triple `(K, L, M)`.
        radix: block sizes of the butterflies: `None` (prime factors), the largest block size, a
            tuple of radices for every axis, or a tuple of `rank` such tuples. `"fastest"`: prime
            factors of a padded size that is estimated to be fast, such as 33, where `None` takes
            the one with the fewest parameters, 36.
        warm_start: the operation the search begins with: `"convolution"`, `"average_pooling"`,
            `"identity"`, `"zero"`, `"fourier_operator"`, `"random_unitary"` to search from scratch,
            or an object of `keras_xd.layers.warm_starts`.
        frequency_bias: whether there is a bias `b`; `None`: where the start needs it.
        channel_gates: whether there are gates `C`, with groups on the connections inside each
            group; `None`: where the start needs them.
        architecture_regularizer: regularizer of each of `K`, `L`, `M`, `b` and `C`: Keras' or of
            `keras_xd.penalties`.
        seed: integer, makes a random start reproducible.

    Call arguments:
        inputs: tensor of `rank + 2` axes. The spatial sizes must be known when the layer is built;
            the batch size may be dynamic.

    Input shape:
        `(batch, *spatial, channels)`, or `(batch, channels, *spatial)` for "channels_first".

    Output shape:
        `(batch, *new_spatial, filters)` or `(batch, filters, *new_spatial)`, as in Keras.

    Raises:
        ValueError: for arguments outside these rules, unknown spatial sizes, a kernel larger than
            the padded input, or radices that do not multiply to a size that fits.

    Example:

    >>> import keras, numpy as np
    >>> from keras_xd import layers
    >>> images = np.random.default_rng(0).normal(size=(2, 17, 17, 3)).astype("float32")
    >>> convolution = keras.layers.Conv2D(4, 3, padding="same")
    >>> expected = convolution(images)
    >>> operation = layers.XDConv(2, 4, 3, padding="same", depth=3)
    >>> _ = operation(images)
    >>> _ = operation.kernel.assign(convolution.kernel)
    >>> bool(np.allclose(operation(images), expected, atol=1e-5))
    True

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, Definition 3.2 and
        equation 5.
    """

    def __init__(
        self,
        rank: int,
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
        *,
        window_size: Sizes | None = None,
        depth: Depth = 1,
        radix: Radix = None,
        warm_start: str | warm_starts.Convolution = "convolution",
        frequency_bias: bool | None = None,
        channel_gates: bool | None = None,
        architecture_regularizer: Regularizer = None,
        seed: int | None = None,
        **kwargs: Unpack[BaseOptions],
    ):
        super().__init__(
            rank,
            kernel_size=kernel_size,
            strides=strides,
            padding=padding,
            paddings=("valid", "same", "circular") + (("causal",) if rank == 1 else ()),
            data_format=data_format,
            dilation_rate=dilation_rate,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            window_size=window_size,
            depth=depth,
            radix=radix,
            warm_start=warm_start,
            frequency_bias=frequency_bias,
            channel_gates=channel_gates,
            architecture_regularizer=architecture_regularizer,
            seed=seed,
            **kwargs,
        )
        self.filters = validation.positive_integer(filters, "filters")
        self.groups = validation.positive_integer(groups, "groups")
        validation.channel_groups(self.groups, filters=self.filters)

    def build(self, input_shape: Shape) -> None:
        channels, _ = self._split_shape(input_shape)
        validation.channel_groups(self.groups, channels=channels)
        super().build(input_shape)

    def get_config(self) -> Config:
        return {**super().get_config(), "filters": self.filters, "groups": self.groups}

    def _kernel_shape(self, channels):
        return (*self.kernel_size, channels // self.groups, self.filters)
