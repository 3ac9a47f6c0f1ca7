"""What is left of a residual block once its sizes are found."""

import keras
from keras import initializers, ops

from keras_xd import validation
from keras_xd.layers import shared_parts
from keras_xd.layers.batch_statistics import STATISTICS, BatchStatisticsNormalization
from keras_xd.layers.fourier_upsampling import FourierUpsampling
from keras_xd.layers.static_ck_conv import StaticCKConv


@keras.saving.register_keras_serializable(package="keras_xd")
class StaticCCNNBlock(keras.layers.Layer):
    """A residual block on the first channels of its inputs; the other channels pass it by.

    A `CCNNBlock` becomes one by `finalize()`. Its weights can be trained further.

    Args:
        widths: number of channels of the convolution, between the two linear layers, and of the
            second one's outputs.
        convolution: a `StaticCKConv` with `data_format="channels_last"`, not built. It is given
            the data types of the block.
        dropout: share of the entries that are set to zero in training.
        statistics: as in `BatchStatisticsNormalization`.

    Input shape:
        `(batch, *spatial, channels)`; all sizes but the batch's must be known.

    Output shape:
        That of the input.

    Raises:
        ValueError: for arguments outside these rules, and inputs of too few channels.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> searched = layers.CCNNBlock()
    >>> _ = searched(np.ones((2, 32, 10)))
    >>> searched.finalize().widths
    (5, 5, 5)
    """

    def __init__(self, widths, convolution, dropout=0.0, statistics="batch", **kwargs):
        super().__init__(**kwargs)
        self.widths = validation.integer_tuple(widths, 3, "widths")
        self.convolution = shared_parts.restored(convolution, StaticCKConv, "convolution")
        if self.convolution is None or self.convolution.data_format != "channels_last":
            raise ValueError(
                "`convolution` must be a StaticCKConv with data_format='channels_last'. "
                f"Received: convolution={convolution!r}"
            )
        self.convolution.dtype_policy = self.dtype_policy
        self.dropout = dropout
        self.statistics = validation.one_of(statistics, STATISTICS, "statistics")
        self.normalization = BatchStatisticsNormalization(
            statistics, name="normalization", dtype=self.dtype_policy
        )
        self.dropping = keras.layers.Dropout(dropout, name="dropping", dtype=self.dtype_policy)

    def build(self, input_shape):
        channels, sizes = input_shape[-1], tuple(input_shape[1:-1])
        first, middle, last = self.widths
        if channels is None or channels < max(first, last):
            raise ValueError(
                f"Layer '{self.name}' needs at least {max(first, last)} channels. "
                f"Received: input_shape={tuple(input_shape)}, widths={self.widths}"
            )
        axes = {axis: n for axis, n in enumerate(input_shape) if axis}
        self.input_spec = keras.layers.InputSpec(ndim=len(input_shape), axes=axes)
        inner = (None, *sizes, first)
        self.normalization.build(inner)
        self.convolution.build(inner)
        self.upsampling = FourierUpsampling(
            sizes, data_format="channels_last", name="upsampling", dtype=self.dtype_policy
        )
        self.linear = []
        for name, rows, columns in (("middle", first, middle), ("output", middle, last)):
            kernel = self.add_weight(
                name=f"{name}_kernel", shape=(rows, columns), initializer="he_uniform"
            )
            bias = self.add_weight(name=f"{name}_bias", shape=(columns,), initializer="zeros")
            self.linear.append((kernel, bias))
        self.scale = self.add_weight(
            name="scale", shape=(), initializer=initializers.Ones(), trainable=False
        )

    def call(self, inputs, training=None):
        first, _, last = self.widths
        x = self.normalization(inputs[..., :first], training=training)
        x = self.convolution(x)
        (middle_kernel, middle_bias), (output_kernel, output_bias) = self.linear
        x = ops.gelu(ops.matmul(x, middle_kernel) + middle_bias, approximate=False)
        x = self.dropping(x, training=training)
        x = ops.gelu(ops.matmul(x, output_kernel) + output_bias, approximate=False)
        return add_to_first(inputs, self.upsampling(x) * self.scale)

    def compute_output_shape(self, input_shape):
        return tuple(input_shape)

    def get_config(self):
        convolution = keras.saving.serialize_keras_object(self.convolution)
        convolution.pop("build_config", None)  # the block builds it
        return {
            **super().get_config(),
            "widths": self.widths,
            "convolution": convolution,
            "dropout": self.dropout,
            "statistics": self.statistics,
        }


def add_to_first(inputs, branch):
    """Return the inputs with a tensor of fewer channels added to the first of them."""
    missing = inputs.shape[-1] - branch.shape[-1]
    if missing:
        branch = ops.pad(branch, [(0, 0)] * (len(branch.shape) - 1) + [(0, missing)])
    return inputs + branch
