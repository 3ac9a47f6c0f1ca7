"""K-matrices as architecture weights: saved with their radices, drawn at random."""

from typing import Any

import keras
import numpy as np

from keras_xd.core.searchable import NEUTRAL, SearchableLayer
from keras_xd.core.type_aliases import Config
from keras_xd.kmatrix import constructions
from keras_xd.layers.xd import functional, warm_starts
from keras_xd.layers.xd.warm_starts import operations
from keras_xd.layers.xd.warm_starts.operations import MATRICES


class MatrixArchitecture(SearchableLayer):
    """Base class of layers whose architecture is the matrices `K`, `L`, `M`, with `b` and `C`."""

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
        """Load weights whose K-matrices have the radices of this layer; without `b`, `C` too."""
        saved = {key: store[key] for key in store.keys()}
        radices = saved.pop("radices", None)
        known = radices is not None and self.built  # Keras refuses weights of a layer not built
        if known and not np.array_equal(radices, self._radices()):
            raise ValueError(
                f"The K-matrices in a file must have the radices of layer '{self.name}', axis "
                f"after axis, each after its size. Received: {np.asarray(radices).tolist()}, the "
                f"layer has {self._radices().tolist()}"
            )
        if self.built:
            saved = self._with_neutral_extras(saved)
        keras.layers.Layer.load_own_variables(self, saved)

    def _with_neutral_extras(self, saved):
        """Return the weights of a file with `b = 0` and `C = 1` where it has none."""
        values = [saved[key] for key in sorted(saved, key=lambda key: (len(key), key))]
        for index, weight in enumerate(self.weights):
            if weight.name in NEUTRAL and len(values) < len(self.weights):
                if index == len(values) or values[index].shape != weight.shape:
                    values.insert(index, np.full(weight.shape, NEUTRAL[weight.name]))
        return {str(index): value for index, value in enumerate(values)}

    def _radices(self):
        return np.array([value for plan in self.plans for value in (plan.n, *plan.radices)])

    def _architecture_of(self, start, seed):
        """Return the values that the architecture variables have at a start, in their order."""
        generator, dtype = np.random.default_rng(seed), self.start_dtype
        matrices: dict[str, list[np.ndarray]] = {name: [] for name in MATRICES}
        for index, (axis, plan) in enumerate(zip(self.geometry, self.plans, strict=True)):
            first = start.matrices(axis, plan.radices, generator, index)
            for name, depth in zip(MATRICES, self.depth, strict=True):
                missing = depth - len(first[name])
                if missing < 0:
                    raise ValueError(
                        f"Warm start {type(start).__name__} needs depth "
                        f"{tuple(len(first[m]) for m in MATRICES)} or more. "
                        f"Received: depth={self.depth}"
                    )
                rest = [start.rest(plan.radices, generator) for _ in range(missing)]
                matrices[name].append(constructions.kmatrix_weights([*first[name], *rest], dtype))
        values = [value for name in MATRICES for value in matrices[name]]
        if self.frequency_bias:
            bias = start.frequency_bias(self.geometry, [plan.radices for plan in self.plans])
            values.append(np.stack([bias.real, bias.imag], axis=-1).astype(dtype))
        if self.channel_gates:
            channels = self.input_spec.axes[-1 if self.data_format == "channels_last" else 1]
            gates = start.channel_gates(channels // self.groups, self.filters // self.groups)
            values.append(np.tile(gates, (1, self.groups)).astype(dtype))
        return values
