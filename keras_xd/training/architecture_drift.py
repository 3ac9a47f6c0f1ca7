"""Architecture drift: the distance of an architecture from its start."""

import keras
import numpy as np
from keras import ops

from keras_xd.core.searchable import architecture_variables

KEY = "architecture_start"


class ArchitectureDrift:
    """Remembers the architecture at the first epoch after `compile` and measures from there."""

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
        """Return the distance from the start, relative to the start's Euclidean length."""
        if not self._start:
            return None
        now, start = (
            np.concatenate([np.ravel(value).astype("float64") for value in values])
            for values in (self._values(), self._start)
        )
        return relative_distance(now, start)

    def store(self, store) -> None:
        """Write the start into what `save_own_variables` is given."""
        for index, value in enumerate(self._start or ()):
            store[f"{KEY}_{index}"] = value

    def restore(self, store) -> None:
        """Read the start from what `load_own_variables` is given."""
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


def architecture_of(layer):
    """Return a copy of all architecture variables of a layer as one vector."""
    values = [ops.convert_to_numpy(variable) for variable in layer.architecture_variables]
    return np.concatenate([np.zeros(0), *(value.astype("float64").ravel() for value in values)])


def relative_distance(now, start):
    """Return the distance of two vectors, relative to the length of the second unless it is 0."""
    return float(np.linalg.norm(now - start) / (np.linalg.norm(start) or 1.0))
