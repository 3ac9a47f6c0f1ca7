"""XD-operations in place of transposed convolutions."""

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
    Sizes,
)
from keras_xd.layers.xd import axis_layout, warm_starts
from keras_xd.layers.xd.axis_layout import check_strides
from keras_xd.layers.xd.base import XDLayer, XDOptions


@keras.saving.register_keras_serializable(package="keras_xd")
class XDConvTranspose(XDLayer):
    """N-D XD-operation in place of a transposed convolution, of any stride and padding.

    The operation of `XDConv` on inputs that stand `strides` apart on the axis of the outputs:

        y_i = Σ_j C[i, j] · Re( K · diag(L w[i, j] + b) · M · u_j ),   u_j[stride · s] = x_j[s]

    With `warm_start="convolution"` it is a drop-in for the transposed Keras convolution of the same
    arguments. `M` has only the columns of the inputs, so the zeros between them cost nothing.
    Use `XDConv1DTranspose`, `XDConv2DTranspose` or `XDConv3DTranspose` for a fixed rank.

    Args:
        rank: number of spatial axes, 1, 2 or 3.
        filters: number of output channels.
        kernel_size: integer or tuple of `rank` integers, size of the kernel.
        strides: integer or tuple; an input spreads to outputs this far apart.
        padding: `"valid"` or `"same"`, as in Keras, or `"circular"`: as "same", but what would be
            cut off at one end is added at the other.
        output_padding: integer or tuple, or `None` for Keras' output size; see Keras.
        data_format: `"channels_last"`, `"channels_first"` or `None` for Keras' default.
        dilation_rate: integer or tuple; cannot be combined with `strides > 1`.
        activation: activation function, or `None`.
        use_bias: whether a bias is added to the outputs.
        kernel_initializer, bias_initializer: initializers of the model weights.
        kernel_regularizer, bias_regularizer, activity_regularizer: optional regularizers.
        kernel_constraint, bias_constraint: optional constraints.
        depth, radix, frequency_bias, channel_gates, architecture_regularizer, seed: as in `XDConv`.
        warm_start: `"convolution"` (the transposed one), `"zero"`, `"random_unitary"`, or an object
            of `keras_xd.layers.warm_starts` made of these.

    Call arguments:
        inputs: tensor of `rank + 2` axes. The spatial sizes must be known when the layer is built;
            the batch size may be dynamic.

    Input shape:
        `(batch, *spatial, channels)`, or `(batch, channels, *spatial)` for "channels_first".

    Output shape:
        `(batch, *new_spatial, filters)` or `(batch, filters, *new_spatial)`, as in Keras.

    Raises:
        ValueError: for arguments outside these rules, unknown spatial sizes, or radices that do not
            multiply to a size that fits.

    Example:

    >>> import keras, numpy as np
    >>> from keras_xd import layers
    >>> images = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype("float32")
    >>> convolution = keras.layers.Conv2DTranspose(4, 5, strides=2, padding="same")
    >>> expected = convolution(images)
    >>> operation = layers.XDConvTranspose(2, 4, 5, strides=2, padding="same", depth=3)
    >>> operation(images).shape
    TensorShape([2, 16, 16, 4])
    >>> _ = operation.kernel.assign(convolution.kernel)
    >>> bool(np.allclose(operation(images), expected, atol=1e-5))
    True

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, appendix A.
    """

    kernel_is_grouped = False

    def __init__(
        self,
        rank: int,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: str = "valid",
        output_padding: Sizes | None = None,
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
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
            data_format=data_format,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
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
        self.groups = 1
        self.kernel_size = validation.integer_tuple(kernel_size, rank, "kernel_size")
        self.strides = validation.integer_tuple(strides, rank, "strides")
        padding = padding.lower() if isinstance(padding, str) else padding
        self.padding = validation.one_of(padding, ("valid", "same", "circular"), "padding")
        self.output_padding = _output_padding(output_padding, rank, self.strides, self.padding)
        self.dilation_rate = validation.integer_tuple(dilation_rate, rank, "dilation_rate")
        check_strides(self.strides, self.dilation_rate)
        if not self.warm_start.is_transposable:
            raise ValueError(
                "A transposed XD-operation starts as 'convolution', 'zero' or 'random_unitary'. "
                f"Received: warm_start={warm_start!r}"
            )

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "filters": self.filters,
            "kernel_size": self.kernel_size,
            "strides": self.strides,
            "padding": self.padding,
            "output_padding": self.output_padding,
            "dilation_rate": self.dilation_rate,
        }

    def _kernel_shape(self, channels):
        return (*self.kernel_size, self.filters, channels)

    def _grouped_kernel(self):
        return keras.ops.swapaxes(keras.ops.convert_to_tensor(self.kernel), -1, -2)

    def _axis_geometries(self, sizes):
        output_padding = self.output_padding or (None,) * self.rank
        return tuple(
            axis_layout.transposed_axis_geometry(
                size, kernel, stride, dilation, self.padding, extra, radix
            )
            for size, kernel, stride, dilation, extra, radix in zip(
                sizes,
                self.kernel_size,
                self.strides,
                self.dilation_rate,
                output_padding,
                self.axis_radices,
                strict=True,
            )
        )


