"""XD-operations in place of depthwise-separable convolutions."""

import inspect
import math
from typing import Any, Self, Unpack

import keras

from keras_xd.core import convolutions, validation
from keras_xd.core.configured import ClassSignature, ConfiguredLayer, joined_signature
from keras_xd.core.convolutions import ConvolutionOfAnyRank, RankArgument
from keras_xd.core.searchable import NEUTRAL, SearchableLayer
from keras_xd.core.type_aliases import (
    Config,
    Constraint,
    Description,
    Initializer,
    Regularizer,
    Shape,
    Sizes,
    Tensor,
)
from keras_xd.layers.xd import finalized_sizes
from keras_xd.layers.xd.conv import XDConv
from keras_xd.layers.xd.depthwise import DepthwiseXDLayer, XDDepthwiseConv, XDDepthwiseOptions

POINTWISE = {1: keras.layers.Conv1D, 2: keras.layers.Conv2D, 3: keras.layers.Conv3D}
# The options that are those of the depthwise layer inside, under the same names.
SEARCH = tuple(
    name
    for name, parameter in inspect.signature(DepthwiseXDLayer).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
)
# The other arguments that are its own.
DEPTHWISE = (
    *("kernel_size", "strides", "padding", "depth_multiplier", "data_format", "dilation_rate"),
    *("depthwise_initializer", "depthwise_regularizer", "depthwise_constraint"),
)


class XDSeparableOptions(XDDepthwiseOptions, total=False):
    """Those of an `XDDepthwiseConv`, and of the pointwise kernel."""

    pointwise_initializer: Initializer
    pointwise_regularizer: Regularizer
    pointwise_constraint: Constraint


def _with_search(kind):
    """Return the signature of a constructor with the arguments of `DepthwiseXDLayer`'s search."""
    found = dict(joined_signature(kind).parameters)
    found |= {name: inspect.signature(DepthwiseXDLayer).parameters[name] for name in SEARCH}
    return inspect.Signature(sorted(found.values(), key=lambda p: p.kind))


