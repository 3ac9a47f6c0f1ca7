"""Base class of layers that mix candidates by weights."""

import contextlib
import math
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_xd.core.scoped import Scoped
from keras_xd.core.searchable import SearchableLayer
from keras_xd.core.type_aliases import Config, Description, Tensor

SMALLEST_PROBABILITY = 1e-5
UPDATES = ("softmax", "exponentiated_gradient")
# Names that stand for those of the largest probabilities, by the ids of their layers.
_CHOSEN = Scoped(None)


class CandidateMixture(SearchableLayer):
    """A layer that mixes candidates by probabilities: the softmax of its `logits`.

    A subclass has `operation_names`, and makes the variable `logits` in its `build`.
    """

    logits: keras.Variable

    @property
    def operation_names(self) -> tuple[str, ...]:
        """The names of the candidates, in the order of the logits."""
        raise TypeError(f"{type(self).__name__} must implement `operation_names`.")

    @property
    def architecture_variables(self) -> list[keras.Variable]:
        """The logits."""
        return [self.logits]

    @property
    def probabilities(self) -> Tensor:
        """The probability of each candidate, a tensor."""
        return ops.softmax(ops.convert_to_tensor(self.logits))

    @property
    def largest(self) -> str:
        """The name of the candidate of the largest probability, which `finalize()` keeps."""
        chosen = (_CHOSEN.value or {}).get(id(self))
        if chosen is not None:
            return chosen
        return self.operation_names[int(np.argmax(ops.convert_to_numpy(self.logits)))]

    def describe(self) -> Description:
        """Return `probability/<operation>` of each candidate, and their `entropy` in nats."""
        return described(self.operation_names, ops.convert_to_numpy(self.probabilities)[None])

    def architecture_signature(self) -> Config:
        """Return what tells the meaning of the logits: the candidates, in their order."""
        signature = super().architecture_signature()
        return {**signature, "operations": list(self.operation_names)}

    def random_architecture(self, generator: np.random.Generator) -> list[np.ndarray]:
        """Return logits of probabilities that are drawn evenly from all possible ones."""
        probabilities = generator.dirichlet(np.ones(len(self.operation_names)))
        return [np.log(np.maximum(probabilities, SMALLEST_PROBABILITY))]


def described(names: Sequence[str], probabilities: np.ndarray) -> Description:
    """Return the mean `probability/<operation>` over rows, and the mean `entropy` of rows."""
    values = np.asarray(probabilities, "float64")
    logarithms = np.log(np.where(values > 0, values, 1.0))
    entropy = abs(float(-np.sum(values * logarithms) / len(values)))
    means = zip(names, values.mean(axis=0), strict=True)
    return {
        **{f"probability/{name}": float(mean) for name, mean in means},
        "entropy": entropy,
        "entropy/relative": entropy / math.log(len(names)),
    }


class ProbabilityFloor(keras.constraints.Constraint):
    """Keeps logits where no probability is below the smallest one that GAEA leaves."""

    def __call__(self, logits: Tensor) -> Tensor:
        total = ops.logsumexp(logits, axis=-1, keepdims=True)
        return ops.maximum(logits - total, math.log(SMALLEST_PROBABILITY))


def with_update(update: str, logits: Tensor, probabilities: Tensor) -> Tensor:
    """Return the probabilities of logits, whose gradient reaches the logits by one of `UPDATES`."""
    if update == "softmax":
        return probabilities
    # The value is that of the softmax, and the derivative that of the identity.
    return ops.stop_gradient(probabilities) + (logits - ops.stop_gradient(logits))


def expected_count(probabilities: Tensor, counts: Sequence[float]) -> Tensor:
    """Return the expected count, in float32 for every float type: half types overflow."""
    return ops.sum(ops.cast(probabilities, "float32") * ops.convert_to_tensor(counts, "float32"))


def chosen_candidates(
    layers: Sequence[CandidateMixture], names: Sequence[str]
) -> contextlib.AbstractContextManager[None]:
    """Return a context manager in which candidates count as those of the largest probabilities."""
    return _CHOSEN.set_to(dict(zip(map(id, layers), names, strict=True)))
