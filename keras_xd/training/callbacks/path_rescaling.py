"""The rescaling of ProxylessNAS after a step on two operations of each edge."""

import keras
import numpy as np

from keras_xd.core.searchable import flatten_layers
from keras_xd.core.type_aliases import Logs
from keras_xd.training.callbacks import training_state


class PathRescaling(keras.callbacks.Callback):
    """Keeps the probabilities of operations that a step did not draw, as ProxylessNAS does.

    With the relaxation `"sampled"` of `keras_xd.layers.ArchitectureLogits` a step moves the logits
    of two operations on each edge. That changes the probabilities of all, as they add up to 1. This
    adds to the two new logits `a'` one number, so that together the two are as likely as before

        a'_i + log( Σ_drawn exp(a_j) ) - log( Σ_drawn exp(a'_j) )

    and the probabilities of all others stay as they were. The drawn ones are those whose logits a
    step changed. So the optimizer of the architecture must not move logits without a gradient:
    `SGD` without momentum, or `Adam` with `beta_1=0`, as in the paper. An edge of which all logits
    changed is left as it is.

    Raises:
        ValueError: when training begins, if no cell of the model has the relaxation `"sampled"`, or
            if the model runs several steps at once.

    Example:

    >>> import keras_xd
    >>> import keras
    >>> import numpy as np
    >>> names = ("identity", "channel_attention")
    >>> architecture = keras_xd.layers.ArchitectureLogits(operations=names, relaxation="sampled")
    >>> cell = keras_xd.layers.HeterogeneousCell(2, architecture)
    >>> image = keras.Input((8, 8, 3))
    >>> outputs = keras.layers.GlobalAveragePooling2D()(cell([image, image]))
    >>> search = keras_xd.SearchModel(keras.Model(image, outputs))
    >>> search.compile("sgd", keras.optimizers.Adam(beta_1=0.0), "mse", run_eagerly=True)
    >>> rescaling = keras_xd.callbacks.PathRescaling()
    >>> x, y = np.ones((2, 8, 8, 3)), np.ones((2, 8))
    >>> history = search.fit(x, y, callbacks=[rescaling], verbose=0)

    Reference:
        Cai et al., "ProxylessNAS: Direct Neural Architecture Search on Target Task and Hardware",
        2019, section 3.2.1.
    """

    def on_train_begin(self, logs: Logs = None) -> None:
        found = [x for x in flatten_layers(self.model) if getattr(x, "relaxation", "") == "sampled"]
        self._logits = list({id(x): x.logits for x in found}.values())
        if not self._logits:
            raise ValueError(
                "`PathRescaling` needs a model with cells that have the relaxation 'sampled'. "
                f"Received: model={self.model!r}"
            )
        steps = getattr(self.model, "steps_per_execution", 1)
        if steps != 1:
            raise ValueError(
                "`PathRescaling` needs a model that is compiled with `steps_per_execution=1`. "
                f"Received: steps_per_execution={steps}"
            )

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        self._before = self._values()

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        pairs = zip(self._logits, self._before, self._values(), strict=True)
        for variable, before, after in pairs:
            variable.assign(rescaled(before, after))

    def _values(self):
        training_state.synchronize(self.model)
        return [np.array(keras.ops.convert_to_numpy(v), "float64") for v in self._logits]


def rescaled(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return logits after a step with the shares of what did not change as before it."""
    changed = before != after
    changed &= ~changed.all(axis=1, keepdims=True)
    # Zeros where nothing changed have no logarithm, and are not used.
    largest = np.maximum(before, after).max(axis=1, keepdims=True)
    sums = [
        np.sum(np.exp(logits - largest) * changed, axis=1, keepdims=True)
        for logits in (before, after)
    ]
    old, new = (np.log(np.where(total > 0, total, 1.0)) for total in sums)
    return after + changed * (old - new)