class SeparableXDLayer(ConfiguredLayer, SearchableLayer):
    """Base class of `XDSeparableConv` of every rank."""

    like = keras.layers.SeparableConv1D
    __signature__ = ClassSignature(_with_search)

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        *args: Any,
        search_pointwise: bool = False,
        **kwargs: Unpack[XDSeparableOptions],
    ):
        options: dict[str, Any] = dict(kwargs)
        search = {name: options.pop(name) for name in SEARCH if name in options}
        arguments = convolutions.checked_arguments(
            self, (filters, kernel_size, *args), options, ("valid", "same", "circular")
        )
        super().__init__(**convolutions.known_to_keras(arguments))
        self.padding, self.dilation_rate = arguments["padding"], arguments["dilation_rate"]
        self.search_pointwise = validation.boolean(search_pointwise, "search_pointwise")
        own = {name: getattr(self, name) for name in DEPTHWISE}
        self.depthwise = XDDepthwiseConv(
            self.rank, **own, use_bias=False, name="depthwise", dtype=self.dtype_policy, **search
        )
        for name in SEARCH:
            setattr(self, name, getattr(self.depthwise, name))
        pointwise = {
            "dtype": self.dtype_policy,
            **{name: getattr(self, name) for name in ("data_format", "activation", "use_bias")},
            **{
                f"{target}_{kind}": getattr(self, f"{source}_{kind}")
                for target, source in (("kernel", "pointwise"), ("bias", "bias"))
                for kind in ("initializer", "regularizer", "constraint")
            },
            "name": "pointwise",
        }
        if self.search_pointwise:
            pointwise["depth"] = self.depth
            pointwise["architecture_regularizer"] = self.architecture_regularizer
            # The depthwise outputs may have other sizes than given radices multiply to.
            pointwise["radix"] = self.radix if validation.is_integer(self.radix) else None
            # Neither b nor C: those of the depthwise operation before it do as much.
            pointwise |= {"frequency_bias": False, "channel_gates": False, "padding": "circular"}
            self.pointwise = XDConv(self.rank, self.filters, 1, **pointwise)
        else:
            self.pointwise = POINTWISE[self.rank](self.filters, 1, **pointwise)

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
        """Multiply–adds of one sample, as in `XDConv2D`."""
        between = self.depthwise.compute_output_shape(input_shape)
        total = self.depthwise.complexity(input_shape)
        if self.search_pointwise:
            return total + self.pointwise.complexity(between)
        return total + math.prod(between[1:]) * self.filters

    def forecast(self, input_shape: Shape) -> dict[str, int]:
        """Return the sizes the layer will have on inputs of a shape, as `XDConv2D.forecast`."""
        first = self.depthwise.forecast(input_shape)
        between = self.depthwise.compute_output_shape(input_shape)
        if self.search_pointwise:
            second = self.pointwise.forecast(between)
        else:
            sizes = self._pointwise_sizes(between)
            second = {"parameters": sizes.parameters, "multiply_adds": sizes.multiply_adds}
        return {name: value + second.get(name, 0) for name, value in first.items()}

    def finalized_sizes(self, input_shape: Shape, form: str = "spectrum") -> finalized_sizes.Sizes:
        """Return the sizes of what `finalize` makes, as `XDConv2D.finalized_sizes`."""
        first = self.depthwise.finalized_sizes(input_shape, form)
        between = self.depthwise.compute_output_shape(input_shape)
        if self.search_pointwise:
            second = self.pointwise.finalized_sizes(between, form)
        else:
            second = self._pointwise_sizes(between)
        return finalized_sizes.Sizes(
            first.form,
            first.parameters + second.parameters,
            first.multiply_adds + second.multiply_adds,
            first.forming + second.forming,
        )

    def finalize(
        self,
        form: str = "spectrum",
        weight_dtype: str | None = None,
        tolerance: float | None = None,
    ) -> keras.layers.Layer:
        """Return the static depthwise layer and the pointwise one, one after the other."""
        if self.search_pointwise:
            pointwise = self.pointwise.finalize(form, weight_dtype, tolerance)
        else:
            pointwise = type(self.pointwise).from_config(self.pointwise.get_config())
            pointwise.build(self.pointwise.get_build_config()["input_shape"])
            pointwise.set_weights(self.pointwise.get_weights())
        pointwise.activity_regularizer = self.activity_regularizer
        shape = self.get_build_config()["input_shape"]
        # An input of a shorter type than the layers' would round what it is given.
        dtype = "float64" if self.compute_dtype == "float64" else None
        depthwise = self.depthwise.finalize(form, weight_dtype, tolerance)
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

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Make the layer again; a configuration that does not name `b` or `C` is of none."""
        return super().from_config({**dict.fromkeys(NEUTRAL), **config})

    def _pointwise_sizes(self, input_shape):
        """Return the sizes of a pointwise convolution that is not searched."""
        channels = input_shape[-1 if self.data_format == "channels_last" else 1]
        weights = channels * self.filters + self.filters * bool(self.use_bias)
        count = math.prod(input_shape[1:]) * self.filters
        return finalized_sizes.Sizes("spectrum", weights, count, 0)

    def get_config(self) -> Config:
        search = self.depthwise.get_config()
        return {**super().get_config(), **{name: search[name] for name in SEARCH}}


@keras.saving.register_keras_serializable(package="keras_xd")
class XDSeparableConv(RankArgument, SeparableXDLayer, ConvolutionOfAnyRank):
    """As `XDSeparableConv2D`, of any `rank`."""


@keras.saving.register_keras_serializable(package="keras_xd")
class XDSeparableConv1D(SeparableXDLayer, keras.layers.SeparableConv1D):
    """As `XDSeparableConv2D`, over one spatial axis."""

    rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class XDSeparableConv2D(SeparableXDLayer, keras.layers.SeparableConv2D):
    """XD-operation in place of a depthwise-separable convolution.

    The composition of an `XDDepthwiseConv2D` and a pointwise operation, a convolution of kernel
    size 1 that mixes the channels; with `search_pointwise=True` that one is an `XDConv2D` without
    `b` and `C`:

        z[m j + q] = C[j, q] · Re( K · diag(L w[j, q] + b) · M · x_j ),   y_i = Σ_c v[c, i] · z_c

    With `warm_start="convolution"` it is a drop-in for the separable Keras convolution of the same
    arguments.

    Args:
        padding, dilation_rate: as in `XDConv2D`, without "causal".
        filters, kernel_size, *args: these and all others of a separable Keras convolution.
        search_pointwise: whether the pointwise operation is searched too.
        window_size: as in `XDConv2D`, of the depthwise operation.
        depth, radix, warm_start, frequency_bias, channel_gates, architecture_regularizer, seed,
            method: as in `XDConv2D`. Start and method are those of the depthwise operation.

    Example:

    >>> import keras, numpy as np
    >>> from keras_xd import layers
    >>> images = np.random.default_rng(0).normal(size=(2, 9, 9, 3)).astype("float32")
    >>> convolution = keras.layers.SeparableConv2D(4, 3, padding="same")
    >>> expected = convolution(images)
    >>> operation = layers.XDSeparableConv2D(
    ...     4, 3, padding="same", search_pointwise=True
    ... )
    >>> operation(images).shape
    TensorShape([2, 9, 9, 4])
    >>> _ = operation.depthwise_kernel.assign(convolution.depthwise_kernel)
    >>> _ = operation.pointwise_kernel.assign(convolution.pointwise_kernel)
    >>> bool(np.allclose(operation(images), expected, atol=1e-5))
    True

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, appendix A.
    """

    rank = 2
