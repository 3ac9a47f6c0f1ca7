"""Training of a compressed model, also by the outputs of the one it was made of."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd.core.searchable import flatten_layers
from keras_xd.training import checks
from keras_xd.training.early_metrics import EarlyMetrics
from keras_xd.training.inner_model import InnerModel


class Student(EarlyMetrics, InnerModel):
    """A model whose loss is partly its distance from the outputs of a teacher.

    Args:
        model: the model to train.
        teacher: the model to learn from, in inference mode.
        share: that of the distance in the loss.
        temperature: that both outputs are softened by, if they are classes.
        classes: `"logits"` or `"probabilities"`, or `None` for other outputs.
    """

    def __init__(self, model, teacher, share, temperature, classes):
        super().__init__(name=model.name, autocast=False, dtype=model.dtype_policy)
        self.model, self.share = model, share
        self.temperature, self.classes = temperature, classes
        self.taught = lambda x: teacher(x, training=False)  # so that it is no part of the model
        self.built = True

    def call(self, inputs, training=None):
        return self.model(inputs, training=training)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        if not training or not self.share:
            return loss
        pairs = zip(*map(keras.tree.flatten, (self.taught(x), y_pred)), strict=True)
        distance = sum(self._distance(*pair) for pair in pairs)
        return (1 - self.share) * loss + self.share * ops.cast(distance, loss.dtype)

    def _distance(self, wanted, given):
        wanted, given = ops.stop_gradient(ops.cast(wanted, "float32")), ops.cast(given, "float32")
        if self.classes is None:
            return ops.mean(ops.square(given - wanted))
        if self.classes == "probabilities":
            wanted, given = (ops.log(ops.maximum(v, 1e-7)) for v in (wanted, given))
        wanted, given = (ops.log_softmax(v / self.temperature) for v in (wanted, given))
        divergence = ops.sum(ops.exp(wanted) * (wanted - given), axis=-1)
        return self.temperature**2 * ops.mean(divergence)


def kind_of_classes(model: keras.Model, loss: Any) -> str | None:
    """Return what the outputs of a model are to a loss of classes, `None` for another loss."""
    if len(model.outputs) > 1 or model.outputs[0].shape[-1] in (None, 1):
        return None
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
    if name not in (*checks.SPARSE, *checks.ONE_HOT):
        return None
    return "logits" if checks.takes_logits(loss) else "probabilities"


def falling_rate(optimizer: keras.optimizers.Optimizer, epochs: int) -> list:
    """Return a callback by which a constant learning rate falls to 0 along a cosine."""
    config = optimizer.get_config()
    if isinstance(config.get("learning_rate", {}), dict):  # a schedule
        return []
    first = float(ops.convert_to_numpy(optimizer.learning_rate))

    def rate(epoch, _):
        return first * (1 + math.cos(math.pi * epoch / epochs)) / 2

    return [keras.callbacks.LearningRateScheduler(rate)]


def recalibrate(model: keras.Model, x: Any, batch_size: int) -> None:
    """Set the statistics of batch normalizations to those of samples."""
    layers = flatten_layers(model)
    found = [x for x in layers if isinstance(x, keras.layers.BatchNormalization) and x.trainable]
    dropping = [layer for layer in layers if isinstance(layer, keras.layers.Dropout)]
    if not found:
        return
    kept = [layer.momentum for layer in found], [layer.rate for layer in dropping]
    count = len(keras.tree.flatten(x)[0])
    for layer in dropping:
        layer.rate = 0.0
    for number, start in enumerate(range(0, count - count % batch_size or 1, batch_size)):
        for layer in found:
            layer.momentum = number / (number + 1)  # the mean over all batches
        part = keras.tree.map_structure(lambda v, s=start: v[s : s + batch_size], x)
        model(part, training=True)
    for layer, momentum in zip(found, kept[0], strict=True):
        layer.momentum = momentum
    for layer, rate in zip(dropping, kept[1], strict=True):
        layer.rate = rate


def samples(x: Any, y: Any, count: int) -> tuple[Any, Any]:
    """Return some samples as arrays: of arrays at even distances, else the first ones."""
    if y is None and not hasattr(x, "shape") and not isinstance(x, (list, dict)):
        parts, found = [], 0
        batches = (x[i] for i in range(x.num_batches)) if hasattr(x, "num_batches") else iter(x)
        for batch in batches:
            parts.append(tuple(batch)[:2] if isinstance(batch, (tuple, list)) else (batch, None))
            found += len(keras.tree.flatten(batch)[0])
            if found >= count:
                break
        x, y = keras.tree.map_structure(
            lambda *v: None if v[0] is None else np.concatenate(list(map(np.asarray, v)))[:count],
            *parts,
            none_is_leaf=True,
        )
        return x, y
    total = len(keras.tree.flatten(x)[0])
    rows = np.unique(np.linspace(0, total - 1, min(count, total)).round().astype(int))
    some = keras.tree.map_structure(
        lambda v: None if v is None else np.asarray(v)[rows], (x, y), none_is_leaf=True
    )
    return some
