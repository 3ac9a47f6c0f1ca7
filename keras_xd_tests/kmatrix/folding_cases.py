"""Random K-matrices and their dense form, for the tests of folding and applying."""

import numpy as np

from keras_xd.kmatrix import constructions
from keras_xd.kmatrix.radix import factorise

TOLERANCE = 2e-5  # of values of order 1, after up to nine float32 butterflies


def reference(weights, radices):
    """The analysis form multiplied out in float64: `B_0ᵀ B_1 B_2ᵀ …`."""
    matrix = np.eye(int(np.prod(radices)))
    for slot, stages in enumerate(constructions.butterflies_of(weights, radices)):
        rising = constructions.butterfly_dense(stages)
        matrix = matrix @ (rising if slot % 2 else rising.T)
    return matrix


def random_case(n, depth, radices=None, seed=0):
    rng = np.random.default_rng(seed)
    r = factorise(n, radices)
    weights = constructions.kmatrix_weights(
        [constructions.random_unitary(r, rng) for _ in range(depth)]
    )
    return weights, reference(weights, r), rng


def pairs(z, axis):
    return np.stack([z.real, z.imag], axis=axis).astype("float32")
