"""How far a search has moved its architecture."""

import keras
import numpy as np
from keras import ops

from keras_xd.core.searchable import architecture_variables

KEY = "architecture_start"


class Movement:
    """Remembers the architecture at the first epoch after `compile` and measures from there.

    Args:
        model: the model whose architecture is trained.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> from keras_xd.training.movement import Movement
    >>> model = keras.Sequential([keras.Input((9, 1)), keras_xd.layers.XDConv1D(2, 3)])
    >>> movement = Movement(model)
    >>> movement.begin()
    >>> for variable in keras_xd.architecture_variables(model):
    ...     _ = variable.assign(1.25 * variable)
    >>> round(movement.distance(), 4)
    0.25
    """

    def __init__(self, model: keras.Model):
        self.model = model
        self._start = None

    def begin(self) -> None:
        """Remember the present architecture, unless an earlier one is remembered."""
        if self._start is None:
            self._start = self._values()

    def forget(self) -> None:
        """Measure from the architecture that the next `begin` finds."""
        self._start = None

    def distance(self) -> float | None:
        """Return the distance from the start, relative to the start's Euclidean length.

        Returns:
            `‖α - α₀‖₂ / ‖α₀‖₂` over all trainable architecture variables together, or
            `‖α - α₀‖₂` if `α₀` is zero; `None` if there are none, or no start.
        """
        if not self._start:
            return None
        moved = [now - start for now, start in zip(self._values(), self._start, strict=True)]
        length = _length(self._start)
        return _length(moved) / length if length else _length(moved)

    def store(self, store) -> None:
        """Write the start into what `save_own_variables` is given."""
        for index, value in enumerate(self._start or ()):
            store[f"{KEY}_{index}"] = value

    def restore(self, store) -> None:
        """Read the start from what `load_own_variables` is given.

        A file without one, or with that of other variables, leaves the start to the next `begin`.
        """
        keys = set(store.keys())
        values = self._values()
        names = [f"{KEY}_{index}" for index in range(len(values))]
        found = [np.array(store[name]) for name in names if name in keys]
        self._start = None
        if [value.shape for value in found] == [value.shape for value in values]:
            self._start = found

    def _values(self):
        """Return copies of the trainable architecture variables."""
        tensors = [
            ops.cast(ops.convert_to_tensor(variable), "float32")
            for variable in architecture_variables(self.model)
            if variable.trainable
        ]
        return [np.array(ops.convert_to_numpy(tensor), copy=True) for tensor in tensors]


def _length(arrays):
    """Return the Euclidean length of arrays as one vector."""
    return float(np.sqrt(sum(np.sum(np.square(array, dtype="float64")) for array in arrays)))
