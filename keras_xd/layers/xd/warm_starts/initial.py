"""The values that architecture variables begin with, from a start and the sizes of a layer."""

import numpy as np

from keras_xd.kmatrix import constructions
from keras_xd.layers.xd.warm_starts.operations import MATRICES


def initial_matrices(start, depths, axes, plans, seed=None, dtype="float32"):
    """Return the packed weights of `K`, `L` and `M` for each axis."""
    rng = np.random.default_rng(seed)
    starts = {name: [] for name in MATRICES}
    for index, (axis, plan) in enumerate(zip(axes, plans, strict=True)):
        first = start.matrices(axis, plan.radices, rng, index)
        for name, depth in zip(MATRICES, depths, strict=True):
            missing = depth - len(first[name])
            if missing < 0:
                raise ValueError(
                    f"Warm start {type(start).__name__} needs depth "
                    f"{tuple(len(first[m]) for m in MATRICES)} or more. Received: depth={depths}"
                )
            rest = [start.rest(plan.radices, rng) for _ in range(missing)]
            starts[name].append(constructions.kmatrix_weights([*first[name], *rest], dtype))
    return starts


def initial_frequency_bias(start, axes, plans, dtype="float32"):
    """Return `b` at the start, of shape `(n_1, …, n_N, 2)`."""
    bias = start.frequency_bias(axes, [plan.radices for plan in plans])
    return np.stack([bias.real, bias.imag], axis=-1).astype(dtype)


def initial_channel_gates(start, channels, filters, groups, dtype="float32"):
    """Return `C` at the start, of shape `(channels, filters)`; `channels` are those of a group."""
    gates = start.channel_gates(channels, filters // groups)
    return np.tile(gates, (1, groups)).astype(dtype)


def relative_distance(now, start):
    """Return the relative Euclidean distance of two lists of arrays (absolute from zero)."""
    change = sum(np.sum((a - b) ** 2) for a, b in zip(now, start, strict=True))
    norm = sum(np.sum(b**2) for b in start)
    return float(np.sqrt(change / norm)) if norm else float(np.sqrt(change))
