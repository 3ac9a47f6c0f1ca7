"""Cells that are decided by perturbation at the end of training."""

from typing import Any

import keras
import numpy as np

from keras_xd.core import validation
from keras_xd.core.type_aliases import Logs
from keras_xd.layers.cells.genotypes import (
    BLOCKS,
    EDGES,
    SOURCES,
    Genotype,
    first_tier_edge,
    is_feature,
)
from keras_xd.training.operation_ablation import (
    badness,
    importance,
    most_missed,
    removable_architectures,
)


class PerturbationSelection(keras.callbacks.Callback):
    """Decides on the cells of a search by what the network loses without each operation.

    Probabilities say how fast an operation trained more than how much the network needs it. So at
    the end of `fit` every operation is removed by itself, from one edge of all cells of a kind, its
    probability given to the edge's others in proportion, and the network evaluated: with the metric
    `m`

        importance(edge, operation) = ± ( m(without it) - m(with all) )

    positive where the network gets worse. The cells are derived by the rule of
    `keras_xd.genotypes.derive_cell` with the importance in place of the weights, and the logits are
    changed to say so: `keras_xd.finalize` and `keras_xd.layers.derived_genotype` then give these
    cells. The relaxation `"perturbation"` of `keras_xd.models.nos_search_network` needs this;
    `"softmax"` and `"partial"` can have it. It takes one evaluation for each operation of each of
    the 18 edges of both kinds, and one more.

    With `epochs_between` the last epochs of `fit` tune the network between decisions, as in the
    paper. The edges are decided in random order, one of the normal and one of the reduction cells
    at a time, the last ones at the end of `fit` and the others so many epochs apart before it. Such
    an edge keeps the operation that the network misses most, with probability 1; at least one in
    the first tier of each block makes features. Derived are then, of the operations kept, the two
    of each first tier that were missed most, and that of the second tier. (The paper compares edges
    anew, by removing whole ones.) If training ends early, the edges that are left are measured
    together at its end.

    The decision is made when training ends: callbacks that bring back earlier weights, as
    `keras.callbacks.EarlyStopping` can, belong before this one.

    Args:
        x: held-out samples, as in `evaluate`: arrays, or a data set that can be gone through again
            and again.
        y: their targets, if `x` has none.
        metric: the name of a result of `evaluate`.
        mode: `"min"` if less is better, or `"max"`.
        batch_size: as in `evaluate`.
        epochs_between: the number of epochs from one decision to the next. `fit` must have more
            than 17 times as many. With 0, all edges are measured at the end.
        seed: an integer makes the order of the edges reproducible.

    Attributes:
        genotype: the `keras_xd.genotypes.Genotype` found, or `None` before.

    Example:

    >>> import keras_xd
    >>> import numpy as np
    >>> model = keras_xd.models.nos_search_network(
    ...     3, 1, (8, 8, 3), 2, ("identity", "max_pooling_3"), relaxation="perturbation"
    ... )
    >>> search = keras_xd.SearchModel(model)
    >>> search.compile("sgd", "sgd", "mse", jit_compile=False)
    >>> x, y = np.random.rand(4, 8, 8, 3), np.random.rand(4, 2)
    >>> selection = keras_xd.callbacks.PerturbationSelection(x[:2], y[:2])
    >>> history = search.fit(x[2:], y[2:], callbacks=[selection], verbose=0)
    >>> keras_xd.layers.derived_genotype(search) == selection.genotype
    True

    Reference:
        Wang et al., "Rethinking Architecture Selection in Differentiable NAS", 2021, algorithm 1.
    """

    def __init__(
        self,
        x: Any,
        y: Any = None,
        *,
        metric: str = "loss",
        mode: str = "min",
        batch_size: int | None = None,
        epochs_between: int = 0,
        seed: int | None = None,
    ):
        super().__init__()
        self.x, self.y, self.metric = x, y, metric
        self.mode = validation.one_of(mode, ("min", "max"), "mode")
        self.batch_size = batch_size
        self.epochs_between = validation.nonnegative_integer(epochs_between, "epochs_between")
        self.seed = validation.seed(seed)
        self.genotype: Genotype | None = None

    def on_train_begin(self, logs: Logs = None) -> None:
        self._kinds = removable_architectures(self.model)
        epochs = self.params["epochs"]
        if epochs <= (EDGES - 1) * self.epochs_between:
            raise ValueError(
                f"`fit` must have more than {EDGES - 1} * `epochs_between` epochs. "
                f"Received: epochs={epochs}, epochs_between={self.epochs_between}"
            )
        self.genotype = None
        self._worse = badness(self.model, self.x, self.y, self.metric, self.mode, self.batch_size)
        generator = np.random.default_rng(self.seed)
        self._left = [generator.permutation(EDGES).tolist() for _ in self._kinds]
        self._found = [np.zeros((EDGES, len(kind.operations))) for kind in self._kinds]
        self._kept = [{} for _ in self._kinds]

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        ahead = self.params["epochs"] - (epoch + 1)
        if not self.epochs_between or not ahead:
            return
        # One decision is left for the end, and one for each whole time between before it.
        while len(self._left[0]) > -(-ahead // self.epochs_between):
            self._decide_edges()

    def on_train_end(self, logs: Logs = None) -> None:
        if any(self._left):
            self._measure(len(self._left[0]))
        measured = zip(self._kinds, self._found, self._kept, strict=True)
        cells = [most_missed(found, kind.operations, kept) for kind, found, kept in measured]
        for kind, cell in zip(self._kinds, cells, strict=True):
            kind.decide(cell)
        self.genotype = Genotype(*cells)

    def _measure(self, count):
        """Measure the next edges of both kinds in the present network; return them."""
        before, measured = self._worse(), []
        for kind, left, found in zip(self._kinds, self._left, self._found, strict=True):
            measured.append(left[:count])
            for edge in left[:count]:
                found[edge] = importance(kind, edge, self._worse, before)
            del left[:count]
        return measured

    def _decide_edges(self):
        """Let the next edge of each kind keep one operation, and all before theirs."""
        measured = self._measure(1)
        for kind, found, kept, (edge,) in zip(
            self._kinds, self._found, self._kept, measured, strict=True
        ):
            values = found[edge]
            if _needs_features(edge, kept, kind.operations):
                values = np.where([is_feature(name) for name in kind.operations], values, -np.inf)
            kept[edge] = int(np.argmax(values))
            for decided, operation in kept.items():
                kind.keep(decided, kind.operations[operation])


def _needs_features(edge: int, kept: dict[int, int], operations: tuple[str, ...]) -> bool:
    """Return whether no other edge of a first tier makes features or still can."""
    for block in range(BLOCKS):
        edges = [first_tier_edge(block, source) for source in SOURCES[block]]
        if edge in edges:
            others = [other for other in edges if other != edge]
            return all(o in kept and not is_feature(operations[kept[o]]) for o in others)
    return False
