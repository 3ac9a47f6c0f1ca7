"""The Gaussian process against closed forms, computed with inverse matrices."""

import numpy as np
import pytest

from tuner_integration import gaussian_process
from tuner_integration.gaussian_process import GaussianProcess, log_marginal_likelihood


def radial(a, b, length):
    return np.exp(-0.5 * ((a[:, None] - b) / length) ** 2)


POINTS = np.sort(np.random.default_rng(0).uniform(0, 5, 12))
GRAMS = np.stack([radial(POINTS, POINTS, length) for length in (0.3, 1.0, 3.0)])
TARGETS = 2 + 3 * np.sin(POINTS)


def test_likelihood_is_that_of_the_normal_distribution():
    logits, noise, signal = np.array([0.3, -0.2, 0.1]), 0.05, 1.7
    weights = np.exp(logits) / np.exp(logits).sum()
    covariance = signal * sum(w * g for w, g in zip(weights, GRAMS, strict=True))
    covariance += noise * np.eye(12)
    y = TARGETS - TARGETS.mean()
    determinant = np.linalg.slogdet(2 * np.pi * covariance)[1]
    expected = -0.5 * (y @ np.linalg.inv(covariance) @ y + determinant)
    value, _ = log_marginal_likelihood(GRAMS, y, logits, np.log(noise), np.log(signal))
    np.testing.assert_allclose(value, expected, rtol=1e-8)


def test_gradient_is_that_of_finite_differences():
    parameters = np.array([0.3, -0.2, 0.1, np.log(0.05), np.log(1.7)])
    y = TARGETS - TARGETS.mean()

    def value(p):
        return log_marginal_likelihood(GRAMS, y, p[:-2], *p[-2:])[0]

    steps = 1e-5 * np.eye(5)
    expected = [(value(parameters + s) - value(parameters - s)) / 2e-5 for s in steps]
    gradient = log_marginal_likelihood(GRAMS, y, parameters[:-2], *parameters[-2:])[1]
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)


def test_best_noise_is_the_best_of_the_likelihood():
    y = TARGETS - TARGETS.mean() + np.random.default_rng(0).normal(size=12)
    noise, signal, value = gaussian_process.best_noise(GRAMS[1], y)
    values = {
        (n, s): log_marginal_likelihood(GRAMS[1:2], y, np.zeros(1), np.log(n), np.log(s))[0]
        for n in np.geomspace(*gaussian_process.NOISE_BOUNDS, 12)
        for s in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    }
    np.testing.assert_allclose(value, max(values.values()), rtol=1e-6)
    assert values[noise, signal] == max(values.values())


def test_prediction_is_the_conditional_distribution():
    process = GaussianProcess(GRAMS, TARGETS)
    new = np.array([0.1, 2.2, 4.9, 30.0])
    crosses = np.stack([radial(new, POINTS, length) for length in (0.3, 1.0, 3.0)])
    cross = np.tensordot(process.weights, crosses, axes=1)
    covariance = process.signal * np.tensordot(process.weights, GRAMS, axes=1)
    covariance += process.noise * np.eye(12)
    inverse = np.linalg.inv(covariance)
    mean, deviation = process.predict(cross)
    cross = process.signal * cross
    expected = TARGETS.mean() + cross @ inverse @ (TARGETS - TARGETS.mean())
    np.testing.assert_allclose(mean, expected, rtol=1e-6)
    variance = process.signal - np.einsum("qi,ij,qj->q", cross, inverse, cross)
    np.testing.assert_allclose(deviation, np.sqrt(TARGETS.var() * variance), rtol=1e-5)
    np.testing.assert_allclose(mean[3], TARGETS.mean(), rtol=1e-6)  # far away: what was known


def test_the_fit_finds_the_right_kernel_and_the_noise():
    rng = np.random.default_rng(1)
    points = rng.uniform(0, 20, 80)
    grams = np.stack([radial(points, points, 2.0), radial(points, points, 0.02)])
    process = GaussianProcess(grams, np.sin(points), steps=60)
    assert process.weights[0] > 0.9
    noisy = GaussianProcess(grams[:1], np.sin(points) + 0.3 * rng.normal(size=80), steps=60)
    assert 10 * process.noise < noisy.noise
    assert 0.1 < noisy.noise < 0.35  # 0.09 by 0.59, the targets' variance
    fixed = GaussianProcess(grams, np.sin(points), steps=0)
    np.testing.assert_array_equal(fixed.weights, 0.5)
    assert process.log_likelihood > fixed.log_likelihood


def test_leaving_one_out_is_fitting_without_it():
    process = GaussianProcess(GRAMS, TARGETS + np.random.default_rng(0).normal(size=12))
    covariance = process.signal * np.tensordot(process.weights, GRAMS, axes=1)
    covariance += process.noise * np.eye(12)
    densities = []
    for left in range(12):
        others = np.arange(12) != left
        row = covariance[left, others] @ np.linalg.inv(covariance[np.ix_(others, others)])
        variance = covariance[left, left] - row @ covariance[others, left]
        error = process.targets[left] - row @ process.targets[others]
        densities.append(-0.5 * np.log(2 * np.pi * variance) - 0.5 * error**2 / variance)
    np.testing.assert_allclose(process.leave_one_out(), np.mean(densities), rtol=1e-6)


@pytest.mark.parametrize("targets", [[1.0], [2.0, 2.0], [5.0, 5.0, 5.0]])
def test_equal_targets_are_predicted(targets):
    count = len(targets)
    process = GaussianProcess(GRAMS[:, :count, :count], targets)
    mean, deviation = process.predict(GRAMS[1, 5:7, :count])
    np.testing.assert_allclose(mean, targets[0])
    assert np.isfinite(deviation).all()


def test_pending_points_keep_the_mean_and_lower_the_deviation():
    process = GaussianProcess(GRAMS[:, :9, :9], TARGETS[:9])
    cross = np.tensordot(process.weights, GRAMS, axes=1)
    mean, deviation = process.predict(cross[9:, :9])
    believing = process.believe(GRAMS, 3)
    new_mean, new_deviation = believing.predict(cross[9:])
    np.testing.assert_allclose(new_mean, mean, rtol=0.02)
    assert (new_deviation < 0.9 * deviation).all()
    assert (new_deviation[1:] < 0.1 * deviation[1:]).all()
    everywhere, _ = process.predict(cross[:, :9])
    np.testing.assert_allclose(believing.predict(cross)[0], everywhere, rtol=0.02)


@pytest.mark.parametrize(
    ("grams", "targets"), [(GRAMS[0], TARGETS), (GRAMS, TARGETS[:3]), (GRAMS, TARGETS * np.nan)]
)
def test_shapes_and_values_are_checked(grams, targets):
    with pytest.raises(ValueError, match="must have sizes"):
        GaussianProcess(grams, targets)
