"""Operations of cells chosen by what the network loses without them."""

from typing import Any

from keras_xd.core.argument_types import check_types
from keras_xd.layers.cells.genotypes import Genotype
from keras_xd.training.callbacks.perturbation_selection import PerturbationSelection
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
    selection = PerturbationSelection(x, y, metric=metric, mode=mode, batch_size=batch_size)
    selection.set_model(search)
    selection.set_params({"epochs": 1})
    selection.on_train_begin()
    selection.on_train_end()
    return selection.genotype
