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
    front = []
    # In lexicographic order nothing later dominates what came before.
    for index in sorted(range(len(array)), key=lambda index: (*array[index], index)):
        if not unknown[index] and not any((array[i] <= array[index]).all() for i in front):
            front.append(index)
    return front


@check_types
def hypervolume(
    values: ArrayLike, reference: Sequence[float], directions: Sequence[str] | None = None
) -> float:
    """Return the volume between points and a reference that is worse than they."""
    array = lower_is_better(values, directions)
    if len(reference) != array.shape[1]:
        raise ValueError(
            "`reference` must have a value for each objective. "
            f"Received: reference={reference!r} for {array.shape[1]} objectives"
        )
    corner = lower_is_better([list(reference)], directions)[0]
    return _volume(array[(array < corner).all(axis=1)], corner)


def _volume(array, corner):
    """The volume by slices along the last objective."""
    if not len(array):
        return 0.0
    if array.shape[1] == 1:
        return float(corner[0] - array[:, 0].min())
    total, array = 0.0, array[np.argsort(array[:, -1], kind="stable")]
    ends = [*array[1:, -1], corner[-1]]
    for count, (row, end) in enumerate(zip(array, ends, strict=True), start=1):
        if end > row[-1]:
            total += (end - row[-1]) * _volume(array[:count, :-1], corner[:-1])
    return float(total)
