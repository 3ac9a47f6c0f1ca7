"""Which operations the edges of a relaxed cell compute, and with what weights.

With `"softmax"` and `"perturbation"` all of them, with their shares, and so with `"partial"`, on
part of the channels. With those of `PATHS` a few operations of each edge are drawn, and only these
are computed.
"""

from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_xd.core.type_aliases import Tensor
from keras_xd.layers.cells.genotypes import BLOCKS, EDGES, SOURCES, first_tier_edge, is_feature

RELAXATIONS = ("softmax", "gumbel", "sampled", "partial", "perturbation")
# How many operations of each edge are computed where they are drawn.
PATHS = {"gumbel": 1, "sampled": 2}
# Less than what noise can do.
_NEVER = -1e9


def drawn_paths(
    operations: Sequence[str],
    relaxation: str,
    count: int,
    logits: Tensor,
    noise: Tensor | None,
    temperature: Tensor | None,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the operations that edges compute, their weights, and nothing aside.

    Drawn is what has the largest logit plus noise of a Gumbel distribution: an operation by its
    share. As in what is derived, one operation in the first tier of each block makes features:
    where none would, the edge that loses least by it takes its best one. A second operation is
    that of the largest logit plus noise of all others; the weights of the two are the softmax of
    their logits, that of a single one is 1.

    Args:
        operations: the names of the operations.
        relaxation: one of `PATHS`.
        count: how many operations of each edge, at most as many as `PATHS` says.
        logits: float32 tensor `(18, number of operations)`.
        noise: of the same shape, or `None` for the most likely operation alone.
        temperature: that of `"gumbel"`.

    Returns:
        A dictionary with `numbers`, integers `(18, paths)`, the columns of the operations, and
        `weights`, float32 of the same shape; and an empty one.
    """
    scores = ops.log_softmax(logits, axis=-1)
    scores = scores if noise is None else scores + noise
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
