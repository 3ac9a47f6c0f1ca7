import itertools
import math

import numpy as np
import pytest

from keras_xd import kmatrix
from keras_xd.kmatrix import constructions, special
from keras_xd.kmatrix.kaleidoscope import nearest_kaleidoscope

RADICES = [(3, 4), (4, 3), (2, 2, 3), (2, 2, 2, 2)]
every_radices = pytest.mark.parametrize("radices", RADICES)


@every_radices
def test_corners_of_butterflies_are_recovered(radices, rng):
    """All rows or all columns of one are, as zeros beside them are those of a butterfly too."""
    for cut in [(0, 0), (5, 0), (0, 3)]:
        stages = [rng.normal(size=shape) for shape in constructions.stage_shapes(radices)]
        dense = special.kmatrix_dense([stages]).real
        n = len(dense)
        corner = dense[: n - cut[0], : n - cut[1]]
        found = nearest_kaleidoscope(corner, radices)
        assert found.error < 1e-12 and found.matrix.shape == corner.shape


@every_radices
def test_weights_are_those_of_the_matrix(radices, rng):
    for shape, (depth, steps) in itertools.product(
        [(5, 12), (11, 4), (12, 12)], [(1, 0), (1, 5), (2, 3), (3, 2)]
    ):
        matrix = rng.normal(size=shape)
        found = nearest_kaleidoscope(matrix, radices, depth, steps, seed=0)
        (weights,) = found.factors
        whole = kmatrix.KMatrix(weights, kmatrix.plan(math.prod(radices), radices, depth=depth))
        assert whole.real and whole.depth == depth and found.parameters == whole.parameters
        np.testing.assert_allclose(whole.numpy()[: shape[0], : shape[1]], found.matrix, atol=1e-5)
        error = np.linalg.norm(matrix - found.matrix) / np.linalg.norm(matrix)
        assert found.error == pytest.approx(error) and found.bound <= found.error


@pytest.mark.parametrize("radices", [(3, 4), (5, 3), (2, 3, 2)])
def test_the_bound_is_that_of_slices_of_rank_one(radices, rng):
    n = math.prod(radices)
    matrix = rng.normal(size=(n, n))
    found = nearest_kaleidoscope(matrix, radices)
    tails = []
    for cut in range(1, len(radices)):
        inner = math.prod(radices[:cut])
        grid = matrix.T.reshape(n // inner, inner, n // inner, inner)
        slices = [grid[:, i, b] for i in range(inner) for b in range(n // inner)]
        tails.append(sum((np.linalg.svd(s, compute_uv=False)[1:] ** 2).sum() for s in slices))
    expected = np.sqrt(max(tails)) / np.linalg.norm(matrix)
    assert found.bound == pytest.approx(expected, abs=1e-7)
    if len(radices) == 2:
        assert found.error == pytest.approx(expected)


def test_a_bound_is_known_of_one_butterfly_alone(rng):
    matrix = rng.normal(size=(8, 8))
    one, two = (nearest_kaleidoscope(matrix, 2, depth, seed=0) for depth in (1, 2))
    assert 0 < one.bound <= one.error and two.bound == 0
