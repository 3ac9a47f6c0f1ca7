"""Bands with a promise: conformal intervals on samples held out."""

import math
from typing import Any

import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types

# What a product such as 10 · 0.9 may be above the whole number that it is.
_ROUNDING = 1e-9


@check_types
def conformal_margin(
    lower: Any, upper: Any, y_true: Any, coverage: float = 0.9, points: float = 1.0
) -> float:
    """Return by how much a predicted band must be widened to hold for new samples.

    A sample is covered if its values lie in `[lower − margin, upper + margin]` at so many of its
    points. For new samples drawn as those held out this has at least the probability `coverage`,
    whatever the model is:

        margin = the ⌈(n + 1) coverage⌉-th smallest score,   score = max(lower − y, y − upper)

    where a sample's score is the one that a part `points` of its points does not exceed. A negative
    margin narrows the band.

    Args:
        lower: predictions of the lower end on samples held out, an array `(n, …)`; of a model
            trained with `keras_xd.losses.Quantile(0.05)`, say, or a prediction itself.
        upper: predictions of the upper end, of the same shape.
        y_true: the targets, of the same shape.
        coverage: the probability, between 0 and 1.
        points: the part of a sample's points that must be covered, above 0; all by default.

    Returns:
        The margin, a `float`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import evaluation
    >>> y = np.arange(1.0, 20.0).reshape(19, 1)  # errors of 1 to 19
    >>> evaluation.conformal_margin(0 * y, 0 * y, y, coverage=0.9)  # the 18th of 19
    18.0

    Reference:
        Romano, Patterson and Candès, "Conformalized Quantile Regression", 2019; Ma et al.,
        "Calibrated Uncertainty Quantification for Operator Learning via Conformal Prediction",
        2024, for functions.
    """
    coverage = validation.number_within(coverage, "()", 0, 1, "coverage")
    points = validation.number_within(points, "(]", 0, 1, "points")
    arrays = {"lower": lower, "upper": upper, "y_true": y_true}
    arrays = {name: ops.convert_to_numpy(array) for name, array in arrays.items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) > 1 or not arrays["lower"].ndim:
        raise ValueError(f"All three must have the same shape (n, …). Received: {shapes}")
    for name, array in arrays.items():
        validation.check_finite_data(array, name)
    lower, upper, y_true = (array.astype("float64") for array in arrays.values())
    count = len(y_true)
    rank = math.ceil((count + 1) * coverage - _ROUNDING)
    if rank > count:
        least = math.ceil(coverage / (1 - coverage) - _ROUNDING)
        raise ValueError(
            f"A coverage of {coverage} needs at least {least} samples held out. "
            f"Received: {count} samples"
        )
    scores = np.maximum(lower - y_true, y_true - upper).reshape(count, -1)
    covered = math.ceil(points * scores.shape[1] - _ROUNDING)
    scores = np.sort(scores, axis=1)[:, covered - 1]
    return float(np.sort(scores)[rank - 1])
