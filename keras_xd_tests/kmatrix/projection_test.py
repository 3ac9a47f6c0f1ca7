import numpy as np
import pytest

from keras_xd import kmatrix
from keras_xd.kmatrix import constructions, projection, special
from keras_xd.kmatrix.constructions import digit_reversal

RADICES = [(1,), (2, 2, 2), (8,), (2, 2, 3), (3, 4), (2, 3, 6), (8, 8), (5, 7), (7, 5)]
every_radices = pytest.mark.parametrize("radices", RADICES, ids=str)
SMALL = [(2, 2, 2), (2, 3, 2), (4, 3)]
small_radices = pytest.mark.parametrize("radices", SMALL, ids=str)


def size(radices):
    return int(np.prod(radices))


def relative_error(butterflies, matrix):
    return np.linalg.norm(special.kmatrix_dense(butterflies) - matrix) / np.linalg.norm(matrix)


def targets(radices):
    """Matrices that are falling butterflies of these radices."""
    rng = np.random.default_rng(0)
    shapes = constructions.stage_shapes(radices)
    gaussian = [rng.standard_normal(shape) for shape in shapes]
    order = digit_reversal(radices)
    return {
        "dft": np.fft.fft(np.eye(size(radices)), axis=0)[order],
        "hadamard": special.kmatrix_dense(special.hadamard(radices)),
        "unitary": special.kmatrix_dense([constructions.random_unitary(radices, rng)]),
        "gaussian": special.kmatrix_dense([gaussian]).real,
        "sparse": special.kmatrix_dense([[g * (g > 0.1) for g in gaussian]]).real,
    }


@every_radices
def test_butterflies_are_recovered(radices):
    for name in ["dft", "hadamard", "unitary", "gaussian", "sparse"]:
        matrix = targets(radices)[name]
        butterflies, error = projection.project(matrix, radices)
        assert len(butterflies) == 1
        assert [stage.shape for stage in butterflies[0]] == constructions.stage_shapes(radices)
        assert error < 1e-6
        assert relative_error(butterflies, matrix) < 1e-6


@every_radices
def test_butterflies_of_the_other_direction_are_recovered_at_depth_two(radices):
    for name in ["dft", "gaussian"]:
        matrix = targets(radices)[name].T
        stages = projection.nearest_butterfly(matrix, radices, rising=True)
        np.testing.assert_allclose(constructions.butterfly_dense(stages), matrix, atol=1e-10)
        butterflies, error = projection.project(matrix, radices, depth=2)
        assert error < 1e-6 and relative_error(butterflies, matrix) < 1e-6


@small_radices
@pytest.mark.parametrize("dtype", [float, complex])
def test_error_is_the_error_of_the_result_and_falls_with_depth(radices, dtype):
    rng = np.random.default_rng(2)
    matrix = rng.standard_normal((size(radices),) * 2).astype(dtype)
    if dtype is complex:
        matrix = matrix + 1j * rng.standard_normal(matrix.shape)
    errors = []
    for depth in (1, 2, 3):
        butterflies, error = projection.project(matrix, radices, depth=depth, steps=15, seed=3)
        assert len(butterflies) == depth
        np.testing.assert_allclose(relative_error(butterflies, matrix), error, atol=1e-10)
        if dtype is float:
            assert not any(stage.imag.any() for stages in butterflies for stage in stages)
        errors.append(error)
    assert errors[0] < 1 and errors[1] < 0.9 * errors[0] and errors[2] < 0.9 * errors[1]


@small_radices
def test_permuted_diagonals_are_found_at_depth_two(radices):
    rng = np.random.default_rng(5)
    n = size(radices)
    values = rng.standard_normal(n)
    values[2] = 0
    matrix = values[:, None] * np.eye(n)[rng.permutation(n)]
    shallow = projection.project(matrix, radices)[1]
    butterflies, error = projection.project(matrix, radices, depth=2)
    assert error < 1e-12 < shallow and relative_error(butterflies, matrix) < 1e-12


