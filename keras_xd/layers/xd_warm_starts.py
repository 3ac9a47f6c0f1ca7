"""The K-matrices that an XD-operation starts from, in NumPy."""

import math

import numpy as np

from keras_xd.kmatrix import constructions

MATRICES = ("K", "L", "M")
WARM_STARTS = ("convolution", "random_unitary")


def initial_matrices(warm_start, depths, plans, seed=None):
    """Return the packed weights of `K`, `L` and `M` for each axis.

    For `"convolution"` factor 0 of each K-matrix, the one at the frequencies, is a Fourier
    transform and all others are the identity: unitary for `K` (inverse) and `M`, unscaled for `L`.
    For `"random_unitary"` every stage is Haar-random, `L` scaled by `√n` as in a convolution.

    Args:
        warm_start: one of `WARM_STARTS`.
        depths: depth of `K`, `L` and `M`.
        plans: the `Plan` of each axis.
        seed: seed of a random start.

    Returns:
        Dictionary from `"K"`, `"L"`, `"M"` to a list of arrays `(depth, 2, n Σ r_j)` by axis.
    """
    rng = np.random.default_rng(seed)
    starts = {name: [] for name in MATRICES}
    for name, depth in zip(MATRICES, depths, strict=True):
        for plan in plans:
            r = plan.radices
            if warm_start == "random_unitary":
                butterflies = [constructions.random_unitary(r, rng) for _ in range(depth)]
                if name == "L":
                    butterflies[0] = constructions.scaled(butterflies[0], math.sqrt(plan.n))
            else:
                fourier = constructions.dft(r, inverse=name == "K", unitary=name != "L")
                butterflies = [fourier] + [constructions.identity(r)] * (depth - 1)
            starts[name].append(constructions.kmatrix_weights(butterflies))
    return starts