class _RankedXDConvTranspose(XDConvTranspose):
    """An `XDConvTranspose` whose rank is that of the class."""

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: str = "valid",
        output_padding: Sizes | None = None,
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        activation: Activation = None,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        kernel_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        activity_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        **kwargs: Unpack[XDOptions],
    ):
        super().__init__(
            self.fixed_rank,
            filters,
            kernel_size,
            strides,
            padding,
            output_padding,
            data_format,
            dilation_rate,
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
class XDConv1DTranspose(_RankedXDConvTranspose):
    """XD-operation on sequences, a drop-in for `keras.layers.Conv1DTranspose`.

    Takes every argument of it with the same meaning, and the keyword arguments of
    `XDConvTranspose`, which has the definitions.

    Input shape:
        `(batch, steps, channels)`, or `(batch, channels, steps)` for "channels_first".

    Output shape:
        `(batch, new_steps, filters)` or `(batch, filters, new_steps)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.XDConv1DTranspose(8, 4, strides=2, padding="same")(np.ones((2, 50, 3))).shape
    TensorShape([2, 100, 8])

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, appendix A.
    """

    fixed_rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class XDConv2DTranspose(_RankedXDConvTranspose):
    """XD-operation on images, a drop-in for `keras.layers.Conv2DTranspose`.

    Takes every argument of it with the same meaning, and the keyword arguments of
    `XDConvTranspose`, which has the definitions.

    Input shape:
        `(batch, height, width, channels)`, or `(batch, channels, height, width)` for
        "channels_first".

    Output shape:
        `(batch, new_height, new_width, filters)` or `(batch, filters, new_height, new_width)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.XDConv2DTranspose(8, 3, strides=2)(np.ones((2, 8, 8, 3))).shape
    TensorShape([2, 17, 17, 8])

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, appendix A.
    """

    fixed_rank = 2


@keras.saving.register_keras_serializable(package="keras_xd")
class XDConv3DTranspose(_RankedXDConvTranspose):
    """XD-operation on volumes, a drop-in for `keras.layers.Conv3DTranspose`.

    Takes every argument of it with the same meaning (`output_padding` and `data_format` by name),
    and the keyword arguments of `XDConvTranspose`, which has the definitions.

    Input shape:
        `(batch, depth, height, width, channels)`, or `(batch, channels, depth, height, width)` for
        "channels_first".

    Output shape:
        `(batch, *new_sizes, filters)` or `(batch, filters, *new_sizes)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.XDConv3DTranspose(4, 2, strides=2)(np.ones((1, 3, 4, 5, 2))).shape
    TensorShape([1, 6, 8, 10, 4])

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, appendix A.
    """

    fixed_rank = 3


def _output_padding(output_padding, rank, strides, padding):
    """Return `None` or a tuple of integers, each at least 0 and less than the stride."""
    if output_padding is None:
        return None
    single = validation.is_integer(output_padding)
    result = (output_padding,) * rank if single else output_padding
    fits = isinstance(result, (tuple, list)) and len(result) == rank
    if not fits or any(
        not validation.is_integer(extra) or not 0 <= extra < stride
        for extra, stride in zip(result, strides, strict=True)
    ):
        raise ValueError(
            "`output_padding` must be None or integers from 0 to less than the strides. "
            f"Received: output_padding={output_padding}, strides={strides}"
        )
    if padding == "circular":
        raise ValueError(
            "With padding='circular' the output has stride times the input's size: "
            f"`output_padding` must be None. Received: output_padding={output_padding}"
        )
    return tuple(int(extra) for extra in result)