@small_radices
@pytest.mark.parametrize("kind", ["random", "complex", "permutation", "low_rank"])
def test_refinement_never_raises_the_error(radices, kind):
    for depth in [1, 3]:
        rng = np.random.default_rng(6)
        n = size(radices)
        matrix = rng.standard_normal((n, n))
        if kind == "complex":
            matrix = matrix + 1j * rng.standard_normal((n, n))
        elif kind == "permutation":
            matrix = np.eye(n)[rng.permutation(n)]
        elif kind == "low_rank":
            matrix = np.outer(matrix[0], matrix[1]) + np.outer(matrix[2], matrix[3])
        start = [constructions.random_orthogonal(radices, rng) for _ in range(depth)]
        butterflies, errors = projection.refine(start, matrix, steps=10)
        assert all(
            after <= before + 1e-12 for before, after in zip(errors, errors[1:], strict=False)
        )
        assert errors[-1] < 0.9 * errors[0]
        np.testing.assert_allclose(relative_error(start, matrix), errors[0], atol=1e-12)
        np.testing.assert_allclose(relative_error(butterflies, matrix), errors[-1], atol=1e-10)
        norms = [np.linalg.norm(stage) for stages in butterflies for stage in stages]
        np.testing.assert_allclose(norms, norms[0])


@pytest.mark.parametrize(
    "matrix, options, message",
    [
        (np.ones((2, 3)), {}, r"square.*shape \(2, 3\)"),
        (np.ones(4), {}, r"square.*shape \(4,\)"),
        (np.ones((0, 0)), {}, r"square.*shape \(0, 0\)"),
        (np.ones((6, 6)), {"radix": (2, 2)}, r"radix=\(2, 2\) \(product 4\), size 6"),
        (np.ones((6, 6)), {"depth": 0}, "depth=0"),
        (np.ones((6, 6)), {"steps": -1}, "steps=-1"),
        (np.ones((6, 6)), {"steps": 1.5}, "steps=1.5"),
        (np.full((2, 2), np.nan), {}, "finite.*4 NaN or infinite"),
        (np.array([[1, np.inf], [0, 1]]), {}, "finite.*1 NaN or infinite"),
    ],
)
def test_bad_input(matrix, options, message):
    with pytest.raises(ValueError, match=message):
        kmatrix.KMatrix.project(matrix, **options)


def test_a_stage_between_diagonal_factors_is_found_at_once(rng):
    """The preconditioner is then the inverse of the normal equations, whatever their condition."""
    shape, n = (3, 2, 2, 2), 12
    left, right = (np.diag(10 ** rng.uniform(-2, 2, n)) for _ in range(2))
    stage = rng.standard_normal(shape)
    matrix = left @ projection.stage_times(stage, right)
    found = projection._least_squares(np.zeros(shape), matrix, left, right)
    np.testing.assert_allclose(found, stage, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(2, 1, 2, 2), (1, 2, 2, 2), (3, 1, 2, 2)])
def test_a_stage_is_solved_in_as_many_steps_as_it_has_numbers(shape, rng):
    """As conjugate gradients are; steepest descent comes near only."""
    n = shape[0] * shape[1] * shape[2]
    left, right = (np.eye(n) + 0.3 * rng.standard_normal((n, n)) for _ in range(2))
    stage = rng.standard_normal(shape)
    matrix = left @ projection.stage_times(stage, right)
    found = projection._least_squares(np.zeros(shape), matrix, left, right)
    np.testing.assert_allclose(found, stage, atol=1e-6)


def test_two_entries_in_a_column_are_no_permuted_diagonal():
    matrix = np.eye(8)
    matrix[1] = matrix[0]
    butterflies, error = projection.project(matrix, (2, 2, 2), depth=2, steps=20, seed=0)
    np.testing.assert_allclose(relative_error(butterflies, matrix), error, atol=1e-10)
    assert error < 0.5
