import numpy as np
import pytest

from keras_xd.kmatrix import structured


@pytest.mark.parametrize("shape", [(3, 4, 6), (3, 6, 4), (2, 2, 5, 5)])
def test_tails_are_those_of_the_singular_values(shape, rng):
    for rank in [0, 1, 3, 9]:
        slices = rng.normal(size=shape)
        expected = np.sqrt((np.linalg.svd(slices, compute_uv=False)[..., rank:] ** 2).sum())
        assert structured.tail(slices, rank) == pytest.approx(expected)


def test_damped_equations_can_be_solved(rng):
    singular = np.stack([np.ones((3, 3)), np.zeros((3, 3))])
    damped = structured.damped(singular)
    np.testing.assert_allclose(damped, singular, atol=2e-9)
    assert np.isfinite(np.linalg.solve(damped, np.zeros((2, 3, 1)))).all()
    assert np.all(np.linalg.eigvalsh(damped[0]) > 0)
