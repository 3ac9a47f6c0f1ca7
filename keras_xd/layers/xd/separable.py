"""XD-operations in place of depthwise-separable convolutions."""

import math
from typing import Unpack

import keras
from keras import activations, constraints, initializers, regularizers

from keras_xd.core import validation
from keras_xd.core.searchable import SearchableLayer
from keras_xd.core.type_aliases import (
    Activation,
    BaseOptions,
    Config,
    Constraint,
    Depth,
    Description,
    Initializer,
    Radix,
    Regularizer,
    Shape,
    Sizes,
    Tensor,
)
from keras_xd.layers.xd import finalized_sizes, warm_starts
from keras_xd.layers.xd.conv import XDConv
from keras_xd.layers.xd.depthwise import XDDepthwiseConv
from keras_xd.layers.xd.sliding import SlidingXDOptions

POINTWISE = {1: keras.layers.Conv1D, 2: keras.layers.Conv2D, 3: keras.layers.Conv3D}
# The arguments that are those of the depthwise layer inside, under the same names.
DEPTHWISE_ARGUMENTS = (
    *("rank", "kernel_size", "window_size", "strides", "padding", "dilation_rate"),
    *("depth_multiplier", "data_format", "depth", "radix", "warm_start", "seed"),
    *("frequency_bias", "channel_gates", "architecture_regularizer"),
)


