"""The surrogate against its covariance written out, and on a function of terms."""

import keras_tuner as kt
import numpy as np
import pytest

from keras_xd.grammar import spaces
from keras_xd.grammar.graphs import network_graph
from tuner_integration.kernels import HierarchicalKernel
from tuner_integration.points import PointSpace
from tuner_integration.surrogate import Surrogate, _better_process

CELLS = spaces.nas_bench_201_cell()


def sample(count, ordinary, seed=0):
    hyperparameters = kt.HyperParameters()
    if ordinary:
        hyperparameters.Float("rate", 0.0, 1.0)
    space, rng = PointSpace({"a": CELLS, "b": CELLS}, hyperparameters), np.random.default_rng(seed)
    return space, [space.sample(rng) for _ in range(count)]


def target(point):
    values = dict(point)
    operations = [edge.operation for edge in network_graph(values["a"]).edges]
    return operations.count("conv3x3") + 3 * np.square(values.get("rate", 0) - 0.3)


def surrogate_of(space):
    kernels = {name: HierarchicalKernel((0,), iterations=2) for name in "ab"}
    return Surrogate(kernels, space, models=["kernel"])


@pytest.mark.parametrize("pending", [0, 3])
@pytest.mark.parametrize(
    "ordinary, repeated", [(False, False), (True, False), (True, True)], ids=str
)
def test_predictions_are_those_of_the_written_out_covariance(ordinary, repeated, pending):
    space, points = sample(30, ordinary)
    if repeated:  # the same networks at other rates, also among the new points
        for index in (1, 2, 21, 29):
            points[index] = (*points[0][:2], points[index][2])
    observed, waiting, new = points[:20], points[20 : 20 + pending], points[25:]
    targets = np.array([target(point) for point in observed])
    surrogate = surrogate_of(space)
    surrogate.fit(observed, targets, waiting)
    known = observed + waiting
    grams = []
    for name, kernel in surrogate.kernels.items():
        features = kernel.features([dict(point)[name] for point in known + new])
        folded, whole = kernel.grams(features)
        grams += [*folded, whole[surrogate._depths[name]]]
    if ordinary:
        rates = np.array([dict(point)["rate"] for point in known + new])
        radial = np.exp(-0.5 * surrogate._precisions["rate"] * (rates[:, None] - rates) ** 2)
        grams += [gram * radial for gram in grams] + [radial]
    if repeated:
        same = np.array([[p[:2] == q[:2] for q in known + new] for p in known + new], float)
        grams += [same, same * radial]
    process = surrogate.process
    assert len(process.weights) == len(grams)
    covariance = process.signal * sum(w * g for w, g in zip(process.weights, grams, strict=True))

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
    variance = process.signal - np.einsum("qi,ij,qj->q", cross, inverse, cross)
    np.testing.assert_allclose(deviation, targets.std() * np.sqrt(variance), rtol=1e-5)


def test_a_network_that_failed_is_not_taken_for_its_good_relatives():
    """Kernels of cells that differ in one edge are close to 1; that of equal networks tells."""
    hyperparameters = kt.HyperParameters()
    hyperparameters.Float("rate", 0.0, 1.0)
    space = PointSpace({"a": CELLS}, hyperparameters)
    cells = {}
    for last in ("id", "conv1x1", "avg_pool", "conv3x3"):
        edges = " ".join(f"(OPS {name})" for name in ["conv3x3"] * 5 + [last])
        cells[last] = CELLS.parse(f"(CELL Cell {edges})")

    def at(last, rate):
        return (("a", cells[last]), ("rate", rate))

    observed = [at(last, rate) for last in cells for rate in (0.2, 0.4)]
    targets = [2.0 if dict(p)["a"] == cells["id"] else 0.4 for p in observed]
    kernels = {"a": HierarchicalKernel((), iterations=1)}
    means = {}
    for name, network in (("told", str), ("not told", lambda term: object())):
        surrogate = Surrogate(kernels, space, models=["kernel"], network=network)
        surrogate.fit(observed, targets)
        means[name], deviations = surrogate.predict([at("id", 0.3), at("conv3x3", 0.3)])
        if name == "told":
            assert means[name][0] > 1.7 and means[name][1] < 0.6
    assert means["told"][0] > means["not told"][0]


def test_hyperparameters_have_lengths_of_their_own():
    hyperparameters = kt.HyperParameters()
    for name in ("matters", "does_not"):
        hyperparameters.Float(name, 0.0, 1.0)
    space, rng = PointSpace({"a": CELLS}, hyperparameters), np.random.default_rng(0)
    points = [space.sample(rng) for _ in range(60)]
    targets = [np.sin(8 * dict(point)["matters"]) for point in points]
    surrogate = Surrogate({"a": HierarchicalKernel((), iterations=1)}, space)
    surrogate.fit(points, targets)
    assert surrogate._precisions["matters"] > 10 * surrogate._precisions["does_not"]


@pytest.mark.parametrize("folded", [True, False])
def test_the_kernels_are_those_that_predict_better(folded):
    """Targets follow the kernel of folded terms, or the other one."""
    points = np.random.default_rng(0).uniform(0, 10, (2, 40))
    grams = np.exp(-0.5 * (points[:, :, None] - points[:, None]) ** 2)
    process = _better_process(
        grams, np.array([True, False]), 40, np.sin(points[0] if folded else points[1])
    )
    assert (process.weights[0] > 0.2) == folded
    if not folded:
        assert process.weights.tolist() == [0.0, 1.0]
        mean, _ = process.predict(np.tensordot(process.weights, grams, axes=1))
        np.testing.assert_allclose(mean, np.sin(points[1]), atol=0.05)


def place(point):
    """What is at one place of a cell: a tree sees it, graph kernels see how many there are."""
    return float(dict(point)["a"].arguments[2].operator == "zero")


@pytest.mark.parametrize(("function", "expected"), [(place, "forest"), (target, "kernel")])
def test_the_model_is_the_one_that_predicts_left_out_points_better(function, expected):
    space, points = sample(60, True)
    targets = np.array([function(point) for point in points])
    errors = {}
    for models in (("kernel",), ("forest",), ("kernel", "forest")):
        surrogate = surrogate_of(space)
        surrogate.models = models
        surrogate.fit(points[:40], targets[:40])
        mean, _ = surrogate.predict(points[40:])
        errors[models] = np.square(mean - targets[40:]).mean()
    assert surrogate.model == expected
    assert errors["kernel", "forest"] == errors[(expected,)] == min(errors.values())


def test_unknown_models_are_refused():
    for models in ((), ("tree",)):
        with pytest.raises(ValueError, match="`models` must be some of .*Received: models="):
            Surrogate({}, None, models=models)
