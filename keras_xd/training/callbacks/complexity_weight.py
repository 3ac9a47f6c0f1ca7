"""A weight of the complexity term that changes during a search."""

from collections.abc import Callable

import keras

from keras_xd.core.type_aliases import Logs
from keras_xd.core.validation import nonnegative_number


class ComplexityWeight(keras.callbacks.Callback):
    """Sets the `complexity_weight` of a search at the begin of every epoch.

    A weight that grows lets a search look at architectures of very different costs first and brings
    it to its budget later. The train step is not retraced. The logs get `complexity_weight`.
    After `fit` the last weight stays.

    Args:
        schedule: function from the number of an epoch, counted from 0 as by Keras, to the weight,
            a number of at least 0.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import keras_xd
    >>> mask = keras_xd.layers.DifferentiableMask()
    >>> search = keras_xd.SearchModel(keras.Sequential([keras.Input((8,)), mask]))
    >>> search.compile("sgd", "sgd", "mse", complexity_target=6)
    >>> schedule = keras_xd.callbacks.ComplexityWeight(
    ...     lambda epoch: min(0.1 * epoch, 5.0)
    ... )
    >>> data = np.zeros((2, 8))
    >>> history = search.fit(data, data, epochs=3, callbacks=[schedule], verbose=0)
    >>> history.history["complexity_weight"]
    [0.0, 0.1, 0.2]

    Reference:
        Romero and Zeghidour, "DNArch", 2023, section 5 (future work).
    """

    def __init__(self, schedule: Callable[[int], float]):
        super().__init__()
        if not callable(schedule):
            raise ValueError(
                "`schedule` must be a function from the number of an epoch to a weight. "
                f"Received: schedule={schedule!r}"
            )
        self.schedule = schedule

    def on_train_begin(self, logs: Logs = None) -> None:
        if getattr(self.model, "complexity_target", None) is None:
            raise ValueError(
                "`ComplexityWeight` needs a `SearchModel` compiled with a `complexity_target`. "
                f"Received: model={self.model!r}"
            )

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.model.complexity_weight = nonnegative_number(self.schedule(epoch), "complexity_weight")

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if logs is not None:
            logs["complexity_weight"] = self.model.complexity_weight
