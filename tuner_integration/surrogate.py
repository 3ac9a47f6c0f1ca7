"""Surrogates of scores: a Gaussian process or a random forest."""

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from keras_xd.core.argument_types import check_types
from keras_xd.grammar.terms import Term
from tuner_integration.acquisition import expected_improvement
from tuner_integration.forest import Forest
from tuner_integration.gaussian_process import GaussianProcess, best_noise
from tuner_integration.kernels import HierarchicalKernel
from tuner_integration.points import Point, PointSpace

MODELS = ("kernel", "forest")
_LENGTHS = (0.1, 0.2, 0.5, 1.0)
# Paths of larger terms, on average, would take seconds.
_LARGEST_TERMS = 100
# By which the inverse squared length of one hyperparameter may differ from that of all.
_FACTORS = (0.0, 0.25, 4.0)


class Surrogate:
    """Gaussian process with graph kernels of the terms and a kernel of the hyperparameters.

    Or a random forest on paths of the terms, if that predicts better: compared are the squared
    errors at each observed point, which the process predicts from the others, and the forest by the
    trees that were not fitted to it. Where points have more than 100 operators on average, only the
    process is fitted, as paths would take seconds.

    The covariance is a weighted sum of the Weisfeiler-Lehman kernels of all terms; if there are
    ordinary hyperparameters, of a radial kernel of those, and of the products of both, too. As soon
    as a network was tried twice there are two more: whether the networks are equal, and the product
    of that and the radial kernel. So what one network scored is not taken for noise of others that
    are much alike.

    The number of iterations of the whole terms and the length of each hyperparameter in the radial
    kernel are those with the largest likelihood for equal weights; then the weights are fitted,
    once with all kernels and once without those of folded terms. What predicts each observation
    better from the others is taken.
    """

    @check_types
    def __init__(
        self,
        kernels: Mapping[str, HierarchicalKernel],
        space: PointSpace | None,
        models: Sequence[str] = MODELS,
        network: Callable[[Term], Hashable] = lambda term: term,
    ):
        if not models or not set(models) <= set(MODELS):
            raise ValueError(f"`models` must be some of {MODELS}. Received: models={models!r}")
        self.models = tuple(models)
        self.kernels = kernels
        self.space = space
        self.network = network
        self._features = {name: {} for name in kernels}

    def fit(
        self, points: Sequence[Point], targets: ArrayLike, pending: Sequence[Point] = ()
    ) -> None:
        """Fit to observed points, and take the mean as observed at pending ones.

        Args:
            points: list of observed points, at least one.
            targets: their values, lower is better.
            pending: list of points that are being evaluated.
        """
        count = len(points)
        points = [*points, *pending]
        targets = np.asarray(targets, float)
        centred = (targets - targets.mean()) / (targets.std() + 1e-12)

        def likelihood(grams):
            return best_noise(np.mean([g[:count, :count] for g in grams], axis=0), centred)[-1]

        grams, folds, self._depths, features = [], [], {}, {}
        for name, kernel in self.kernels.items():
            features[name] = self._known_features(name, points)
            folded, whole = kernel.grams(features[name])
            values = [likelihood([*folded, gram]) for gram in whole]
            self._depths[name] = int(np.argmax(values))
            grams += [*folded, whole[self._depths[name]]]
            folds += [True] * len(folded) + [False]
        self._points, squares = points, self.space.squared_distances(points, points)
        self._terms, self._same = len(grams), None
        if squares:
            mean = np.mean(grams, axis=0)
            self._precisions = _precisions(squares, lambda radial: likelihood([mean * radial]))
            radial = _radial(squares, self._precisions)
            grams = [*grams, *(gram * radial for gram in grams), radial]
            folds = [*folds, *folds, False]
            codes: dict[tuple, int] = {}
            known = [codes.setdefault(self._networks(point), len(codes)) for point in points]
            if len(set(known[:count])) < count:
                self._same = codes, np.array(known)
                same = np.equal.outer(known, known).astype(float)
                grams += [same, same * radial]
                folds += [False, False]
        grams, folds = np.stack(grams), np.array(folds)
        process = _better_process(grams, folds, count, targets)
        self.process = process.believe(grams, len(pending)) if pending else process
        # Which kernels of each term have a weight: features of others are not needed.
        parts = 2 if squares else 1
        used = self.process.weights[: parts * self._terms].reshape(parts, -1).any(axis=0)
        ends = np.cumsum([len(kernel.kernels) for kernel in self.kernels.values()])
        self._needed = dict(zip(self.kernels, np.split(used, ends[:-1]), strict=True))
        self._single = self._crosses(features, 0)
        self._mixed = self._crosses(features, 1) if squares else None
        self.best = float(process.predict(self._cross(points[:count])[:, :count])[0].min())
        self.model, self._forest = "kernel", None
        sizes = [sum(dict(point)[name].size for name in self.kernels) for point in points]
        if self.models == ("forest",) or (
            "forest" in self.models and np.mean(sizes) <= _LARGEST_TERMS
        ):
            self._take_forest(points, targets, process)

    def _take_forest(self, points, targets, process):
        """Let a forest predict if it does so better than the process."""
        count, numbers = len(targets), self.space.numbers()
        forest = Forest(points[:count], targets, numbers)
        if "kernel" in self.models:
            found = [np.square(p - targets).mean() for p in (process.left_out(), forest.out_of_bag)]
            if found[0] <= found[1]:
                return
        if len(points) > count:
            believed = np.append(targets, forest.predict(points[count:])[0])
            forest = Forest(points, believed, numbers)
        self.model, self._forest = "forest", forest
        self.best = float(forest.predict(points[:count])[0].min())

    def _known_features(self, name, points):
        """Features of the terms of known points, kept from one fit to the next."""
        kept, terms = self._features[name], [dict(point)[name] for point in points]
        new = [term for term in dict.fromkeys(terms) if term not in kept]
        kept = kept | dict(zip(new, self.kernels[name].features(new), strict=True))
        self._features[name] = {term: kept[term] for term in terms}
        return [self._features[name][term] for term in terms]

    def _crosses(self, features, part):
        """For each term the function from new features to its share of the covariance."""
        sizes = [len(kernel.kernels) for kernel in self.kernels.values()]
        first, result = part * sum(sizes), {}
        for (name, kernel), size in zip(self.kernels.items(), sizes, strict=True):
            weights = self.process.weights[first : first + size]
            result[name] = kernel.cross(features[name], self._depths[name], weights)
            first += size
        return result

    def _cross(self, points):
        total, mixed = 0.0, 0.0
        for name, kernel in self.kernels.items():
            known, terms = self._features[name], [dict(point)[name] for point in points]
            missing = [term for term in dict.fromkeys(terms) if term not in known]
            found = kernel.features(missing, self._needed[name])
            known = known | dict(zip(missing, found, strict=True))
            new = [known[term] for term in terms]
            total = total + self._single[name](new)
            if self._mixed is not None:
                mixed = mixed + self._mixed[name](new)
        if self._mixed is None:
            return total
        radial = _radial(self.space.squared_distances(points, self._points), self._precisions)
        total = total + radial * (mixed + self.process.weights[2 * self._terms])
        if self._same is None:
            return total
        alone, both = self.process.weights[-2:]
        codes, known = self._same
        new = np.array([codes.get(self._networks(point), -1) for point in points])
        return total + (new[:, None] == known) * (alone + both * radial)

    def _networks(self, point):
        """What is the same for points with the same networks."""
        return tuple([self.network(dict(point)[name]) for name in self.kernels])

    def predict(self, points: Sequence[Point]) -> tuple[np.ndarray, np.ndarray]:
        """Return arrays of means and standard deviations at a list of points."""
        if self._forest is not None:
            return self._forest.predict(points)
        return self.process.predict(self._cross(points))

    def improvement(self, points: Sequence[Point]) -> np.ndarray:
        """Return the expected improvement at a list of points."""
        return expected_improvement(*self.predict(points), self.best)


