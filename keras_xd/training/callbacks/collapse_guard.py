"""A warning of searches that end in operations without weights, or nowhere."""

import warnings
from collections.abc import Sequence

import keras
import numpy as np

from keras_xd.core.searchable import searchable_by_path
from keras_xd.core.type_aliases import Logs
from keras_xd.core.validation import number_within, one_of, positive_integer, positive_number
from keras_xd.training.architecture_drift import architecture_of, relative_distance

PARAMETER_FREE = ("skip", "identity", "zero", "max_pooling_3", "average_pooling_3")


class CollapseGuard(keras.callbacks.Callback):
    """Warns when mixtures collapse to operations without weights, or an architecture stalls.

    *Collapse*: gradient-based searches over mixtures tend to end in skips and poolings, which
    train fastest and generalize badly. A layer has collapsed when its operations without weights
    have a probability of at least `probability` together. The probabilities are the entries
    `probability/<operation>` of `describe()`, as `keras_xd.layers.MixedOperation2D` and cells have
    them; those of a cell are means over its edges.

    *Stall*: an architecture that stays where it was is no result of a search: its rate is too
    small, or no gradient reaches it. A layer has stalled when `patience` epochs in which the
    architecture could move have left it within `minimum_distance` of where it was before them,
    `‖a - a₀‖ < minimum_distance · ‖a₀‖` over all its architecture variables (without the last
    factor where `a₀` is 0). Epochs of warm-up and cool-down do not count, nor do frozen layers.
    The start `a₀` is that of the present call of `fit`.

    Both are looked for at the end of every epoch. A layer is reported once in a `fit` by a
    `UserWarning` with its path, as in `keras_xd.describe`. The logs get, as means over layers,
    `parameter_free_probability` and `mixture_entropy` (the entropy of the probabilities divided by
    that of equal probabilities) of the mixtures, and `architecture_distance`, the left side above
    divided by `‖a₀‖`, once the architecture could move.

    Args:
        probability: the probability from which a layer counts as collapsed, above 0 and up to 1.
            `None`: do not look for collapse.
        operations: the names of the operations without weights.
        minimum_distance: the distance from the start below which a layer counts as stalled.
            `None`: do not look for stalls.
        patience: the number of epochs before a layer counts as stalled.
        stop: whether to stop training, at the end of the epoch, when a layer is reported.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import warnings
    >>> import keras_xd
    >>> model = keras.Sequential(
    ...     [
    ...         keras.Input((9, 1)),
    ...         keras_xd.layers.MixedOperation1D(
    ...             1, 3, candidates=("skip", "zero"), other_weight=0.95
    ...         ),
    ...     ]
    ... )
    >>> search = keras_xd.SearchModel(model)
    >>> search.compile("sgd", "sgd", "mse")
    >>> guard = keras_xd.callbacks.CollapseGuard(probability=0.9, stop=True)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     history = search.fit(
    ...         np.ones((4, 9, 1)),
    ...         np.zeros((4, 7, 1)),
    ...         epochs=9,
    ...         callbacks=[guard],
    ...         verbose=0,
    ...     )
    >>> len(history.history["parameter_free_probability"])
    1
    >>> any("has collapsed" in str(warning.message) for warning in caught)
    True

    Reference:

    - Zela, Elsken, Saikia, Marrakchi, Brox, Hutter. Understanding and Robustifying Differentiable
      Architecture Search. 2020 (the collapse).
    """

    def __init__(
        self,
        probability: float | None = 0.9,
        operations: Sequence[str] = PARAMETER_FREE,
        minimum_distance: float | None = 1e-3,
        patience: int = 5,
        stop: bool = False,
    ):
        super().__init__()
        if probability is not None:
            number_within(probability, "(]", 0, 1, "probability")
        if minimum_distance is not None:
            positive_number(minimum_distance, "minimum_distance")
        if not isinstance(operations, (list, tuple, set)) or not all(
            isinstance(name, str) for name in operations
        ):
            raise ValueError(
                "`operations` must be a list of names of operations. "
                f"Received: operations={operations!r}"
            )
        self.probability = probability
        self.operations = tuple(operations)
        self.minimum_distance = minimum_distance
        self.patience = positive_integer(patience, "patience")
        self.stop = one_of(stop, (True, False), "stop")
        self._forget()

    def on_train_begin(self, logs: Logs = None) -> None:
        self._forget()
        self._searchable = searchable_by_path(self.model)
        if not self._searchable:
            raise ValueError(
                "`CollapseGuard` needs a model with searchable layers: see `keras_xd.rewrite`. "
                f"Received: model={self.model!r}"
            )
        described = {path: layer.describe() for path, layer in self._searchable.items()}
        self._mixtures = [path for path, found in described.items() if _probabilities(found)]

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        optimizer = getattr(self.model, "search_optimizer", None)
        # The counter of epochs, which comes first, has set the phase of the epoch.
        self._moves = not getattr(optimizer, "architecture_fixed", False)
        if self._moves and self._starts is None:
            self._starts = {
                path: architecture_of(layer)
                for path, layer in self._searchable.items()
                if any(variable.trainable for variable in layer.architecture_variables)
            }

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        logs = {} if logs is None else logs
        self._epochs += self._moves
        found = [*self._collapses(logs), *self._stalls(logs)]
        new = [(path, what, how) for path, what, how in found if (path, what) not in self._reported]
        self._reported |= {(path, what) for path, what, _ in new}
        for path, what, how in new:
            text = f"Epoch {epoch + 1}: layer '{path}' has {what}: {how}."
            warnings.warn(text, UserWarning, stacklevel=2)
        if new and self.stop:
            self.model.stop_training = True

    def _collapses(self, logs):
        """Add the probabilities to the logs; yield what to say of layers that have collapsed."""
        totals, entropies = {}, {}
        for path in self._mixtures:
            described = self._searchable[path].describe()
            probabilities = _probabilities(described)
            totals[path] = sum(
                value for name, value in probabilities.items() if name in self.operations
            )
            entropies[path] = described["entropy/relative"]
        if totals:
            logs["parameter_free_probability"] = float(np.mean(list(totals.values())))
            logs["mixture_entropy"] = float(np.mean(list(entropies.values())))
        for path, total in totals.items():
            if self.probability is not None and total >= self.probability:
                yield (
                    path,
                    "collapsed",
                    f"operations without weights have probability {total:.3g}, the relative "
                    f"entropy of all probabilities is {entropies[path]:.3g}",
                )

    def _stalls(self, logs):
        """Add to the logs how far the architecture is; yield what to say of layers that stall."""
        if not self._starts:
            return
        distances = {
            path: relative_distance(architecture_of(self._searchable[path]), start)
            for path, start in self._starts.items()
        }
        logs["architecture_distance"] = float(np.mean(list(distances.values())))
        if self.minimum_distance is None or self._epochs < self.patience:
            return
        for path, distance in distances.items():
            if distance < self.minimum_distance:
                yield (
                    path,
                    "stalled",
                    f"after {self._epochs} epochs its architecture has the relative distance "
                    f"{distance:.3g} from its start",
                )

    def _forget(self):
        self._searchable, self._mixtures, self._starts = {}, [], None
        self._reported, self._moves, self._epochs = set(), False, 0


def _probabilities(described):
    """Return the probabilities of operations in what `describe` returns."""
    return {
        name.removeprefix("probability/"): value
        for name, value in described.items()
        if name.startswith("probability/")
    }
