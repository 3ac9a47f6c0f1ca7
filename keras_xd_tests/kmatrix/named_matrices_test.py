import numpy as np
import pytest
import scipy.fft
import scipy.linalg

from keras_xd import kmatrix

KMatrix = kmatrix.KMatrix
SIZES = [1, 2, 7, 12, 16]
every_size = pytest.mark.parametrize("n", SIZES)


@every_size
@pytest.mark.parametrize("kind", [2, 3, 4])
@pytest.mark.parametrize("norm", [None, "ortho"])
def test_cosine_and_sine_transforms(n, kind, norm):
    for make, expected in ((KMatrix.dct, scipy.fft.dct), (KMatrix.dst, scipy.fft.dst)):
        matrix = make(n, kind=kind, norm=norm)
        assert matrix.real
        reference = expected(np.eye(n), type=kind, axis=0, norm=norm)
        np.testing.assert_allclose(matrix.numpy(), reference, atol=1e-5 * n)


@every_size
@pytest.mark.parametrize("inverse", [False, True])
def test_fourier_transform_in_natural_order(n, inverse):
    expected = (np.fft.ifft if inverse else np.fft.fft)(np.eye(n), axis=0)
    matrix = KMatrix.dft(n, order="natural", inverse=inverse)
    assert matrix.depth == 3
    np.testing.assert_allclose(matrix.numpy(), expected, atol=1e-5)
    unitary = KMatrix.dft(n, order="natural", inverse=inverse, unitary=True).numpy()
    np.testing.assert_allclose(unitary @ unitary.conj().T, np.eye(n), atol=1e-5)


def test_hadamard_haar_and_circulant():
    hadamard = KMatrix.hadamard(16)
    assert hadamard.real and hadamard.parameters == 16 * 8
    np.testing.assert_array_equal(hadamard.numpy(), scipy.linalg.hadamard(16))
    complex_one = KMatrix.hadamard(6)
    assert not complex_one.real
    product = complex_one.numpy() @ complex_one.numpy().conj().T
    np.testing.assert_allclose(product, 6 * np.eye(6), atol=1e-5)
    wavelet = KMatrix.haar(8).numpy()
    assert np.isrealobj(wavelet)
    np.testing.assert_allclose(wavelet[1], np.repeat([1, -1], 4) / np.sqrt(8), atol=1e-6)
    np.testing.assert_allclose(wavelet @ wavelet.T, np.eye(8), atol=1e-6)
    column = np.array([1.0, 2.0, 0.0, 0.0, -1.0, 5.0])
    np.testing.assert_allclose(
        KMatrix.circulant(column).numpy(), scipy.linalg.circulant(column), atol=1e-5
    )
    assert not KMatrix.circulant(column * 1j).real


@pytest.mark.parametrize("kind", [float, complex])
def test_projection_recovers_a_butterfly(kind):
    rng = np.random.default_rng(0)
    make = kmatrix.random_unitary if kind is complex else kmatrix.random_orthogonal
    target = kmatrix.kmatrix_dense(make((3, 4), rng))
    target = target if kind is complex else target.real
    matrix = KMatrix.project(target, (3, 4))
    assert matrix.real == (kind is float)
    assert matrix.weights.shape == (1, 1 if kind is float else 2, 12 * 7)
    np.testing.assert_allclose(matrix.numpy(), target, atol=1e-5)
    assert matrix.relative_error(target) < 1e-6
    assert matrix.relative_error(2 * target) == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize("radices", [(2, 3), (3, 2)])
def test_stages_have_one_form(radices):
    """Functions take the stages of one butterfly as they take lists of butterflies."""
    rng = np.random.default_rng(0)
    one, n = kmatrix.dft(radices), 6
    spectrum = np.fft.fft(np.eye(n))[kmatrix.digit_reversal(radices)]
    dense = kmatrix.kmatrix_dense
    np.testing.assert_allclose(dense(one), spectrum, atol=1e-12)
    np.testing.assert_array_equal(kmatrix.kmatrix_weights(one), kmatrix.kmatrix_weights([one]))
    np.testing.assert_allclose(dense(kmatrix.transpose(one)), spectrum.T, atol=1e-12)
    values = rng.normal(size=n)
    scaled = dense(kmatrix.diagonal_times(one, values))
    np.testing.assert_allclose(scaled, values[:, None] * spectrum, atol=1e-12)
    scaled = dense(kmatrix.times_diagonal(one, values))
    np.testing.assert_allclose(scaled, spectrum * values, atol=1e-12)
    hadamard = kmatrix.hadamard(radices)
    product = dense(kmatrix.compose(one, hadamard))
    np.testing.assert_allclose(product, spectrum @ dense(hadamard), atol=1e-12)
    product = dense(kmatrix.kronecker_of_kmatrices(one, hadamard))
    np.testing.assert_allclose(product, np.kron(spectrum, dense(hadamard)), atol=1e-12)
    assert kmatrix.refine(one, spectrum)[1][-1] < 1e-12
    np.testing.assert_allclose(KMatrix.from_butterflies(one).numpy(), spectrum, atol=1e-6)
    again = KMatrix.from_butterflies(KMatrix.dct(n).butterflies, real=True)
    np.testing.assert_allclose(again.numpy(), KMatrix.dct(n).numpy(), atol=1e-6)


@pytest.mark.parametrize("make", [KMatrix.dct, KMatrix.dst, KMatrix.haar, KMatrix.dft])
def test_depth_is_filled_by_identities(make):
    deeper = make(12, depth=6)
    assert deeper.depth == 6
    np.testing.assert_allclose(deeper.numpy(), make(12).numpy(), atol=1e-5)


def test_bad_input():
    with pytest.raises(ValueError, match="depth at least 4. Received: depth=2"):
        KMatrix.dct(8, depth=2)
    with pytest.raises(ValueError, match="order"):
        KMatrix.dft(8, order="reversed")
    with pytest.raises(ValueError, match="kind"):
        KMatrix.dct(8, kind=5)
    with pytest.raises(ValueError, match="must be square"):
        KMatrix.project(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="at least one butterfly"):
        KMatrix.from_butterflies([])
