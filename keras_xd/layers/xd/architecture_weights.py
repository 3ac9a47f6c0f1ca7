"""K-matrices as architecture weights: saved with their radices, drawn at random."""

from typing import Any

import keras
import numpy as np

from keras_xd.core.searchable import SearchableLayer
from keras_xd.core.type_aliases import Config
from keras_xd.layers.xd import functional, warm_starts
from keras_xd.layers.xd.warm_starts import initial, operations


class MatrixArchitecture(SearchableLayer):
    """Base class of layers whose architecture is the matrices `K`, `L`, `M`, with `b` and `C`.

    A subclass has `plans`, `warm_start`, `depth` and the methods by which `XDLayer` makes its
    architecture variables.
    """

    @property
    def random_start(self) -> warm_starts.Convolution:
        """The start that a random architecture is drawn from."""
        return warm_starts.RandomUnitary()

    def architecture_signature(self) -> Config:
        """Return what tells the meaning of the matrices: class, radices, place of the kernel."""
        start = self.warm_start
        while hasattr(start, "start"):  # a start made of another one leaves the kernel in its place
            start = start.start
        return {
            **super().architecture_signature(),
            "radices": [[plan.n, *plan.radices] for plan in self.plans],
            "kernel_placement": operations.placed_by(start).__name__,
            "trainable_dilation": start.trainable_dilation,
        }

    def random_architecture(self, generator: np.random.Generator) -> list[np.ndarray]:
        """Return the architecture of a search from scratch, at the layer's own depth."""
        return self._architecture_of(self.random_start, generator)

    @property
    def start_dtype(self) -> str:
        """The data type in which the values of a start are made: the weights', at least float32."""
        return functional.exact_dtype(self.variable_dtype)

    def save_own_variables(self, store: Any) -> None:
        # Keras' convolutions save their kernel and bias only.
        keras.layers.Layer.save_own_variables(self, store)
        if self.built:
            store["radices"] = self._radices()

    def load_own_variables(self, store: Any) -> None:
        """Load weights whose K-matrices have the radices of this layer."""
        saved = {key: store[key] for key in store.keys()}
        radices = saved.pop("radices", None)
        known = radices is not None and self.built  # Keras refuses weights of a layer not built
        if known and not np.array_equal(radices, self._radices()):
            raise ValueError(
                f"The K-matrices in a file must have the radices of layer '{self.name}', axis "
                f"after axis, each after its size. Received: {np.asarray(radices).tolist()}, the "
                f"layer has {self._radices().tolist()}"
            )
        keras.layers.Layer.load_own_variables(self, saved)

    def _radices(self):
        return np.array([value for plan in self.plans for value in (plan.n, *plan.radices)])

    def _architecture_of(self, start, seed):
        """Return the values that the architecture variables have at a start, in their order."""
        axes, dtype = (self.geometry, self.plans), self.start_dtype
        matrices = initial.initial_matrices(start, self.depth, *axes, seed, dtype)
        values = [value for name in warm_starts.MATRICES for value in matrices[name]]
        if self.frequency_bias:
            values.append(initial.initial_frequency_bias(start, *axes, dtype))
        if self.channel_gates:
            shape = tuple(self.architecture_variables[-1].shape)
            values.append(initial.initial_channel_gates(start, *shape, self.groups, dtype))
        return values
