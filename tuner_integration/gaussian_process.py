"""Gaussian process on Gram matrices, with few hyperparameters. NumPy and SciPy only."""

import numpy as np
import scipy.linalg
import scipy.special
from numpy.typing import ArrayLike

# Not scikit-learn's regressor: it takes vectors of features, not weighted Gram matrices of graph
# kernels that are computed once.
# Standardised targets have a variance of 1, so neither bound of the noise holds back a fit. Kernels
# of alike things are close to 1 everywhere: their variance may have to exceed that of the targets.
NOISE_BOUNDS = (1e-5, 2.0)
SIGNAL_BOUNDS = (0.1, 20.0)
_SIGNALS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_TINY = 1e-10


def log_marginal_likelihood(
    grams: np.ndarray,
    targets: np.ndarray,
    logits: np.ndarray,
    log_noise: float,
    log_signal: float = 0.0,
) -> tuple[float, np.ndarray]:
    """Return the logarithm of the marginal likelihood and its gradient."""
    noise, signal = np.exp(log_noise), np.exp(log_signal)
    weights = signal * scipy.special.softmax(logits)
    factor = _factor(grams, weights, noise)
    alpha = scipy.linalg.cho_solve(factor, targets)
    value = -0.5 * (targets @ alpha + len(targets) * np.log(2 * np.pi))
    value -= np.log(np.diag(factor[0])).sum()
    inner = np.outer(alpha, alpha) - scipy.linalg.cho_solve(factor, np.eye(len(targets)))
    slopes = 0.5 * np.tensordot(grams, inner, axes=2)
    by_signal = weights @ slopes
    by_logits = weights * (slopes - by_signal / signal)
    return value, np.append(by_logits, [0.5 * noise * np.trace(inner), by_signal])


def _factor(grams, weights, noise):
    covariance = np.tensordot(weights, grams, axes=1)
    covariance[np.diag_indices_from(covariance)] += noise + _TINY
    return scipy.linalg.cho_factor(covariance, lower=True)


def best_noise(gram: np.ndarray, targets: np.ndarray) -> tuple[float, float, float]:
    """Return the variances of noise and signal with the largest likelihood, of a few, and that."""
    values, vectors = np.linalg.eigh(gram)
    squares = (targets @ vectors) ** 2
    noises = np.geomspace(*NOISE_BOUNDS, 12)
    pairs = [(noise, signal) for signal in _SIGNALS for noise in noises]
    noise, signal = np.transpose(pairs)[..., None]
    variances = signal * np.maximum(values, 0) + noise + _TINY
    likelihoods = -0.5 * (squares / variances + np.log(2 * np.pi * variances)).sum(1)
    index = int(np.argmax(likelihoods))
    return float(pairs[index][0]), float(pairs[index][1]), float(likelihoods[index])


class GaussianProcess:
    """Regression with a weighted sum of kernels of unit diagonal, and noise.

    The weights (a softmax, equal at first) and the variances of function and noise maximise the
    marginal likelihood by a few steps of Adam. Targets, shape `(n,)`, are standardised here; Gram
    matrices have the shape `(kernels, n, n)`.
    """

    def __init__(
        self, grams: ArrayLike, targets: ArrayLike, steps: int = 20, learning_rate: float = 0.1
    ):
        grams, targets = np.asarray(grams, float), np.asarray(targets, float)
        if (
            grams.ndim != 3
            or grams.shape[1:] != 2 * targets.shape
            or not np.isfinite(targets).all()
        ):
            raise ValueError(
                "Gram matrices and finite targets must have sizes (kernels, n, n) and (n,). "
                f"Received: shapes {grams.shape} and {targets.shape}"
            )
        self.grams = grams
        self.mean = targets.mean()
        self.scale = targets.std() if targets.std() > 1e-12 else 1.0
        self.targets = (targets - self.mean) / self.scale
        noise, signal, _ = best_noise(grams.mean(0), self.targets)
        parameters = np.append(np.zeros(len(grams)), np.log([noise, signal]))
        parameters = self._fitted(parameters, steps, learning_rate)
        self.weights = scipy.special.softmax(parameters[:-2])
        self.noise, self.signal = np.exp(parameters[-2:]).tolist()
        self._solve()

    def _fitted(self, parameters, steps, learning_rate):
        """Parameters after the steps of Adam with the largest likelihood, the first included."""
        first, second = np.zeros_like(parameters), np.zeros_like(parameters)
        lowest, highest = np.log([NOISE_BOUNDS, SIGNAL_BOUNDS]).T
        best, best_value = parameters, -np.inf
        for step in range(1, steps + 2):
            value, slope = log_marginal_likelihood(
                self.grams, self.targets, parameters[:-2], *parameters[-2:]
            )
            if value > best_value:
                best, best_value = parameters, value
            first = 0.9 * first + 0.1 * slope
            second = 0.999 * second + 0.001 * slope**2
            rate = learning_rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            parameters = parameters + rate * first / (np.sqrt(second) + 1e-8)
            parameters[-2:] = np.clip(parameters[-2:], lowest, highest)
        self.log_likelihood = float(best_value)
        return best

    def _solve(self):
        self._cholesky = _factor(self.grams, self.signal * self.weights, self.noise)
        self._alpha = scipy.linalg.cho_solve(self._cholesky, self.targets)

    def predict(self, cross: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and deviation at new points, by the kernels' sum `(new points, n)`."""
        cross = self.signal * cross
        mean = self.mean + self.scale * (cross @ self._alpha)
        left = scipy.linalg.solve_triangular(self._cholesky[0], cross.T, lower=True)
        variance = np.maximum(self.signal - (left**2).sum(0), 0.0)
        return mean, self.scale * np.sqrt(variance)

    def left_out(self) -> np.ndarray:
        """Return the predictions of the targets, each by all others; see `leave_one_out`."""
        return self.mean + self.scale * (self.targets - self._left_out()[0])

    def _left_out(self):
        """Errors of standardised targets, each predicted by all others, and their precisions."""
        precisions = np.diag(scipy.linalg.cho_solve(self._cholesky, np.eye(len(self.targets))))
        return self._alpha / precisions, precisions

    def leave_one_out(self) -> float:
        """Return the mean log density of targets, each predicted by all others."""
        errors, precisions = self._left_out()
        return float(np.mean(0.5 * np.log(precisions / (2 * np.pi)) - 0.5 * errors**2 * precisions))

    def believe(self, grams: ArrayLike, count: int) -> "GaussianProcess":
        """Return the process that also has observed its own mean at `count` pending points."""
        other = object.__new__(GaussianProcess)
        other.__dict__.update(self.__dict__)
        other.grams = np.asarray(grams, float)
        known = len(self.targets)
        cross = np.tensordot(self.weights, other.grams[:, known:, :known], axes=1) * self.signal
        other.targets = np.append(self.targets, cross.reshape(count, known) @ self._alpha)
        other._solve()
        return other
