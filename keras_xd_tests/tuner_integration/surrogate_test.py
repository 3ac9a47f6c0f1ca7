"""The surrogate against its covariance written out, and on a function of terms."""

import keras_tuner as kt
import numpy as np
import pytest

from keras_xd.grammar import operation_graph, spaces
from tuner_integration.kernels import HierarchicalKernel
from tuner_integration.points import PointSpace
from tuner_integration.surrogate import Surrogate

CELLS = spaces.nas_bench_201_cell()


def sample(count, ordinary, seed=0):
    hyperparameters = kt.HyperParameters()
    if ordinary:
        hyperparameters.Float("rate", 0.0, 1.0)
    space, rng = PointSpace({"a": CELLS, "b": CELLS}, hyperparameters), np.random.default_rng(seed)
    return space, [space.sample(rng) for _ in range(count)]


def target(point):
    values = dict(point)
    operations, _ = operation_graph(values["a"])
    return operations.count("conv3x3") + 3 * np.square(values.get("rate", 0) - 0.3)


def surrogate_of(space):
    return Surrogate({name: HierarchicalKernel((0,), iterations=2) for name in "ab"}, space)


@pytest.mark.parametrize("ordinary", [False, True])
@pytest.mark.parametrize("pending", [0, 3])
def test_predictions_are_those_of_the_written_out_covariance(ordinary, pending):
    space, points = sample(30, ordinary)
    observed, waiting, new = points[:20], points[20 : 20 + pending], points[25:]
    targets = np.array([target(point) for point in observed])
    surrogate = surrogate_of(space)
    surrogate.fit(observed, targets, waiting)
    known = observed + waiting
    grams = []
    for name, kernel in surrogate.kernels.items():
        features = [kernel.features(dict(point)[name]) for point in known + new]
        folded, whole = kernel.grams(features)
        grams += [*folded, whole[surrogate._depths[name]]]
    if ordinary:
        rates = np.array([dict(point)["rate"] for point in known + new])
        radial = np.exp(-0.5 * ((rates[:, None] - rates) / surrogate._length) ** 2)
        grams += [gram * radial for gram in grams] + [radial]
    process = surrogate.process
    assert len(process.weights) == len(grams)
    covariance = sum(w * g for w, g in zip(process.weights, grams, strict=True))

    def solved(count, values):
        noisy = covariance[:count, :count] + process.noise * np.eye(count)
        return np.linalg.solve(noisy, (values - targets.mean()) / targets.std())

    def mean(rows, alpha):
        return targets.mean() + targets.std() * covariance[rows, : len(alpha)] @ alpha

    alpha = solved(20, targets)
    np.testing.assert_allclose(surrogate.best, mean(slice(0, 20), alpha).min(), rtol=1e-6)
    values = np.append(targets, mean(slice(20, len(known)), alpha))
    alpha = solved(len(known), values)
    rows = slice(len(known), None)
    predicted, deviation = surrogate.predict(new)
    np.testing.assert_allclose(predicted, mean(rows, alpha), rtol=1e-6)
    inverse = np.linalg.inv(
        covariance[: len(known), : len(known)] + process.noise * np.eye(len(known))
    )
    cross = covariance[rows, : len(known)]
    variance = 1 - np.einsum("qi,ij,qj->q", cross, inverse, cross)
    np.testing.assert_allclose(deviation, targets.std() * np.sqrt(variance), rtol=1e-5)


@pytest.mark.parametrize("ordinary", [False, True])
def test_it_learns_what_counts(ordinary):
    space, points = sample(80, ordinary, seed=1)
    targets = np.array([target(point) for point in points])
    surrogate = surrogate_of(space)
    surrogate.fit(points[:50], targets[:50])
    mean, _ = surrogate.predict(points[50:])
    assert np.corrcoef(mean, targets[50:])[0, 1] > 0.85


def test_one_observation_is_enough():
    space, points = sample(5, True)
    surrogate = surrogate_of(space)
    surrogate.fit(points[:1], [2.0], points[1:3])
    assert np.isfinite(surrogate.improvement(points)).all()