@keras.saving.register_keras_serializable(package="keras_xd")
class XDSeparableConv(SearchableLayer):
    """N-D XD-operation in place of a depthwise-separable convolution.

    The composition of an `XDDepthwiseConv` and a pointwise operation, a convolution of kernel size
    1 that mixes the channels; with `search_pointwise=True` that one is an `XDConv` too:

        z[m j + q] = Re( K · diag(L w[j, q]) · M · x_j ),   y_i = Σ_c v[c, i] · z_c

    With `warm_start="convolution"` it is a drop-in for the separable Keras convolution of the same
    arguments. Use `XDSeparableConv1D` or `XDSeparableConv2D` for a fixed rank.

    Args:
        rank: number of spatial axes, 1, 2 or 3.
        filters: number of output channels.
        kernel_size: integer or tuple of `rank` integers, size of the depthwise kernel.
        strides: integer or tuple; every `strides`-th output is kept.
        padding: `"valid"`, `"same"` or `"circular"`, as in `XDConv`.
        data_format: `"channels_last"`, `"channels_first"` or `None` for Keras' default.
        dilation_rate: integer or tuple; cannot be combined with `strides > 1`.
        depth_multiplier: number of depthwise kernels for each channel.
        activation: activation function, or `None`.
        use_bias: whether a bias is added to the outputs.
        depthwise_initializer, pointwise_initializer, bias_initializer: initializers of the weights.
        depthwise_regularizer, pointwise_regularizer, bias_regularizer, activity_regularizer:
            optional regularizers.
        depthwise_constraint, pointwise_constraint, bias_constraint: optional constraints.
        search_pointwise: whether the pointwise operation is searched too.
        window_size: as in `XDConv`, of the depthwise operation.
        depth, radix, warm_start, frequency_bias, channel_gates, architecture_regularizer, seed: as
            in `XDConv`. The start is that of the depthwise operation.

    Call arguments:
        inputs: tensor of `rank + 2` axes. The spatial sizes must be known when the layer is built;
            the batch size may be dynamic.

    Input shape:
        `(batch, *spatial, channels)`, or `(batch, channels, *spatial)` for "channels_first".

    Output shape:
        `(batch, *new_spatial, filters)` or `(batch, filters, *new_spatial)`, as in Keras.

    Raises:
        ValueError: as `XDConv`.

    Example:

    >>> import keras, numpy as np
    >>> from keras_xd import layers
    >>> images = np.random.default_rng(0).normal(size=(2, 9, 9, 3)).astype("float32")
    >>> convolution = keras.layers.SeparableConv2D(4, 3, padding="same")
    >>> expected = convolution(images)
    >>> operation = layers.XDSeparableConv(2, 4, 3, padding="same", search_pointwise=True)
    >>> operation(images).shape
    TensorShape([2, 9, 9, 4])
    >>> _ = operation.depthwise_kernel.assign(convolution.depthwise_kernel)
    >>> _ = operation.pointwise_kernel.assign(convolution.pointwise_kernel)
    >>> bool(np.allclose(operation(images), expected, atol=1e-5))
    True

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, appendix A.
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
        depth_multiplier: int = 1,
        activation: Activation = None,
        use_bias: bool = True,
        depthwise_initializer: Initializer = "glorot_uniform",
        pointwise_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        depthwise_regularizer: Regularizer = None,
        pointwise_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        activity_regularizer: Regularizer = None,
        depthwise_constraint: Constraint = None,
        pointwise_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        *,
        search_pointwise: bool = False,
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
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.filters = validation.positive_integer(filters, "filters")
        self.search_pointwise = validation.boolean(search_pointwise, "search_pointwise")
        self.depthwise = XDDepthwiseConv(
            rank,
            kernel_size,
            strides,
            padding,
            depth_multiplier,
            data_format,
            dilation_rate,
            use_bias=False,
            depthwise_initializer=depthwise_initializer,
            depthwise_regularizer=depthwise_regularizer,
            depthwise_constraint=depthwise_constraint,
            window_size=window_size,
            depth=depth,
            radix=radix,
            warm_start=warm_start,
            frequency_bias=frequency_bias,
            channel_gates=channel_gates,
            architecture_regularizer=architecture_regularizer,
            seed=seed,
            name="depthwise",
            dtype=self.dtype_policy,
        )
        pointwise = {
            "data_format": self.depthwise.data_format,
            "activation": activation,
            "use_bias": use_bias,
            "kernel_initializer": pointwise_initializer,
            "kernel_regularizer": pointwise_regularizer,
            "kernel_constraint": pointwise_constraint,
            "bias_initializer": bias_initializer,
            "bias_regularizer": bias_regularizer,
            "bias_constraint": bias_constraint,
            "name": "pointwise",
            "dtype": self.dtype_policy,
        }
        if self.search_pointwise:
            search = {"depth": depth, "architecture_regularizer": architecture_regularizer}
            # The depthwise outputs may have other sizes than given radices multiply to.
            search["radix"] = radix if validation.is_integer(radix) else None
            self.pointwise = XDConv(rank, filters, 1, padding="circular", **pointwise, **search)
        else:
            self.pointwise = POINTWISE[rank](filters, 1, **pointwise)
        for name in DEPTHWISE_ARGUMENTS:
            setattr(self, name, getattr(self.depthwise, name))
        self.activation = activations.get(activation)
        self.use_bias = validation.boolean(use_bias, "use_bias")
        self.depthwise_initializer = initializers.get(depthwise_initializer)
        self.pointwise_initializer = initializers.get(pointwise_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.depthwise_regularizer = regularizers.get(depthwise_regularizer)
        self.pointwise_regularizer = regularizers.get(pointwise_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.depthwise_constraint = constraints.get(depthwise_constraint)
        self.pointwise_constraint = constraints.get(pointwise_constraint)
        self.bias_constraint = constraints.get(bias_constraint)

    def build(self, input_shape: Shape) -> None:
        self.depthwise.build(input_shape)
        self.pointwise.build(self.depthwise.compute_output_shape(input_shape))
        self.input_spec = self.depthwise.input_spec

    @property
    def depthwise_kernel(self) -> keras.Variable:
        """The kernel of the depthwise operation, `(*kernel_size, channels, depth_multiplier)`."""
        return self.depthwise.kernel

    @property
    def pointwise_kernel(self) -> keras.Variable:
        """The kernel of the pointwise operation, `(1, …, channels · depth_multiplier, filters)`."""
        return self.pointwise.kernel

    @property
    def bias(self) -> keras.Variable | None:
        """The bias, or `None`."""
        return self.pointwise.bias

    @property
    def architecture_variables(self) -> list[keras.Variable]:
        """Those of the depthwise operation, then those of the pointwise one if it is searched."""
        variables = list(self.depthwise.architecture_variables)
        return variables + (self.pointwise.architecture_variables if self.search_pointwise else [])

    def call(self, inputs: Tensor) -> Tensor:
        return self.pointwise(self.depthwise(inputs))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return self.pointwise.compute_output_shape(self.depthwise.compute_output_shape(input_shape))

    def complexity(self, input_shape: Shape) -> float | Tensor:
        """Multiply–adds of one sample, as in `XDConv`."""
        between = self.depthwise.compute_output_shape(input_shape)
        total = self.depthwise.complexity(input_shape)
        if self.search_pointwise:
            return total + self.pointwise.complexity(between)
        return total + math.prod(between[1:]) * self.filters

    def forecast(self, input_shape: Shape) -> dict[str, int]:
        """Return the sizes the layer will have on inputs of a shape, as `XDConv.forecast`."""
        first = self.depthwise.forecast(input_shape)
        between = self.depthwise.compute_output_shape(input_shape)
        if self.search_pointwise:
            second = self.pointwise.forecast(between)
        else:
            channels = between[-1 if self.data_format == "channels_last" else 1]
            second = {
                "parameters": channels * self.filters + self.filters * bool(self.use_bias),
                "multiply_adds": math.prod(between[1:]) * self.filters,
            }
        return {name: value + second.get(name, 0) for name, value in first.items()}

    def finalized_sizes(self, input_shape: Shape, keep: str = "spectrum") -> finalized_sizes.Sizes:
        """Return the sizes of what `finalize` makes, as `XDConv.finalized_sizes`.

        The form is `"kernel"` if that of the depthwise operation is.
        """
        first = self.depthwise.finalized_sizes(input_shape, keep)
        between = self.depthwise.compute_output_shape(input_shape)
        if self.search_pointwise:
            second = self.pointwise.finalized_sizes(between, keep)
        else:
            channels = between[-1 if self.data_format == "channels_last" else 1]
            weights = channels * self.filters + self.filters * bool(self.use_bias)
            count = math.prod(between[1:]) * self.filters
            second = finalized_sizes.Sizes(first.keep, weights, count, 0)
        return finalized_sizes.Sizes(
            first.keep,
            first.parameters + second.parameters,
            first.multiply_adds + second.multiply_adds,
            first.forming + second.forming,
        )

    def finalize(
        self,
        keep: str = "spectrum",
        storage: str | None = None,
        tolerance: float | None = None,
    ) -> keras.layers.Layer:
        """Return the static depthwise layer and the pointwise one, one after the other.

        The arguments are those of `XDConv.finalize`, for each operation that is searched.
        """
        if self.search_pointwise:
            pointwise = self.pointwise.finalize(keep, storage, tolerance)
        else:
            pointwise = type(self.pointwise).from_config(self.pointwise.get_config())
            pointwise.build(self.pointwise.get_build_config()["input_shape"])
            pointwise.set_weights(self.pointwise.get_weights())
        pointwise.activity_regularizer = self.activity_regularizer
        shape = self.get_build_config()["input_shape"]
        # An input of a shorter type than the layers' would round what it is given.
        dtype = "float64" if self.compute_dtype == "float64" else None
        depthwise = self.depthwise.finalize(keep, storage, tolerance)
        stack = [keras.Input(shape[1:], dtype=dtype), depthwise, pointwise]
        return keras.Sequential(stack, name=self.name)

    def describe(self) -> Description:
        """Return what describes both operations, `depthwise/…` and `pointwise/…`."""
        parts = {"depthwise": self.depthwise}
        if self.search_pointwise:
            parts["pointwise"] = self.pointwise
        return {
            f"{p}/{key}": v for p, layer in parts.items() for key, v in layer.describe().items()
        }

    def get_config(self) -> Config:
        depthwise = self.depthwise.get_config()
        own = ("depthwise_initializer", "depthwise_regularizer", "depthwise_constraint")
        return {
            **super().get_config(),
            **{name: depthwise[name] for name in (*DEPTHWISE_ARGUMENTS, *own)},
            "filters": self.filters,
            "search_pointwise": self.search_pointwise,
            "activation": activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "pointwise_initializer": initializers.serialize(self.pointwise_initializer),
            "pointwise_regularizer": regularizers.serialize(self.pointwise_regularizer),
            "pointwise_constraint": constraints.serialize(self.pointwise_constraint),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "bias_regularizer": regularizers.serialize(self.bias_regularizer),
            "bias_constraint": constraints.serialize(self.bias_constraint),
            "activity_regularizer": regularizers.serialize(self.activity_regularizer),
        }


class XDSeparableOptions(SlidingXDOptions, total=False):
    """Keyword arguments of the layers, beyond those of Keras' separable convolutions."""

    search_pointwise: bool


