"""Metrics and optimizer whose state is there before a step is traced, so that it is traced once."""

from typing import Any

import keras

from keras_xd.core.type_aliases import Tensor


class EarlyMetrics(keras.Model):
    """A built model whose metrics and optimizer get their state outside of what is traced."""

    _has_state = False

    def compile(self, *args: Any, **kwargs: Any) -> None:
        self._has_state = False
        super().compile(*args, **kwargs)
        # `load_weights` then restores its state too.
        self.optimizer.build(self.trainable_variables)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Tensor]:
        if not self._has_state and keras.config.backend() == "tensorflow":
            self._has_state = True
            _make_state(self, super().compute_metrics, (x, y, y_pred, sample_weight))
        return super().compute_metrics(x, y, y_pred, sample_weight)


def _make_state(model, compute, arguments):
    """Call a function on zeros of the forms of tensors, eagerly, and reset the metrics."""
    import tensorflow as tf

    # Keras itself makes the state early where there is a strategy.
    if tf.executing_eagerly() or tf.distribute.has_strategy():
        return
    if any(t.shape.rank is None for t in keras.tree.flatten(arguments) if tf.is_tensor(t)):
        return

    def zeros(tensor):
        if not tf.is_tensor(tensor):
            return tensor
        return tf.zeros([size or 1 for size in tensor.shape], tensor.dtype)

    # Variables that are not lifted are no reason to trace again.
    def unlifted(creator, **kwargs):
        return creator(**{**kwargs, "experimental_enable_variable_lifting": False})

    with tf.init_scope(), tf.variable_creator_scope(unlifted):
        try:
            compute(*keras.tree.map_structure(zeros, arguments))
        except Exception:  # a metric of your own may refuse zeros: its state is made when traced
            return
        finally:
            model.reset_metrics()