def _radial(squares, precisions):
    """The radial kernel of squared distances, by the names of hyperparameters."""
    return np.exp(-0.5 * sum(precisions[name] * square for name, square in squares.items()))


def _precisions(squares, likelihood):
    """Inverse squared lengths of hyperparameters: a common one first, then one after the other."""
    common = [1 / (length**2 * len(squares)) for length in _LENGTHS]
    options = [dict.fromkeys(squares, precision) for precision in common]
    values = [likelihood(_radial(squares, option)) for option in options]
    best, value = options[int(np.argmax(values))], max(values)
    for name in squares if len(squares) > 1 else ():
        for factor in _FACTORS:
            option = {**best, name: factor * best[name]}
            found = likelihood(_radial(squares, option))
            if found > value:
                best, value = option, found
    return best


def _better_process(grams, folds, count, targets):
    """The process of all kernels, or that without folded terms if it predicts better."""
    process = GaussianProcess(grams[:, :count, :count], targets)
    if not folds.any():
        return process
    whole = GaussianProcess(grams[~folds, :count, :count], targets)
    if whole.leave_one_out() <= process.leave_one_out():
        return process
    weights = np.zeros(len(folds))
    weights[~folds] = whole.weights
    whole.weights, whole.grams = weights, process.grams
    return whole
