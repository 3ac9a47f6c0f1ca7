"""Log of the genotype of a search of cells, epoch by epoch."""

import json
import pathlib

import keras

from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import flatten_layers
from keras_xd.core.type_aliases import Logs
from keras_xd.core.validation import one_of
from keras_xd.layers.cells.genotypes import Genotype
from keras_xd.layers.cells.relaxed_cell import HeterogeneousCell, architectures_of


class GenotypeLogger(keras.callbacks.Callback):
    """Notes the genotype of a search at the end of every epoch, and how undecided it is.

    The logs get `normal_entropy` and `reduction_entropy`: the entropy of the probabilities of the
    operations on an edge, a mean over the edges, divided by that of equal ones. It is 1 where
    nothing is decided and 0 where one operation has each edge. `genotype_changes` is the number of
    operations of the genotype that are not those of the epoch before, of 24; missing in the first.

    With the relaxation `"perturbation"` it notes what the probabilities would decide on, as long as
    the cells are not decided.

    Args:
        path: a file to which a line of JSON is appended for each epoch, with `epoch` (from 1),
            `genotype` (as of `Genotype.to_dict`) and the entropies; or `None`.
        verbose: 1 prints the genotype whenever it has changed.

    Attributes:
        genotypes: the list of the genotypes of the present `fit`, one for each epoch.

    Example:

    >>> import keras_xd
    >>> import numpy as np
    >>> model = keras_xd.models.nos_search_network(
    ...     3, 1, (8, 8, 3), 2, operations=("identity", "max_pooling_3")
    ... )
    >>> search = keras_xd.SearchModel(model)
    >>> search.compile("sgd", "sgd", "mse", run_eagerly=True)
    >>> logger = keras_xd.callbacks.GenotypeLogger()
    >>> x, y = np.random.default_rng(0).normal(size=(2, 8, 8, 3)), np.ones((2, 2))
    >>> history = search.fit(x, y, callbacks=[logger], verbose=0).history
    >>> logger.genotypes == [keras_xd.layers.derived_genotype(search)]
    True
    >>> round(history["normal_entropy"][0], 2)
    1.0
    """

    @check_types
    def __init__(self, path: str | pathlib.Path | None = None, verbose: int = 0):
        super().__init__()
        self.path = None if path is None else pathlib.Path(path)
        self.verbose = one_of(verbose, (0, 1), "verbose")
        self.genotypes = []

    def on_train_begin(self, logs: Logs = None) -> None:
        self.genotypes = []
        self._architectures = architectures_of(self.model)
        cells = [x for x in flatten_layers(self.model) if isinstance(x, HeterogeneousCell)]
        self._cells = {
            kind: next(cell for cell in cells if cell.reduction == reduction)
            for kind, reduction in (("normal", False), ("reduction", True))
        }

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        genotype = Genotype(*(found.genotype_of_probabilities for found in self._architectures))
        found = {
            f"{kind}_entropy": cell.describe()["entropy/relative"]
            for kind, cell in self._cells.items()
        }
        if self.verbose and genotype not in self.genotypes[-1:]:
            print(f"Epoch {epoch + 1}:\n{genotype}", flush=True)
        if self.genotypes:
            found["genotype_changes"] = changes(self.genotypes[-1], genotype)
        self.genotypes.append(genotype)
        if logs is not None:
            logs.update(found)
        if self.path is not None:
            record = {"epoch": epoch + 1, **found, "genotype": genotype.to_dict()}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")


def changes(before: Genotype, after: Genotype) -> int:
    """Return how many of the 24 operations of a genotype another one has not in the same place."""
    counts = []
    for kind in ("normal", "reduction"):
        pairs = zip(getattr(before, kind).blocks, getattr(after, kind).blocks, strict=True)
        for old, new in pairs:
            counts.append(len(set(old.first) - set(new.first)) + (old.second != new.second))
    return sum(counts)
