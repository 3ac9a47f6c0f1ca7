"""A cosine transform as a K-matrix: made of sparse factors exactly, and learned.

    python examples/gallery/dct_factors.py

The discrete cosine transform II of 16 points is the real part of a K-matrix of depth 4, whose
butterflies have four sparse factors each; the picture shows where the butterflies differ from zero,
and their product. Below, K-matrices of depth 1, 2 and 3 that begin at random are fitted to the
same transform by gradient descent (Adam on the squared error of all entries). Measured: the
relative error of the exact product in float32, and of the learned ones after each step, for 3
random starts each. Few reach the transform: the problem is not convex, and more depth does not
make it easy.
"""

import common
import keras
import numpy as np

from keras_xd import kmatrix


def transform(n):
    """Return the orthonormal cosine transform II by its definition."""
    k, t = np.arange(n)[:, None], np.arange(n)
    matrix = np.sqrt(2 / n) * np.cos(np.pi * k * (2 * t + 1) / (2 * n))
    matrix[0] /= np.sqrt(2)
    return matrix


def relative_error(matrix, target):
    return float(np.linalg.norm(matrix - target) / np.linalg.norm(target))


def learned(target, depth, seed, steps, rate=0.02):
    """Return the relative error after each step of a fit from a random start."""
    plan = kmatrix.plan(len(target), depth=depth)
    rng = np.random.default_rng(seed)
    start = [kmatrix.random_unitary(plan.radices, rng) for _ in range(depth)]
    weights = keras.Variable(kmatrix.kmatrix_weights(start))
    model = Fit(weights, plan, depth)
    model.compile(common.adam(rate, steps), "mse", jit_compile=False)
    identity = np.eye(len(target), dtype="float32")
    errors = []
    for _ in range(10):
        data = np.repeat(identity[None], steps // 10, axis=0)
        goals = np.repeat(target[None].astype("float32"), steps // 10, axis=0)
        losses = Losses()
        model.fit(data, goals, batch_size=1, shuffle=False, verbose=0, callbacks=[losses])
        errors += losses.values
    # The mean of n² squares, of a target whose squares add up to n.
    return np.sqrt(np.array(errors) * len(target))
