"""Operation ablation: the loss of a network without an operation of its cells."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.layers.cells.architecture_logits import ArchitectureLogits
from keras_xd.layers.cells.genotypes import CellGenotype, cell_of_weights
from keras_xd.layers.cells.relaxed_cell import architectures_of

# Far below all other logits: the share is 0, and still finite.
_REMOVED = -1e4


def removable_architectures(model: keras.Model) -> tuple[ArchitectureLogits, ArchitectureLogits]:
    """Return the architecture of the normal and that of the reduction cells of a model."""
    kinds = architectures_of(model)
    for architecture in kinds:
        if architecture.draws or architecture.tiers == 1:
            raise ValueError(
                "Operations are removed from cells of two tiers that compute them all, of the "
                "relaxation 'perturbation', 'softmax' or 'partial'. "
                f"Received: relaxation={architecture.relaxation!r}, tiers={architecture.tiers}"
            )
    return kinds


def badness(
    model: keras.Model, x: Any, y: Any, metric: str, mode: str, batch_size: int | None
) -> Callable[[], float]:
    """Return a function that evaluates a model and returns a number that is larger if it
    is worse.
    """
    validation.one_of(mode, ("min", "max"), "mode")
    x, y = _batched_once(x, y, batch_size)

    def evaluated():
        found = model.evaluate(x, y, batch_size=batch_size, verbose=0, return_dict=True)
        if metric not in found:
            raise ValueError(
                f"`metric` must be one of {sorted(found)}, what the model was compiled with. "
                f"Received: metric={metric!r}"
            )
        if not np.isfinite(found[metric]):
            raise ValueError(f"`metric` must be finite. Received: {metric}={found[metric]}")
        return found[metric] * (1 if mode == "min" else -1)

    return evaluated


def _batched_once(x, y, batch_size):
    """Return arrays as a data set of batches, and `None` for the targets in it."""
    arrays = (x,) if y is None else (x, y)
    if keras.backend.backend() != "tensorflow" or any(type(a) is not np.ndarray for a in arrays):
        return x, y
    import tensorflow as tf

    floats = keras.config.floatx()
    with tf.device("CPU"):
        arrays = tuple(a.astype(floats) if a.dtype.kind == "f" else a for a in arrays)
        data = tf.data.Dataset.from_tensor_slices(arrays).batch(batch_size or 32)
    return data, None


def importance(
    architecture: ArchitectureLogits, edge: int, worse: Callable[[], float], before: float
) -> np.ndarray:
    """Return how much worse a network gets without each operation of an edge."""
    logits = np.array(ops.convert_to_numpy(architecture.logits))
    found = np.zeros((len(architecture.operations),))
    try:
        for operation in range(len(found)):
            removed = logits.copy()
            removed[edge, operation] = _REMOVED
            architecture.logits.assign(removed)
            found[operation] = worse() - before
    finally:
        architecture.logits.assign(logits)
    return found


def most_missed(
    found: np.ndarray, operations: tuple[str, ...], kept: Mapping[int, int] = MappingProxyType({})
) -> CellGenotype:
    """Return the cell of the operations that a network misses most."""
    # The rule is one for weights, which are not negative.
    weights = found - found.min()
    for edge, operation in kept.items():
        weights[edge, np.arange(len(operations)) != operation] = -np.inf
    return cell_of_weights(weights, operations)
