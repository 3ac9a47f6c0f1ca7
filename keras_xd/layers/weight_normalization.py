"""Weight normalization, which Keras does not have."""

from typing import Any

import keras
from keras import ops

from keras_xd.core.configured import config_with_functions
from keras_xd.core.convolutions import checked_arguments
from keras_xd.core.protocol import add_bounded_weight, refuse_lora
from keras_xd.core.searchable import flatten_layers
from keras_xd.core.type_aliases import Shape, Sizes, Tensor
from keras_xd.graph.replacing import LayerReplacer


@keras.saving.register_keras_serializable(package="keras_xd")
class WeightNormalizedConv1D(keras.layers.Conv1D):
    """A `keras.layers.Conv1D` whose filters have a direction and a length, trained apart.

    The kernel of filter `i` is `scale_i · v_i / ‖v_i‖`, with the norm over taps and input channels.
    `v` is what the initializer of the kernel draws, regularizer and constraint of the kernel act on
    it, and the scales begin as its norms, so that the layer begins as the convolution.

    `keras_xd.rewrite` and `keras_xd.finalize` put a plain `Conv1D` of the same kernel in its place:
    see docs/sequences.md.

    Args:
        filters, kernel_size, *args, **kwargs: as in `keras.layers.Conv1D`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.WeightNormalizedConv1D(8, 3, padding="causal")
    >>> layer(np.ones((2, 20, 4))).shape, [weight.name for weight in layer.weights]
    (TensorShape([2, 20, 8]), ['kernel', 'bias', 'scale'])

    Reference:
        Salimans and Kingma, "Weight Normalization", 2016.
    """

    rank = 1
    like = keras.layers.Conv1D
    add_weight = add_bounded_weight
    enable_lora = refuse_lora

    def __init__(self, filters: int, kernel_size: Sizes, *args: Any, **kwargs: Any):
        args = (filters, kernel_size, *args)
        super().__init__(**checked_arguments(self, args, kwargs, ("valid", "same", "causal")))

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        direction = super().kernel
        self.scale = self.add_weight(
            name="scale",
            shape=(self.filters,),
            initializer=lambda shape, dtype: ops.sqrt(ops.sum(ops.square(direction), (0, 1))),
        )

    @property
    def kernel(self) -> Tensor:
        """The kernel that the inputs are convolved with."""
        return ops.cast(self._normalized(super().kernel), self.compute_dtype)

    def plain(self) -> keras.layers.Conv1D:
        """Return a `Conv1D` of the same name that computes the same."""
        convolution = keras.layers.Conv1D(**config_with_functions(self))
        convolution.build(self.get_build_config()["input_shape"])
        convolution.kernel.assign(self._normalized(super().kernel))
        if self.use_bias:
            convolution.bias.assign(self.bias)
        return convolution

    # Keras' convolutions save their kernel and bias only.
    save_own_variables = keras.layers.Layer.save_own_variables
    load_own_variables = keras.layers.Layer.load_own_variables

    def _normalized(self, direction):
        """Return the kernel of a direction, in the type of the weights."""
        direction = ops.cast(direction, self.variable_dtype)
        return self.scale * ops.normalize(direction, axis=(0, 1), epsilon=1e-12)


def without_weight_normalization(model: keras.Model) -> keras.Model:
    """Return the model, or a copy of it with plain layers for those of normalized weights."""

    def normalized(layer):
        return isinstance(layer, WeightNormalizedConv1D)

    if not any(map(normalized, flatten_layers(model))):
        return model
    return LayerReplacer(normalized, WeightNormalizedConv1D.plain)(model)
