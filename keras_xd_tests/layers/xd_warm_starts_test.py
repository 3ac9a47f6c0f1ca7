import numpy as np
import pytest

from keras_xd import kmatrix
from keras_xd.layers.xd_warm_starts import MATRICES, WARM_STARTS, initial_matrices

PLANS = [kmatrix.plan(6), kmatrix.plan(10)]


def dense(weights, plan):
    real, imaginary = kmatrix.KMatrix(weights, plan).dense()
    return np.array(real) + 1j * np.array(imaginary)


@pytest.mark.parametrize("warm_start", WARM_STARTS)
def test_one_weight_for_each_matrix_and_axis(warm_start):
    starts = initial_matrices(warm_start, (3, 1, 2), PLANS, seed=1)
    assert tuple(starts) == MATRICES
    for name, depth in zip(MATRICES, (3, 1, 2), strict=True):
        shapes = [weights.shape for weights in starts[name]]
        assert shapes == [(depth, 2, 6 * 5), (depth, 2, 10 * 7)]


@pytest.mark.parametrize("axis", [0, 1])
def test_convolution_diagonalises_by_the_fourier_transform(axis):
    plan = PLANS[axis]
    starts = initial_matrices("convolution", (3, 1, 2), PLANS)
    k, spectrum, m = (dense(starts[name][axis], plan) for name in MATRICES)
    reversal = kmatrix.digit_reversal(plan.radices)
    fourier = np.fft.fft(np.eye(plan.n))[reversal]
    np.testing.assert_allclose(m, fourier / np.sqrt(plan.n), atol=1e-6)
    np.testing.assert_allclose(spectrum, fourier, atol=1e-5)
    np.testing.assert_allclose(k.T @ m, np.eye(plan.n), atol=1e-6)


def test_random_start_is_unitary_and_scaled_like_the_fourier_transforms():
    starts = initial_matrices("random_unitary", (2, 2, 2), PLANS, seed=4)
    again = initial_matrices("random_unitary", (2, 2, 2), PLANS, seed=4)
    for axis, plan in enumerate(PLANS):
        for name in MATRICES:
            np.testing.assert_array_equal(starts[name][axis], again[name][axis])
            matrix = dense(starts[name][axis], plan)
            scale = plan.n if name == "L" else 1
            np.testing.assert_allclose(
                matrix @ matrix.conj().T, scale * np.eye(plan.n), atol=1e-5 * scale
            )
