"""The genotype that the relaxed cells of a model have decided on."""

import keras

from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import check_finite, flatten_layers
from keras_xd.layers.cells.cell_architecture import CellArchitecture
from keras_xd.layers.cells.genotypes import Genotype
from keras_xd.layers.cells.relaxed_cell import HeterogeneousCell


@check_types
def derived_genotype(model: keras.layers.Layer) -> Genotype:
    """Return what the relaxed cells of a model have decided on so far.

    Args:
        model: a built model with a `HeterogeneousCell` of each kind, all of a kind with the same
            `CellArchitecture`, or a `keras_xd.SearchModel` of it.

    Returns:
        A `keras_xd.genotypes.Genotype`.

    Raises:
        ValueError: if a kind is missing, or cells of a kind have different architecture weights;
            with the relaxation `"perturbation"`, until the cells are decided.

    Example:

    >>> import keras
    >>> from keras_xd import layers
    >>> inputs = keras.Input((8, 8, 3))
    >>> kinds = [layers.CellArchitecture(r, ("identity", "dynamic_3")) for r in (False, True)]
    >>> x = layers.HeterogeneousCell(2, kinds[0])([inputs, inputs])
    >>> x = layers.HeterogeneousCell(2, kinds[1], reduction=True)([inputs, x])
    >>> layers.derived_genotype(keras.Model(inputs, x)).reduction == kinds[1].genotype
    True
    """
    return Genotype(*(architecture.genotype for architecture in architectures_of(model)))


def architectures_of(model: keras.layers.Layer) -> tuple[CellArchitecture, CellArchitecture]:
    """Return the architecture of the normal and that of the reduction cells of a model.

    Args:
        model: as in `derived_genotype`.

    Raises:
        ValueError: if a kind is missing, cells of a kind have different architecture weights, or
            weights are NaN or infinite.

    Example:

    >>> import keras_xd
    >>> from keras_xd.layers.cells.deriving import architectures_of
    >>> model = keras_xd.models.nos_search_network(3, 1, (8, 8, 3), 2)
    >>> [architecture.reduction for architecture in architectures_of(model)]
    [False, True]
    """
    found = {False: {}, True: {}}
    for layer in flatten_layers(model):
        if isinstance(layer, HeterogeneousCell):
            found[layer.reduction][id(layer.architecture)] = layer.architecture
    if any(len(architectures) != 1 for architectures in found.values()):
        raise ValueError(
            "A genotype is that of one normal and one reduction CellArchitecture, each shared by "
            f"all cells of its kind. Received: a model with {len(found[False])} normal and "
            f"{len(found[True])} reduction ones"
        )
    check_finite(model)
    (normal,), (reduction,) = found[False].values(), found[True].values()
    return normal, reduction
