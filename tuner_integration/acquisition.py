"""Expected improvement, and the evolution that looks for its maximum."""

import numpy as np
import scipy.special


def expected_improvement(mean, deviation, best):
    """Return the expectation of `max(best - value, 0)` of normally distributed values."""
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
    """Look for the point with the largest score by evolution; return the best that may be taken."""
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
