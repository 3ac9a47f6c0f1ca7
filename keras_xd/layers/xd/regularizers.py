"""Penalties on the architecture of a search: near its start, or K-matrices near permutations."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import searchable_layers
from keras_xd.core.type_aliases import Tensor
from keras_xd.kmatrix import constructions
from keras_xd.kmatrix.radix import Plan

__all__ = [
    "ArchitecturePenalty",
    "NearPermutation",
    "NearStart",
    "attach",
    "bound",
]


class ArchitecturePenalty(keras.regularizers.Regularizer):
    """Base class of a regularizer of architecture weights that must know what a weight means.

    A layer gives it to none of its weights as it is, but binds it to each: see `bound`.

    Args:
        weight: factor of the penalty in the loss, at least 0.
    """

    def __init__(self, weight: float):
        self.weight = float(validation.nonnegative_number(weight, "weight"))

    def bind(
        self, start: np.ndarray, plan: Plan | None = None
    ) -> Callable[[Tensor], Tensor] | None:
        """Return a function from one architecture weight to its penalty, or `None` for none.

        `start` is where the search begins; `plan` that of a K-matrix, `None` for `b` and `C`.
        """
        raise TypeError(f"{type(self).__name__} must implement `bind`.")

    def __call__(self, x: Tensor) -> Tensor:
        raise ValueError(
            f"{type(self).__name__} must be bound to a weight before it is called, because it "
            "needs to know the weight's start and structure: give it to a layer as "
            "`architecture_regularizer`, or to `keras_xd.regularizers.attach`. "
            f"Received: weights of shape {tuple(x.shape)}"
        )

    def get_config(self) -> dict[str, Any]:
        return {"weight": self.weight}


@keras.saving.register_keras_serializable(package="keras_xd")
class NearStart(ArchitecturePenalty):
    """Keeps an operation near where its search began.

    Adds `weight · Σ (a − a_start)²` to the loss, over all entries of the weights of `K`, `L`, `M`,
    `b` and `C`: the squared Euclidean distance of `keras_xd.operation_distance`, as
    `keras.regularizers.L2` has that from zero. An operation that begins as the convolution of a
    good backbone then needs a reason in the data to leave it.

    Args:
        weight: factor of the penalty in the loss.

    Example:

    >>> import keras_xd
    >>> layer = keras_xd.layers.XDConv1D(2, 3)
    >>> layer.build((None, 8, 2))
    >>> _ = keras_xd.regularizers.attach(layer, keras_xd.regularizers.NearStart(0.1))
    >>> float(sum(layer.losses))
    0.0

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, section 4.
    """

    def __init__(self, weight: float = 1e-3):
        super().__init__(weight)

    def bind(self, start: np.ndarray, plan: Plan | None = None) -> Callable[[Tensor], Tensor]:
        """Return the penalty of a weight that began as `start`."""
        begin = np.array(start)
        return lambda x: self.weight * ops.sum(ops.square(x - ops.cast(begin, x.dtype)))


@keras.saving.register_keras_serializable(package="keras_xd")
class NearPermutation(ArchitecturePenalty):
    """Draws K-matrices towards permutations, such as the one that unscrambles permuted images.

    A permutation is the product of butterflies whose blocks are permutations (of depth 2: see
    `kmatrix.permutation`), so the measure is taken block by block, in every stage. An `r × r` block
    `T`, real part `t` and imaginary part `s`, costs

        Σ_ab [ t_ab² (1 − t_ab)² + s_ab² ] + Σ_a (Σ_b t_ab − 1)² + Σ_b (Σ_a t_ab − 1)²

    which is 0 if and only if `T` is a permutation matrix. `weight` times the sum over all blocks
    is added to the loss. Costs of 0 make the product a permutation; a permutation made up of other
    stages (an `i` here and a `−i` there) costs something though.

    The first butterfly of each K-matrix, the one at the frequencies, is left free: it is the
    Fourier transform of a convolution. So operations are drawn towards convolutions of permuted
    inputs with permuted outputs, and need a depth of at least 3 for all of them. `b` and `C` are
    not penalised.

    Args:
        weight: factor of the penalty in the loss.
        free: how many butterflies of each K-matrix are left free; 0 for a matrix that is to be a
            permutation as a whole.

    Example:

    >>> from keras_xd import kmatrix, regularizers
    >>> shuffle = kmatrix.KMatrix.permutation([3, 1, 0, 2, 5, 4])
    >>> penalty = regularizers.NearPermutation(0.1, free=0).bind(
    ...     shuffle.weights, shuffle.plan
    ... )
    >>> float(penalty(shuffle.weights)), float(penalty(0 * shuffle.weights)) > 0
    (0.0, True)

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, footnote 8, names
        the aim; the measure is this package's. Dao et al., "Kaleidoscope", 2020, section 3.
    """

    def __init__(self, weight: float = 1e-3, free: int = 1):
        super().__init__(weight)
        self.free = validation.nonnegative_integer(free, "free")

    def bind(
        self, start: np.ndarray, plan: Plan | None = None
    ) -> Callable[[Tensor], Tensor] | None:
        """Return the penalty of a K-matrix of a plan; `None` for weights that are none."""
        if plan is None or len(start) <= self.free:
            return None
        return lambda x: self.weight * _permutation_cost(x[self.free :], plan.radices)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "free": self.free}


def bound(
    regularizer: keras.regularizers.Regularizer | None, start: np.ndarray, plan: Plan | None = None
) -> Callable[[Tensor], Tensor] | None:
    """Return what a layer gives to `add_weight(regularizer=…)` for one architecture weight.

    An `ArchitecturePenalty` is bound to it; any other regularizer is taken as it is.
    """
    if isinstance(regularizer, ArchitecturePenalty):
        return regularizer.bind(start, plan)
    return regularizer


@check_types
def attach(
    model: keras.layers.Layer, penalty: keras.regularizers.Regularizer | None
) -> keras.layers.Layer:
    """Add a penalty to the architecture of all XD- and K-operations in a built model, in place.

    The values at the time of the call count as the start. A penalty of the layers themselves
    (`architecture_regularizer`) is replaced. Attached penalties are not saved with the model.

    Args:
        model: a built model (a `SearchModel` too) or a single layer.
        penalty: a `NearStart` or `NearPermutation`, a Keras regularizer, or `None` to remove one.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> space = keras.Sequential(
    ...     [keras.Input((9, 1)), keras_xd.layers.XDConv1D(2, 3, depth=3)]
    ... )
    >>> _ = keras_xd.regularizers.attach(
    ...     space, keras_xd.regularizers.NearPermutation(1e-2)
    ... )
    >>> len(space.losses)  # one for each K-matrix
    3
    """
    layers = [layer for layer in searchable_layers(model) if hasattr(layer, "plans")]
    if not layers:
        raise ValueError(
            "`model` must have XD- or K-operations and be built: see `keras_xd.rewrite`. "
            f"Received: model={model!r}"
        )
    for layer in layers:
        matrices = 3 * len(layer.plans)
        for index, variable in enumerate(layer.architecture_variables):
            plan = layer.plans[index % len(layer.plans)] if index < matrices else None
            variable.regularizer = bound(penalty, ops.convert_to_numpy(variable), plan)
    return model


def _permutation_cost(weights, radices):
    """Return the sum of all blocks' costs of butterflies packed by `kmatrix_weights`."""
    total, place = 0.0, 0
    for outer, inner, r, _ in constructions.stage_shapes(radices):
        size = outer * inner * r * r
        stage = ops.reshape(weights[:, :, place : place + size], (-1, 2, outer, r, r, inner))
        real, imaginary = ops.unstack(stage, axis=1)
        total = total + ops.sum(ops.square(real * (1.0 - real))) + ops.sum(ops.square(imaginary))
        for axis in (2, 3):
            total = total + ops.sum(ops.square(ops.sum(real, axis=axis) - 1.0))
        place += size
    return total
