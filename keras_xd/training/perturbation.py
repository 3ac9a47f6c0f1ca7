"""Operations of cells chosen by what the network loses without them."""

from typing import Any

import numpy as np

from keras_xd.core.argument_types import check_types
from keras_xd.layers.cells.genotypes import EDGES, Genotype
from keras_xd.training.operation_ablation import (
    badness,
    importance,
    most_missed,
    removable_architectures,
)
from keras_xd.training.search_model import SearchModel


@check_types
def decide_by_perturbation(
    search: SearchModel,
    x: Any,
    y: Any = None,
    *,
    metric: str = "loss",
    mode: str = "min",
    batch_size: int | None = None,
) -> Genotype:
    """Decide on the cells of a trained search as `PerturbationSelection` does, after `fit`.

    Takes a compiled `keras_xd.SearchModel` and the arguments of the callback; returns the genotype.
    """
    worse = badness(search, x, y, metric, mode, batch_size)
    kinds = removable_architectures(search)
    before, cells = worse(), []
    for architecture in kinds:
        found = np.stack([importance(architecture, edge, worse, before) for edge in range(EDGES)])
        cells.append(most_missed(found, architecture.operations))
    for architecture, cell in zip(kinds, cells, strict=True):
        architecture.decide(cell)
    return Genotype(*cells)
