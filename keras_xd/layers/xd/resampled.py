"""Layers that are fixed to one grid, used on another one."""

from typing import Any, Self, Unpack

import keras
from keras import activations

from keras_xd.core import shapes, validation
from keras_xd.core.configured import ConfiguredLayer, built_like
from keras_xd.core.searchable import SearchableLayer, flatten_layers
from keras_xd.core.type_aliases import (
    Activation,
    Config,
    Description,
    LayerOptions,
    Shape,
    Sizes,
    Tensor,
)
from keras_xd.graph.cost import multiply_adds
from keras_xd.layers.fourier import resampling
from keras_xd.layers.xd import warm_starts
from keras_xd.layers.xd.base import XDLayer
from keras_xd.layers.xd.finalized import StaticXD
from keras_xd.layers.xd.finalized_low_rank import StaticLowRankXD


@keras.saving.register_keras_serializable(package="keras_xd")
class Resampled(ConfiguredLayer):
    """A layer of fixed spatial sizes in a model of other sizes: `y = activation(U · layer(D · x))`.

    `D` resamples the inputs to the sizes of the layer, `U` its outputs to the sizes of the inputs,
    both along every axis as `FourierResampling` does. A linear layer thus acts on the frequencies
    that both grids hold, by the same factors on both, as a Fourier neural operator does; on a finer
    grid all others are zero. `SearchableResampled` holds layers that are searched.

    Args:
        layer: a layer whose output has the spatial sizes of its input, both periodic, such as an
            `XDConv2D` with `padding="circular"`, or a `StaticXD` made of one. It should have no
            activation of its own, which would act on the layer's grid.
        sizes: integer or tuple, the spatial sizes that the layer works at.
        activation: activation function of the output, or `None`.

    Output shape:
        That of the layer, with the spatial sizes of the input.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> inner = layers.XDConv1D(4, 3, padding="circular")
    >>> inner.build((None, 64, 2))
    >>> layers.Resampled(inner.finalize(), 64)(np.ones((1, 128, 2))).shape
    TensorShape([1, 128, 4])
    """

    def __init__(
        self,
        layer: keras.layers.Layer,
        sizes: Sizes,
        activation: Activation = None,
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**kwargs)
        if isinstance(layer, dict):
            layer = keras.saving.deserialize_keras_object(layer)
        if not isinstance(layer, keras.layers.Layer):
            raise ValueError(f"`layer` must be a Keras layer. Received: layer={layer!r}")
        if isinstance(layer, SearchableLayer) != isinstance(self, SearchableLayer):
            raise ValueError(
                "A layer that is searched needs a SearchableResampled, any other one a Resampled. "
                f"Received: {type(layer).__name__} '{layer.name}' for a {type(self).__name__}"
            )
        self.layer = layer
        sizes = (sizes,) if validation.is_integer(sizes) else sizes
        self.sizes = validation.integer_tuple(sizes, len(sizes), "sizes")
        self.activation = activations.get(activation)

    @property
    def data_format(self) -> str:
        """That of the layer."""
        return getattr(self.layer, "data_format", "channels_last")

    @property
    def shared_parts(self) -> dict[str, Any]:
        """What the layer shares with others, such as a `KOperation`, by the argument's name."""
        return getattr(self.layer, "shared_parts", {})

    def build(self, input_shape: Shape) -> None:
        channels, outer = self._split_shape(input_shape)
        inner_shape = self._inner_shape(input_shape)
        if not self.layer.built:
            self.layer.build(inner_shape)
        outputs = self.layer.compute_output_shape(inner_shape)
        same = self._split_shape(outputs)[1] == self.sizes
        if outer != self.sizes and not (same and is_periodic(self.layer)):
            raise ValueError(
                "Only an operation on a circle, with as many outputs as inputs, can be resampled "
                "to another size: padding='circular' and strides=1. Received: layer "
                f"'{self.layer.name}', which maps sizes {self.sizes} to shape {tuple(outputs)}, "
                f"at sizes {outer}"
            )
        self._down = resampling.resampling_matrices(outer, self.sizes)
        self._up = resampling.resampling_matrices(self.sizes, outer)
        self.input_spec = shapes.input_spec(outer, channels, self.data_format)

    def call(self, inputs: Tensor) -> Tensor:
        x = resampling.resample(inputs, self._down, self.data_format)
        x = keras.ops.cast(self.layer(x), self.compute_dtype)
        return self.activation(resampling.resample(x, self._up, self.data_format))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        _, outer = self._split_shape(input_shape)
        outputs = self.layer.compute_output_shape(self._inner_shape(input_shape))
        filters, _ = self._split_shape(outputs)
        return shapes.joined_shape(outputs[0], outer, filters, self.data_format)

    def multiply_adds(self, input_shape: Shape) -> int | None:
        """Return the multiply–adds of one sample: the layer's and those of the resampling."""
        inner = self._inner_shape(input_shape)
        count = multiply_adds(self.layer, inner)
        return None if count is None else count + self._resampling(input_shape)

    def get_config(self) -> Config:
        layer = keras.saving.serialize_keras_object(self.layer)
        if self.built:
            layer.pop("build_config", None)  # the layer is built here, at `sizes`
        return {**super().get_config(), "layer": layer}

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Make the layer again; keys beside the arguments are shared parts of the layer inside."""
        config = dict(config)
        own = {"name", "trainable", "dtype", "layer", "sizes", "activation"}
        parts = {name: config.pop(name) for name in list(config) if name not in own}
        if parts:
            inner = config["layer"]
            config["layer"] = {**inner, "config": {**inner["config"], **parts}}
        return super().from_config(config)

    def _resampling(self, input_shape):
        """Return the multiply–adds of resampling the inputs and the outputs of the layer."""
        channels, outer = self._split_shape(input_shape)
        outputs = self.layer.compute_output_shape(self._inner_shape(input_shape))
        down = resampling.multiply_adds(outer, self.sizes, channels)
        return down + resampling.multiply_adds(self.sizes, outer, self._split_shape(outputs)[0])

    def _inner_shape(self, input_shape):
        channels, _ = self._split_shape(input_shape)
        return shapes.joined_shape(input_shape[0], self.sizes, channels, self.data_format)

    def _split_shape(self, shape):
        return shapes.split_shape(shape, len(self.sizes), self.data_format, self.name)


@keras.saving.register_keras_serializable(package="keras_xd")
class SearchableResampled(Resampled, SearchableLayer):
    """A searched layer in a model of other sizes: see `Resampled`.

    The architecture is the layer's, at the layer's own sizes: its K-matrices keep their stages, and
    training on the other grid trains the same weights.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> inner = layers.XDConv2D(4, 3, padding="circular")
    >>> layer = layers.SearchableResampled(inner, (43, 43), activation="relu")
    >>> layer(np.ones((1, 85, 85, 2))).shape, layer.finalize().name == layer.name
    (TensorShape([1, 85, 85, 4]), True)
    """

    @property
    def architecture_variables(self) -> list[keras.Variable]:
        """Those of the layer."""
        return self.layer.architecture_variables

    def complexity(self, input_shape: Shape) -> float | Tensor:
        """Multiply–adds of one sample: the layer's and those of the resampling."""
        return self.layer.complexity(self._inner_shape(input_shape)) + self._resampling(input_shape)

    def finalize(
        self,
        form: str = "spectrum",
        weight_dtype: str | None = None,
        tolerance: float | None = None,
    ) -> keras.layers.Layer:
        """Return a built `Resampled` layer around the finalized layer.

        The arguments are those of `XDConv2D.finalize`.
        """
        return built_like(
            self,
            Resampled,
            self.layer.finalize(form, weight_dtype, tolerance),
            self.sizes,
            activation=self.activation,
            activity_regularizer=self.activity_regularizer,
        )

    def describe(self) -> Description:
        """Return what the layer has become."""
        return self.layer.describe()


def is_periodic(layer):
    """Return whether all operations in a layer act on a circle of the size of inputs and
    outputs.
    """
    return all(_is_circle(inner) for inner in flatten_layers(layer))


def _is_circle(layer):
    if isinstance(layer, XDLayer):
        start = layer.warm_start
        while hasattr(start, "start"):
            start = start.start
        if isinstance(start, warm_starts.GraphConvolution):
            return False  # neighbours in a graph are no neighbours on a grid
        return all(g.is_circle for g in layer.geometry)
    if isinstance(layer, StaticXD):
        return all(
            a["n"] <= a["size"] == a["output_size"] and a["stride"] == a["input_stride"] == 1
            for a in layer.axes
        )
    return layer.periodic if isinstance(layer, StaticLowRankXD) else True
