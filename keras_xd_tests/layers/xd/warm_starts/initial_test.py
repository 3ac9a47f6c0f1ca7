import numpy as np
import pytest

from keras_xd import kmatrix
from keras_xd.kmatrix.constructions import digit_reversal
from keras_xd.layers import warm_starts
from keras_xd.layers.xd import axis_layout
from keras_xd.layers.xd.warm_starts import MATRICES, initial

PLANS = [kmatrix.plan(6), kmatrix.plan(10)]
AXES = [axis_layout.axis_geometry(n, 3, 1, 1, "circular") for n in (6, 10)]


def initial_matrices(name, depths, plans, seed=None):
    return initial.initial_matrices(warm_starts.get(name), depths, AXES, plans, seed)


def dense(weights, plan):
    real, imaginary = kmatrix.KMatrix(weights, plan).dense()
    return np.array(real) + 1j * np.array(imaginary)


@pytest.mark.parametrize("warm_start", warm_starts.STARTS)
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
    reversal = digit_reversal(plan.radices)
    fourier = np.fft.fft(np.eye(plan.n))[reversal]
    np.testing.assert_allclose(m, fourier / np.sqrt(plan.n), atol=1e-6)
    np.testing.assert_allclose(spectrum, fourier, atol=1e-5)
    np.testing.assert_allclose(k.T @ m, np.eye(plan.n), atol=1e-6)


def test_random_start_is_unitary_and_scaled():
    starts = initial_matrices("random_unitary", (2, 2, 2), PLANS, seed=4)
    again = initial_matrices("random_unitary", (2, 2, 2), PLANS, seed=4)
    for axis, plan in enumerate(PLANS):
        for name in MATRICES:
            np.testing.assert_array_equal(starts[name][axis], again[name][axis])
            matrix = dense(starts[name][axis], plan)
            # The real part, taken on the first axis, halves the variance; padding thins it.
            k = (2 if axis == 0 else 1) * plan.n / AXES[axis].size
            scale = {"K": k, "L": plan.n, "M": 1}[name]
            np.testing.assert_allclose(
                matrix @ matrix.conj().T, scale * np.eye(plan.n), atol=1e-5 * scale
            )


def test_gates_of_each_group_and_a_frequency_bias_as_pairs():
    gates = initial.initial_channel_gates(warm_starts.Identity(), 2, 6, 3)
    np.testing.assert_array_equal(gates, np.tile(np.eye(2), 3))
    bias = initial.initial_frequency_bias(warm_starts.Identity(), AXES, PLANS)
    assert bias.shape == (6, 10, 2) and bias.dtype == "float32"
    np.testing.assert_allclose(bias[..., 0], np.ones((6, 10)), atol=1e-6)
    np.testing.assert_allclose(bias[..., 1], np.zeros((6, 10)), atol=1e-6)


def test_relative_distance_is_absolute_from_zero():
    start, now = [np.array([3.0, 0.0]), np.array([4.0])], [np.array([3.0, 1.0]), np.array([2.0])]
    np.testing.assert_allclose(initial.relative_distance(now, start), np.sqrt(5) / 5)
    assert initial.relative_distance([np.array([2.0])], [np.array([0.0])]) == 2


def test_too_little_depth_is_refused():
    start = warm_starts.Convolution(trainable_dilation=True)
    with pytest.raises(ValueError, match=r"needs depth \(1, 3, 1\) or more.*depth=\(1, 2, 1\)"):
        initial.initial_matrices(start, (1, 2, 1), AXES, PLANS)