class _RankedXDSeparableConv(XDSeparableConv):
    """An `XDSeparableConv` whose rank is that of the class."""

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        depth_multiplier: int = 1,
        activation: Activation = None,
        use_bias: bool = True,
        depthwise_initializer: Initializer = "glorot_uniform",
        pointwise_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        depthwise_regularizer: Regularizer = None,
        pointwise_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        activity_regularizer: Regularizer = None,
        depthwise_constraint: Constraint = None,
        pointwise_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        **kwargs: Unpack[XDSeparableOptions],
    ):
        super().__init__(
            self.fixed_rank,
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            dilation_rate,
            depth_multiplier,
            activation,
            use_bias,
            depthwise_initializer,
            pointwise_initializer,
            bias_initializer,
            depthwise_regularizer,
            pointwise_regularizer,
            bias_regularizer,
            activity_regularizer,
            depthwise_constraint,
            pointwise_constraint,
            bias_constraint,
            **kwargs,
        )

    def get_config(self) -> Config:
        config = super().get_config()
        del config["rank"]
        return config


@keras.saving.register_keras_serializable(package="keras_xd")
class XDSeparableConv1D(_RankedXDSeparableConv):
    """XD-operation on sequences, a drop-in for `keras.layers.SeparableConv1D`.

    Takes every argument of it with the same meaning, and the keyword arguments of
    `XDSeparableConv`, which has the definitions.

    Input shape:
        `(batch, steps, channels)`, or `(batch, channels, steps)` for "channels_first".

    Output shape:
        `(batch, new_steps, filters)` or `(batch, filters, new_steps)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.XDSeparableConv1D(8, 5)(np.ones((2, 100, 3))).shape
    TensorShape([2, 96, 8])

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, appendix A.
    """

    fixed_rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class XDSeparableConv2D(_RankedXDSeparableConv):
    """XD-operation on images, a drop-in for `keras.layers.SeparableConv2D`.

    Takes every argument of it with the same meaning, and the keyword arguments of
    `XDSeparableConv`, which has the definitions.

    Input shape:
        `(batch, height, width, channels)`, or `(batch, channels, height, width)` for
        "channels_first".

    Output shape:
        `(batch, new_height, new_width, filters)` or `(batch, filters, new_height, new_width)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layers.XDSeparableConv2D(8, 3, strides=2, padding="same")(np.ones((2, 8, 8, 3))).shape
    TensorShape([2, 4, 4, 8])

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, appendix A.
    """

    fixed_rank = 2
