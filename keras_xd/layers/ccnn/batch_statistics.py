"""Batch normalization by the statistics of the batch, in inference too."""

from typing import Any

import keras
from keras import ops

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.searchable import flatten_layers
from keras_xd.core.type_aliases import Tensor

STATISTICS = ("batch", "moving")


@keras.saving.register_keras_serializable(package="keras_xd")
class BatchStatisticsNormalization(ConfiguredLayer, keras.layers.BatchNormalization):
    """Keras' batch normalization, but in inference too by the statistics of the batch.

    Moving averages belong to the architectures that a search has passed through; while it changes
    they fit none of them. The averages are kept in training as in Keras, so that `use_statistics`
    can turn to them once the architecture stays as it is. With the statistics of the batch an
    output depends on the other samples in it.

    Args:
        statistics: what inference uses, `"batch"` or `"moving"`; the latter is Keras' layer.
        **kwargs: the arguments of `keras.layers.BatchNormalization`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.BatchStatisticsNormalization(epsilon=0.0)
    >>> layer(np.array([[1.0], [3.0]])).numpy().ravel()
    array([-1.,  1.], dtype=float32)

    Reference:
        Romero and Zeghidour, "DNArch", 2023, appendix E.1.
    """

    def __init__(self, statistics: str = "batch", **kwargs: Any):
        super().__init__(**kwargs)
        self.statistics = validation.one_of(statistics, STATISTICS, "statistics")
        if self.renorm:
            raise ValueError(
                "The statistics of a batch are not corrected. Received: renorm=True, "
                f"statistics={statistics!r}"
            )

    def uses_moving_statistics(self, training: bool | None) -> bool:
        """Return whether a call, in training or not, normalizes by the moving averages."""
        return self.statistics == "moving" and not (training and self.trainable)

    def scale_and_shift(self) -> tuple[Tensor, Tensor]:
        """Return two vectors of at least float32 by which moving averages normalize channels."""
        names = ("moving_mean", "moving_variance", "gamma", "beta")
        double = self.compute_dtype == "float64"
        mean, variance, gamma, beta = (
            ops.cast(getattr(self, name), "float64" if double else "float32") for name in names
        )
        scale = gamma * ops.rsqrt(variance + self.epsilon)
        return scale, beta - mean * scale

    def call(
        self, inputs: Tensor, training: bool | None = None, mask: Tensor | None = None
    ) -> Tensor:
        if self.statistics == "moving" or (training and self.trainable):
            return super().call(inputs, training=training, mask=mask)
        double = keras.backend.standardize_dtype(inputs.dtype) == "float64"
        x = ops.cast(inputs, "float64" if double else "float32")  # half precision overflows
        axis = self.axis % len(x.shape)
        mean, variance = _moments(x, axis)
        outputs = ops.batch_normalization(
            x,
            mean,
            variance,
            axis,
            offset=ops.cast(self.beta, x.dtype) if self.center else None,
            scale=ops.cast(self.gamma, x.dtype) if self.scale else None,
            epsilon=self.epsilon,
        )
        return ops.cast(outputs, self.compute_dtype)


def _moments(x, axis):
    """Return the mean and the variance of each entry of an axis, of each sample first."""
    others = [a for a in range(1, len(x.shape)) if a != axis]

    def mean(values):
        by_sample = ops.mean(values, others, keepdims=True) if others else values
        return ops.mean(by_sample, 0, keepdims=True)

    center = mean(x)
    return ops.reshape(center, (-1,)), ops.reshape(mean(ops.square(x - center)), (-1,))


@check_types
def use_statistics(model: keras.layers.Layer, statistics: str) -> keras.layers.Layer:
    """Set what normalizations of CCNNs use in inference, `"batch"` or `"moving"`, in place."""
    validation.one_of(statistics, STATISTICS, "statistics")
    inside = flatten_layers(model)
    found = [layer for layer in inside if isinstance(layer, BatchStatisticsNormalization)]
    if not found:
        raise ValueError(
            "Only `BatchStatisticsNormalization` layers have a choice of statistics. "
            f"Received: a model without them, {model!r}"
        )
    for layer in found:
        layer.statistics = statistics
    force_retrace(inside)
    return model


def force_retrace(layers):
    """Force Keras to retrace the train, test and predict functions of models at their next call."""
    for layer in layers:
        if isinstance(layer, keras.Model):
            if layer.compiled:
                layer.make_train_function(force=True)
                layer.make_test_function(force=True)
            layer.make_predict_function(force=True)
