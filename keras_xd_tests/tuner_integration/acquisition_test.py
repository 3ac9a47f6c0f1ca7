"""Expected improvement against integrals, the evolution on functions with known maximum."""

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from tuner_integration.acquisition import evolve, expected_improvement


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 1.0), (1.5, 0.3), (-2.0, 0.5), (3.0, 2.0)])
def test_expected_improvement_is_the_integral(mean, deviation):
    density = scipy.stats.norm(mean, deviation).pdf
    expected, _ = scipy.integrate.quad(
        lambda y: (0.7 - y) * density(y), mean - 20, 0.7, points=[mean]
    )
    actual = expected_improvement([mean], [deviation], 0.7)[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-9)


def test_expected_improvement_without_deviation():
    actual = expected_improvement([0.5, 0.7, 0.9], [0.0, 0.0, 0.0], 0.7)
    np.testing.assert_allclose(actual, [0.2, 0, 0])


def flip(a, b, rng):
    """A child of two tuples of bits."""
    mixed = [x if rng.random() < 0.5 else y for x, y in zip(a, b, strict=True)]
    mixed[int(rng.integers(len(mixed)))] ^= 1
    return tuple(mixed)


def ones(points):
    return np.array([sum(point) for point in points], float)


def test_the_evolution_climbs():
    rng = np.random.default_rng(0)
    start = [tuple(rng.integers(2, size=30).tolist()) for _ in range(50)]
    found = evolve(ones, start, flip, rng)
    assert sum(found) == 30


def test_refused_points_are_not_returned_and_nothing_is_scored_twice():
    rng = np.random.default_rng(0)
    scored = []

    def score(points):
        scored.extend(points)
        return ones(points)

    start = [(0,) * 4, (0, 1, 0, 1), (0,) * 4]
    refused = {(1, 1, 1, 1), (1, 1, 1, 0)}
    found = evolve(score, start, flip, rng, refused=refused)
    assert sum(found) == 3 and found not in refused
    assert len(scored) == len(set(scored)) <= 16
    everything = {point for point in np.ndindex(2, 2, 2, 2)}
    assert evolve(score, start, flip, rng, refused=everything) is None
    assert evolve(score, [], flip, rng) is None


def test_the_number_of_generations_is_bounded():
    batches = []

    def score(points):
        batches.append(len(points))
        return np.arange(sum(batches) - len(points), sum(batches), dtype=float)  # always better

    evolve(score, [0], lambda a, b, rng: int(rng.integers(10**9)), np.random.default_rng(0))
    assert len(batches) == 51
    batches.clear()

    def constant(points):
        batches.append(len(points))
        return np.zeros(len(points))

    evolve(constant, [0], lambda a, b, rng: int(rng.integers(10**9)), np.random.default_rng(0))
    assert len(batches) == 11


def test_the_parents_are_the_best_two_of_a_tournament():
    parents = []

    def vary(a, b, rng):
        parents.append((a, b))
        return a

    start = [3, 9, 1, 7, 5]
    rng = np.random.default_rng(0)
    assert evolve(lambda points: np.array(points, float), start, vary, rng) == 9
    assert set(parents) == {(9, 7)}
    parents.clear()
    evolve(lambda points: np.array(points, float), start, vary, rng, tournament=2)
    assert len(set(parents)) > 2 and all(a > b for a, b in parents)
