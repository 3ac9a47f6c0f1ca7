import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_xd import kmatrix
from keras_xd.kmatrix import constructions

RADICES = [(1,), (2,), (7,), (2, 2, 2), (2, 3, 5), (5, 3, 2), (6, 6), (4, 9), (13, 2), (64,)]
every_radices = pytest.mark.parametrize("radices", RADICES, ids=str)


def dense(stages):
    """The definition, element by element: `y[o, a, i] = Σ_b T[o, i, a, b] x[o, b, i]`."""
    matrix = None
    for stage in stages:
        outer, inner, r, _ = stage.shape
        n = outer * inner * r
        factor = np.zeros((n, n), dtype=complex)
        for o in range(outer):
            for i in range(inner):
                for a in range(r):
                    for b in range(r):
                        factor[(o * r + a) * inner + i, (o * r + b) * inner + i] = stage[o, i, a, b]
        matrix = factor if matrix is None else factor @ matrix
    return matrix


def fourier(n):
    t = np.arange(n)
    return np.exp(-2j * np.pi * np.outer(t, t) / n)


@every_radices
def test_dft_is_exact(radices):
    n = int(np.prod(radices))
    reversal = np.eye(n)[kmatrix.digit_reversal(radices)]
    rising = dense(kmatrix.dft(radices))
    np.testing.assert_allclose(rising @ reversal, fourier(n), atol=1e-10)
    # The falling butterfly gives the spectrum in digit-reversed order.
    np.testing.assert_allclose(rising.T, reversal @ fourier(n), atol=1e-10)


@every_radices
@pytest.mark.parametrize("unitary", [False, True])
def test_inverse_dft_undoes_the_dft_without_a_permutation(radices, unitary):
    n = int(np.prod(radices))
    forward = dense(kmatrix.dft(radices, unitary=unitary)).T
    inverse = dense(kmatrix.dft(radices, inverse=True, unitary=unitary))
    np.testing.assert_allclose(inverse @ forward, np.eye(n), atol=1e-12)
    if unitary:
        np.testing.assert_allclose(forward @ forward.conj().T, np.eye(n), atol=1e-12)


@every_radices
def test_identity_and_zero(radices):
    n = int(np.prod(radices))
    np.testing.assert_array_equal(dense(kmatrix.identity(radices)), np.eye(n))
    np.testing.assert_array_equal(dense(constructions.zero(radices)), np.zeros((n, n)))


@every_radices
def test_scaled_scales_the_matrix_and_all_stages_alike(radices):
    stages = kmatrix.random_unitary(radices, np.random.default_rng(1))
    scaled = constructions.scaled(stages, 5.0)
    np.testing.assert_allclose(dense(scaled), 5.0 * dense(stages), atol=1e-12)
    ratios = [np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(scaled, stages, strict=True)]
    np.testing.assert_allclose(ratios, ratios[0])


@every_radices
def test_random_stages_are_unitary_or_orthogonal(radices):
    n = int(np.prod(radices))
    unitary = dense(kmatrix.random_unitary(radices, np.random.default_rng(2)))
    np.testing.assert_allclose(unitary @ unitary.conj().T, np.eye(n), atol=1e-12)
    orthogonal = dense(kmatrix.random_orthogonal(radices, np.random.default_rng(2)))
    np.testing.assert_allclose(orthogonal @ orthogonal.T, np.eye(n), atol=1e-12)
    np.testing.assert_array_equal(orthogonal.imag, 0)
    assert n == 1 or np.abs(unitary.imag).max() > 0.01


def test_random_blocks_are_haar_distributed():
    # For the Haar measure on U(2), |T_00|² is uniform on [0, 1] and the trace has mean 0.
    (stage,) = kmatrix.random_unitary((2,), np.random.default_rng(3))
    blocks = constructions._haar(
        np.random.default_rng(4).standard_normal((20_000, 2, 2))
        + 1j * np.random.default_rng(5).standard_normal((20_000, 2, 2))
    )
    quantiles = np.quantile(np.abs(blocks[:, 0, 0]) ** 2, [0.25, 0.5, 0.75])
    np.testing.assert_allclose(quantiles, [0.25, 0.5, 0.75], atol=0.02)
    assert abs(np.trace(blocks, axis1=1, axis2=2).mean()) < 0.03
    assert stage.shape == (1, 1, 2, 2)


@settings(max_examples=40)
@given(st.sampled_from(RADICES), st.integers(0, 2**32 - 1), st.booleans())
def test_every_permutation_has_depth_two(radices, seed, rising_first):
    n = int(np.prod(radices))
    order = np.random.default_rng(seed).permutation(n)
    first, second = (
        dense(b) for b in kmatrix.permutation(order, radices, rising_first=rising_first)
    )
    matrix = first.T @ second if rising_first else first @ second.T
    np.testing.assert_array_equal(matrix, np.eye(n)[order])


@pytest.mark.parametrize("order", [[0, 0, 1, 2], [0, 1, 2], [1, 2, 3, 4]])
def test_permutation_refuses_what_is_none(order):
    with pytest.raises(ValueError, match=r"permutation of 0 … 3.*radices=\(2, 2\)"):
        kmatrix.permutation(order, (2, 2))


@every_radices
def test_packing_round_trip(radices):
    rng = np.random.default_rng(6)
    butterflies = [kmatrix.random_unitary(radices, rng) for _ in range(3)]
    weights = kmatrix.kmatrix_weights(butterflies, dtype="float64")
    n = int(np.prod(radices))
    assert weights.shape == (3, 2, n * sum(radices))
    for before, after in zip(butterflies, kmatrix.butterflies_of(weights, radices), strict=True):
        for a, b in zip(before, after, strict=True):
            np.testing.assert_array_equal(a, b)


@every_radices
def test_butterfly_dense_is_the_definition(radices):
    stages = kmatrix.random_unitary(radices, np.random.default_rng(7))
    np.testing.assert_allclose(kmatrix.butterfly_dense(stages), dense(stages), atol=1e-12)
