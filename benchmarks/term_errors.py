"""Errors of terms that cost no training, for the benchmarks of searches over terms."""

import functools

import numpy as np
from keras import ops
from sklearn.datasets import load_digits

from keras_xd.grammar import operation_graph
from keras_xd.grammar.pointwise import BINARY_WITH_COEFFICIENT, FUNCTIONS, UNARY_WITH_COEFFICIENT

_COEFFICIENT = UNARY_WITH_COEFFICIENT.keys() | BINARY_WITH_COEFFICIENT.keys()
HIDDEN, TRAINING = 64, 800


def network_error(term, depth=2):
    """Return an error of a network by the paths through it, whatever the tree of its term.

    Lowest where the longest path has `depth` convolutions, there are many paths and few of them are
    pooled.
    """
    labels, successors = operation_graph(term)
    longest, paths, pooled = [0] * len(labels), [1] * len(labels), [0] * len(labels)
    for node in _from_the_output(successors):
        after = successors[node]
        if after:
            longest[node] = max(longest[n] for n in after)
            paths[node] = sum(paths[n] for n in after)
            pooled[node] = sum(pooled[n] for n in after)
        longest[node] += labels[node].startswith("conv")
        if "pool" in labels[node]:
            pooled[node] = paths[node]
    convolutions = sum(label.startswith("conv") for label in labels)
    distance = 1 - np.exp(-(((longest[0] - depth) / (0.75 * depth)) ** 2))
    few, share = np.exp(-min(paths[0], 100) / 2), pooled[0] / paths[0]
    return 0.1 + 0.5 * distance + 0.2 * share + 0.2 * few + 0.04 * convolutions / depth


def _from_the_output(successors):
    """Nodes that the input reaches, each after all that it feeds."""
    order, seen = [], set()

    def visit(node):
        if node not in seen:
            seen.add(node)
            for after in successors[node]:
                visit(after)
            order.append(node)

    visit(0)
    return order


@functools.cache
def _digits():
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    return (x[order] / 8 - 1), np.eye(10)[y[order]]


def features_error(term):
    """Return the squared error of a ridge regression on random features of scikit-learn's digits.

    The term is the activation function of the features; NaN if that is not finite everywhere.
    """
    x, y = _digits()
    rng = np.random.default_rng(0)
    weights = 0.2 * rng.normal(size=(x.shape[1], HIDDEN))
    inputs = x @ weights + 0.3 * rng.normal(size=HIDDEN)
    features = np.asarray(_applied(term, ops.convert_to_tensor(inputs.astype("float32"))), float)
    if not np.isfinite(features).all():
        return np.nan
    features = np.concatenate([features, np.ones((len(x), 1))], axis=1)
    known = features[:TRAINING]
    gram = known.T @ known + 1e-3 * np.eye(HIDDEN + 1)
    solution = np.linalg.lstsq(gram, known.T @ y[:TRAINING], rcond=None)[0]
    return float(np.square(features[TRAINING:] @ solution - y[TRAINING:]).mean())


def _applied(term, x):
    """The activation function of a term, with coefficients of 1."""
    if term.operator == "UnaryTopo":
        return _applied(term.arguments[0], x)
    values = [x]
    name = term.operator
    if term.operator == "BinaryTopo":
        name = term.arguments[0].operator
        values = [_applied(argument, x) for argument in term.arguments[1:3]]
    return FUNCTIONS[name](*values, *([1.0] if name in _COEFFICIENT else []))
