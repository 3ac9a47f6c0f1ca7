"""How far dynamic rendering computes beyond its masks, so that they can grow until the next update.

What is computed beyond a mask is zero; it has gradients as soon as the mask reaches it.
"""

import math
from collections.abc import Sequence

from keras_xd.core import validation

Supports = Sequence[tuple[int, int]]


def checked(margin: float) -> float:
    """Return `margin` if it is a number of 0 or more.

    Raises:
        ValueError: if it is not.

    Example:

    >>> from keras_xd.layers.ccnn import margins
    >>> margins.checked(0.25)
    0.25
    """
    if not 0 <= validation.real_number(margin, "margin") < math.inf:
        raise ValueError(f"`margin` must be a number of 0 or more. Received: margin={margin!r}")
    return margin


def widened_supports(
    supports: Supports, margin: float, points: Sequence[int]
) -> list[tuple[int, int]]:
    """Return `(start, stop)` of each axis with room on both sides, within the points there are.

    Args:
        supports: `(start, stop)` of each axis.
        margin: room at each side, as a share of what is used; at least one point unless it is 0.
        points: number of points of each axis.

    Example:

    >>> from keras_xd.layers.ccnn import margins
    >>> margins.widened_supports([(14, 19)], 0.25, [33])  # 5 taps, 2 more at each side
    [(12, 21)]
    """
    rooms = [math.ceil(margin * (stop - start)) for start, stop in supports]
    return [
        (max(0, start - room), min(n, stop + room))
        for (start, stop), room, n in zip(supports, rooms, points, strict=True)
    ]


def widened_counts(counts: Sequence[int], margin: float, points: int) -> tuple[int, ...]:
    """Return how many of the first points are computed of an axis of so many, for each count.

    Example:

    >>> from keras_xd.layers.ccnn import margins
    >>> margins.widened_counts((5, 10, 24), 0.25, 24)
    (7, 13, 24)
    """
    return tuple(min(points, count + math.ceil(margin * count)) for count in counts)


def overlap(supports: Supports, others: Supports) -> list[tuple[int, int]]:
    """Return `(start, stop)` of what two supports have in common along each axis.

    Example:

    >>> from keras_xd.layers.ccnn import margins
    >>> margins.overlap([(12, 21)], [(14, 25)])
    [(14, 21)]
    """
    pairs = zip(supports, others, strict=True)
    return [(max(a, c), min(b, d)) for (a, b), (c, d) in pairs]
