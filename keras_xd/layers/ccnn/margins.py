"""Margins of dynamic rendering, within which masks can grow until the next update."""

import math
from collections.abc import Sequence

Supports = Sequence[tuple[int, int]]


def widened_supports(
    supports: Supports, margin: float, points: Sequence[int]
) -> list[tuple[int, int]]:
    """Return `(start, stop)` of each axis with room on both sides, within the points there are."""
    rooms = [math.ceil(margin * (stop - start)) for start, stop in supports]
    return [
        (max(0, start - room), min(n, stop + room))
        for (start, stop), room, n in zip(supports, rooms, points, strict=True)
    ]


def widened_counts(counts: Sequence[int], margin: float, points: int) -> tuple[int, ...]:
    """Return how many of the first points are computed of an axis of so many, for each count."""
    return tuple(min(points, count + math.ceil(margin * count)) for count in counts)


def overlap(supports: Supports, others: Supports) -> list[tuple[int, int]]:
    """Return `(start, stop)` of what two supports have in common along each axis."""
    pairs = zip(supports, others, strict=True)
    return [(max(a, c), min(b, d)) for (a, b), (c, d) in pairs]
