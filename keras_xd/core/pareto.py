"""Several objectives at once: what no other dominates, and one number for a whole front."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from keras_xd.core.argument_types import check_types


def lower_is_better(values: ArrayLike, directions: Sequence[str] | None = None) -> np.ndarray:
    """Return an array `(points, objectives)` in which lower is better and NaN is infinite."""
    array = np.asarray(values, float)
    if array.ndim != 2:
        raise ValueError(
            f"`values` must be an array (points, objectives). Received: shape={array.shape}"
        )
    directions = ["min"] * array.shape[1] if directions is None else list(directions)
    if len(directions) != array.shape[1] or not set(directions) <= {"min", "max"}:
        raise ValueError(
            '`directions` must be "min" or "max" for each objective. '
            f"Received: directions={directions!r} for {array.shape[1]} objectives"
        )
    array = array * [1.0 if direction == "min" else -1.0 for direction in directions]
    return np.where(np.isnan(array), np.inf, array)


@check_types
def nondominated(values: ArrayLike, directions: Sequence[str] | None = None) -> list[int]:
    """Return the indices of the points that no other point dominates: the Pareto front."""
    array = lower_is_better(values, directions)
    unknown = np.isnan(np.asarray(values, float)).any(axis=1)
    front: list[int] = []
    # In lexicographic order nothing later dominates what came before.
    for index in sorted(range(len(array)), key=lambda index: (*array[index], index)):
        if not unknown[index] and not any((array[i] <= array[index]).all() for i in front):
            front.append(index)
    return front
