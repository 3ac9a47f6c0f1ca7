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
    """Let the relaxed cells of a trained search decide by what removing an operation costs.

    Shares say how fast an operation trained more than how much the network needs it. So every
    operation is removed by itself, from one edge of all cells of a kind, its probability given to
    the edge's others in proportion, and the network evaluated: with the metric `m`

        importance(edge, operation) = ± ( m(without it) - m(with all) )

    positive where the network gets worse. The cells are derived by the rule of
    `keras_xd.genotypes.derive_cell` with the importance in place of the weights. The logits are
    changed to say so: `keras_xd.finalize` and `keras_xd.layers.derived_genotype` then give these
    cells, and files of the model or of its architecture hold them. That takes one evaluation for
    each operation of each of the 18 edges of both kinds, and one more. All edges are measured in
    the trained network; the paper decides on one edge after the other and trains in between, as
    `keras_xd.callbacks.PerturbationSelection` does if it is told to.

    Args:
        search: a compiled and trained `keras_xd.SearchModel` of cells with the relaxation
            `"perturbation"`, `"softmax"` or `"partial"`.
        x: held-out samples, as in `evaluate`: arrays, or a data set that can be gone through again
            and again.
        y: their targets, if `x` has none.
        metric: the name of a result of `evaluate`.
        mode: `"min"` if less is better, or `"max"`.
        batch_size: as in `evaluate`.

    Returns:
        The `keras_xd.genotypes.Genotype`.

    Example:

    >>> import keras_xd
    >>> import numpy as np
    >>> names = ("identity", "max_pooling_3")
    >>> model = keras_xd.models.nos_search_network(
    ...     3, 1, (8, 8, 3), 2, operations=names, relaxation="perturbation"
    ... )
    >>> search = keras_xd.SearchModel(model)
    >>> search.compile("sgd", "sgd", "mse", jit_compile=False)
    >>> x, y = np.random.rand(4, 8, 8, 3), np.random.rand(4, 2)
    >>> found = keras_xd.training.decide_by_perturbation(search, x, y)
    >>> found == keras_xd.layers.derived_genotype(search)
    True

    Reference:
        Wang et al., "Rethinking Architecture Selection in Differentiable NAS", 2021.
    """
    selection = PerturbationSelection(x, y, metric=metric, mode=mode, batch_size=batch_size)
    selection.set_model(search)
    selection.set_params({"epochs": 1})
    selection.on_train_begin()
    selection.on_train_end()
    return selection.genotype
