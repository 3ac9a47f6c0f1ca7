"""Expected improvement, and the evolution that looks for its maximum."""

import numpy as np
import scipy.special


def expected_improvement(mean, deviation, best):
    """Return the expectation of `max(best - value, 0)` of normally distributed values.

    Args:
        mean: array.
        deviation: array of standard deviations ≥ 0.
        best: the lowest value so far.

    Example:

    >>> from tuner_integration.acquisition import expected_improvement
    >>> expected_improvement([1.0, 2.0], [0.0, 0.0], best=1.5).tolist()
    [0.5, 0.0]

    Reference:
        Jones, Schonlau and Welch, "Efficient global optimization of expensive black-box
        functions", 1998, equation 15.
    """
    mean, deviation = np.asarray(mean, float), np.asarray(deviation, float)
    gain = best - mean
    safe = np.where(deviation > 0, deviation, 1.0)
    z = gain / safe
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    smooth = gain * scipy.special.ndtr(z) + safe * density
    return np.where(deviation > 0, np.maximum(smooth, 0.0), np.maximum(gain, 0.0))


def evolve(
    score,
    start,
    vary,
    rng,
    refused=(),
    children=40,
    tournament=40,
    generations=10,
    most_generations=50,
    patience=5,
):
    """Look for the point with the largest score by evolution; return the best that may be taken.

    A generation draws a tournament among all points so far; the best two of it are the parents of
    the children. After `generations` it goes on until the best score is the same for `patience`
    generations, or `most_generations` are over.

    Args:
        score: function from a list of points to an array.
        start: list of hashable points.
        vary: function `(first parent, second parent, rng)` to a point.
        rng: a `numpy.random.Generator`.
        refused: container of the points that may be parents but not the result.
        children: number of new points in a generation.
        tournament: number of points that are drawn.
        generations: least number of generations.
        most_generations: largest number of generations.
        patience: see above.

    Returns:
        The point, `None` if all that were found are refused.

    Example:

    >>> import numpy as np
    >>> from tuner_integration.acquisition import evolve
    >>> evolve(
    ...     score=lambda points: -np.square(np.array(points) - 70),
    ...     start=[0, 100],
    ...     vary=lambda a, b, rng: int(rng.integers(min(a, b) - 5, max(a, b) + 6)),
    ...     rng=np.random.default_rng(0),
    ...     refused={70},
    ... ) in (69, 71)
    True

    Reference:
        Schrodi et al., "Towards discovering neural architectures from scratch", 2022, appendix.
    """
    points = list(dict.fromkeys(start))
    if not points:
        return None
    scores = list(score(points))
    known = set(points)
    best, unchanged = None, 0
    for generation in range(most_generations):
        drawn = rng.choice(len(points), min(tournament, len(points)), replace=False)
        drawn = sorted(drawn.tolist(), key=lambda index: (-scores[index], index))
        parents = points[drawn[0]], points[drawn[min(1, len(drawn) - 1)]]
        new = []
        for _ in range(children):
            child = vary(*parents, rng)
            if child not in known:
                known.add(child)
                new.append(child)
        if new:
            scores.extend(score(new))
            points.extend(new)
        before, best = best, _best(points, scores, refused)
        unchanged = unchanged + 1 if best == before else 0
        if generation + 1 >= generations and unchanged >= patience:
            break
    return None if best is None else points[best]


def _best(points, scores, refused):
    """Index of the best point that is not refused, the first of equal ones."""
    for index in sorted(range(len(points)), key=lambda index: (-scores[index], index)):
        if points[index] not in refused:
            return index
    return None
