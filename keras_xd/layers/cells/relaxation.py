"""Relaxations of the choice of operations on the edges of a cell."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_xd.core.type_aliases import Tensor
from keras_xd.layers.cells.genotypes import (
    BLOCKS,
    EDGES,
    FIRST_TIER_EDGES,
    SOURCES,
    first_tier_edge,
    is_feature,
)

RELAXATIONS = ("softmax", "gumbel", "sampled", "single_path", "partial", "perturbation")
# How many operations of each edge are computed where they are drawn, at most.
PATHS = {"gumbel": 1, "sampled": 2, "single_path": 1}
# Those with a temperature, and those whose edges have probabilities.
WITH_TEMPERATURE, WITH_EDGES = ("gumbel", "single_path"), ("single_path", "partial")
# Less than what noise can do.
_NEVER = -1e9
_MOST = max(map(len, SOURCES))
# The first-tier edges of each block, those that are missing as edge 0, and which there are.
_TABLE = np.array(
    [
        [first_tier_edge(block, i) if i < len(sources) else 0 for i in range(_MOST)]
        for block, sources in enumerate(SOURCES)
    ],
    "int32",
)
_THERE = np.array([[i < len(sources) for i in range(_MOST)] for sources in SOURCES])


def drawn_paths(
    operations: Sequence[str],
    relaxation: str,
    count: int,
    logits: Tensor,
    noise: Tensor | None,
    temperature: Tensor | None,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the operations that edges compute, their weights, and nothing aside."""
    scores = ops.log_softmax(logits, axis=-1)
    scores = scores if noise is None else ops.add(scores, noise)
    first = _with_features(operations, scores)
    numbers = first[:, None]
    weights = ops.ones((EDGES, 1), "float32")
    if count > 1:
        others = ops.where(
            ops.equal(np.arange(len(operations), dtype="int32"), numbers), _NEVER, scores
        )
        second = ops.cast(ops.argmax(others, axis=-1), "int32")
        numbers = ops.concatenate([numbers, second[:, None]], axis=-1)
        # Of the logits themselves, so that all others get zeros, which no rounding disturbs.
        weights = ops.softmax(ops.take_along_axis(logits, numbers, axis=-1), axis=-1)
    elif relaxation == "gumbel" and noise is not None:
        soft = ops.softmax(scores / temperature, axis=-1)
        soft = ops.take_along_axis(soft, numbers, axis=-1)
        # Exactly 1, with the derivatives of the softmax.
        weights = 1 + (soft - ops.stop_gradient(soft))
    return {"numbers": numbers, "weights": weights}, {}


def drawn_cell(
    operations: Sequence[str],
    logits: Tensor,
    edge_logits: Tensor,
    noise: Tensor | None,
    temperature: Tensor,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the operations of one discrete cell, their weights, and nothing aside."""
    missing = np.where(_THERE, 0.0, _NEVER).astype("float32")
    of_edges = ops.log_softmax(ops.add(ops.take(edge_logits, _TABLE), missing), axis=-1)
    scores = ops.log_softmax(logits, axis=-1)
    scores = scores if noise is None else ops.add(scores, noise)
    tiers = ops.take(scores, _TABLE, axis=0) + of_edges[..., None]
    tiers = ops.where(_THERE[..., None], tiers, _NEVER)
    last = scores[FIRST_TIER_EDGES:, None]
    numbers, weights = [], []
    for found, values in ((_pairs(operations, tiers), tiers), (ops.argmax(last, axis=-1), last)):
        found = ops.cast(found, "int32")
        chosen = ops.equal(found[..., None], np.arange(len(operations), dtype="int32"))
        weight = ops.any(chosen, axis=-1)
        if noise is not None:
            soft = ops.softmax(values / temperature, axis=(1, 2))
            soft = ops.sum(ops.where(chosen, soft, 0.0), axis=-1)
            # Exactly 1, with the derivatives of the softmax.
            weight = ops.cast(weight, "float32") + (soft - ops.stop_gradient(soft))
        numbers.append(found)
        weights.append(ops.cast(weight, "float32"))
    places = np.flatnonzero(_THERE)[:, None]
    return {
        name: ops.concatenate([ops.take(ops.reshape(first, (-1,)), places), last])
        for name, (first, last) in (("numbers", numbers), ("weights", weights))
    }, {}


def _pairs(operations, scores):
    """Return the columns of the operations on two edges of each block, of others a number more."""
    makes = np.array([is_feature(name) for name in operations])
    of_features = ops.where(makes, scores, _NEVER)
    found, feature = ops.argmax(scores, axis=-1), ops.argmax(of_features, axis=-1)
    scores, of_features = ops.max(scores, axis=-1), ops.max(of_features, axis=-1)

    def largest(values):
        return ops.equal(ops.argmax(values, axis=-1, keepdims=True), np.arange(_MOST))

    best = largest(scores)
    second = largest(ops.where(best, _NEVER, scores))
    other = largest(ops.where(best, _NEVER, of_features))

    def at(place, values):
        return ops.sum(ops.where(place, ops.exp(values), 0.0), axis=-1, keepdims=True)

    # As differences, in which small scores do not vanish against large ones.
    lost = at(best, scores) - at(best, of_features)
    gained = at(second, scores) - at(other, of_features)
    pairs = [
        ops.where(best, one, ops.where(place, another, len(operations)))
        for one, place, another in ((found, other, feature), (feature, second, found))
    ]
    return ops.where(lost >= gained, *pairs)


def _with_features(operations, scores):
    """Return the columns of the best operations with one in each block that makes features."""
    makes = np.array([is_feature(name) for name in operations])
    of_features = ops.where(makes, scores, _NEVER)
    best, found = ops.argmax(of_features, axis=-1), ops.argmax(scores, axis=-1)
    lost = ops.max(scores, axis=-1) - ops.max(of_features, axis=-1)
    changed = []
    for block in range(BLOCKS):
        start, count = first_tier_edge(block, 0), len(SOURCES[block])
        least = ops.argmin(lost[start : start + count])
        changed.append(ops.equal(np.arange(count, dtype="int32"), ops.cast(least, "int32")))
    changed.append(ops.zeros((BLOCKS,), "bool"))
    return ops.cast(ops.where(ops.concatenate(changed), best, found), "int32")
