"""The nearest K-matrix to a dense matrix, in NumPy."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from keras_xd.core import validation
from keras_xd.kmatrix import constructions, special, structured
from keras_xd.kmatrix.constructions import Stages
from keras_xd.kmatrix.radix import Radix, factorise

_EXACT = 1e-12  # relative error at which there is nothing left to gain
_LEAST_GAIN = 1e-6  # relative decrease of the error that makes another sweep worth it
_SOLVER_STEPS = 12  # of conjugate gradients, for one stage
_RIDGE = 1e-9  # keeps the preconditioner's blocks invertible


def project(
    matrix: ArrayLike,
    radix: Radix = None,
    depth: int = 1,
    steps: int = 50,
    seed: int | None = None,
) -> tuple[list[Stages], float]:
    """Return the butterflies of a K-matrix near to a square matrix, and its relative error."""
    matrix, radices = _checked(matrix, radix)
    depth = validation.positive_integer(depth, "depth")
    validation.nonnegative_integer(steps, "steps")
    rng = np.random.default_rng(seed)
    identity = [stage.real for stage in constructions.identity(radices)]
    real = not np.iscomplexobj(matrix)
    random = constructions.random_orthogonal if real else constructions.random_unitary
    best, error = _refined([nearest_butterfly(matrix, radices)], matrix, steps)
    for count in range(2, depth + 1):
        best = [*best, identity]
        noise = [random(radices, rng) for _ in range(count)]
        starts = [best, [[s.real for s in stages] for stages in noise] if real else noise]
        if count == 2:
            starts.insert(0, [identity, nearest_butterfly(matrix, radices, rising=True)])
            starts = _permuted_diagonals(matrix, radices) + starts
        for start in starts:
            if error > _EXACT:
                best, error = min((best, error), _refined(start, matrix, steps), key=lambda b: b[1])
    return [[stage.astype(complex) for stage in stages] for stages in best], error


def nearest_butterfly(matrix: ArrayLike, radix: Radix = None, *, rising: bool = False) -> Stages:
    """Return the stages `B` of a butterfly with `Bᵀ` (or `B` if `rising`) near to a matrix."""
    matrix, radices = _checked(matrix, radix)
    rest, stages = (matrix if rising else matrix.T)[None], []
    for outer, inner, r, _ in constructions.stage_shapes(radices)[:0:-1]:
        slices = rest.reshape(outer, r, inner, r, inner).transpose(0, 2, 3, 1, 4)
        left, scale, right = np.linalg.svd(slices, full_matrices=False)
        stages.append(np.swapaxes(left[..., 0], -1, -2))
        rest = scale[..., :1] * right[..., 0, :]
        rest = np.swapaxes(rest, 1, 2).reshape(outer * r, inner, inner)
    stages.append(rest[:, None])
    return balanced(stages[::-1])


def refine(
    butterflies: Sequence[Stages], matrix: ArrayLike, steps: int = 50
) -> tuple[list[Stages], list[float]]:
    """Improve a K-matrix by at most `steps` sweeps of alternating least squares over its stages."""
    radices = tuple(stage.shape[-1] for stage in butterflies[0])
    matrix, _ = _checked(matrix, radices)
    # The stages as factors of P from left to right: 1 … m transposed, then m … 1, and so on.
    chain = []
    for k, stages in enumerate(butterflies):
        chain += stages[::-1] if k % 2 else [np.swapaxes(stage, -1, -2) for stage in stages]
    identity = np.eye(len(matrix), dtype=np.result_type(matrix, *chain))

    def products():
        """Return `R` of each stage, and `P`."""
        found = [identity]
        for stage in chain[::-1]:
            found.append(stage_times(stage, found[-1]))
        return found[-2::-1], found[-1]

    rights, product = products()
    errors = [structured.relative_error(matrix, product)]
    for _ in range(steps if errors[0] > _EXACT else 0):
        left = identity
        for place, right in enumerate(rights):
            chain[place] = _least_squares(chain[place], matrix, left, right)
            transposed = np.swapaxes(chain[place], -1, -2)
            left = stage_times(transposed, left.T).T
        chain = balanced(chain)
        rights, product = products()
        errors.append(structured.relative_error(matrix, product))
        if errors[-1] <= _EXACT or errors[-2] - errors[-1] <= _LEAST_GAIN * errors[-2]:
            break
    result = []
    for k in range(len(butterflies)):
        stages = chain[k * len(radices) : (k + 1) * len(radices)]
        result.append([*stages[::-1]] if k % 2 else [np.swapaxes(s, -1, -2) for s in stages])
    return result, errors


def _checked(matrix: ArrayLike, radix: Radix) -> tuple[np.ndarray, tuple[int, ...]]:
    matrix = np.asarray(matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"`matrix` must be square. Received: matrix of shape {matrix.shape}")
    matrix = matrix.astype(complex if np.iscomplexobj(matrix) else float)
    structured.check_finite(matrix)
    return matrix, factorise(len(matrix), radix)


def _refined(butterflies, matrix, steps):
    butterflies, errors = refine(butterflies, matrix, steps if len(butterflies[0]) > 1 else 0)
    return butterflies, errors[-1]


def _permuted_diagonals(matrix, radices):
    """Return the K-matrix of depth 2 in a list, or none where a row or column has two non-zeros."""
    row, column = np.nonzero(matrix)
    n = len(matrix)
    if len(set(row)) < len(row) or len(set(column)) < len(column):
        return []
    order, values = np.empty(n, dtype=int), np.zeros(n, dtype=matrix.dtype)
    order[row], values[row] = column, matrix[row, column]
    order[np.setdiff1d(np.arange(n), row)] = np.setdiff1d(np.arange(n), column)
    switches = constructions.permutation(order, radices, rising_first=True)
    if not np.iscomplexobj(matrix):
        switches = [[stage.real for stage in stages] for stages in switches]
    return [special.diagonal_times(switches, values)]


def stage_times(stage, matrix):
    """Return `W · X` of the stage `W` with the given blocks."""
    outer, inner, r, _ = stage.shape
    rows = np.swapaxes(matrix.reshape(outer, r, inner, -1), 1, 2)
    return np.swapaxes(stage @ rows, 1, 2).reshape(matrix.shape)


def _least_squares(stage, matrix, left, right):
    """Lower `‖A - L W R‖` over the blocks of `W`, shape `(O, s, r, r)`."""
    outer, inner, r, _ = stage.shape
    shape = (outer, r, inner)

    def blocks(dense):
        return np.einsum("oaiobi->oiab", dense.reshape(*shape, *shape))

    left_gram, right_gram = left.conj().T @ left, right @ right.conj().T
    columns = np.moveaxis(right_gram.reshape(-1, *shape), (1, 3, 0), (0, 1, 2))

    def normal(blocks_of_w):
        """Return the blocks of `Lᴴ L W R Rᴴ`."""
        transposed = np.swapaxes(blocks_of_w, -1, -2)
        rows = stage_times(transposed, left_gram.T).T.reshape(*shape, -1)
        return np.swapaxes(rows, 1, 2) @ columns

    def inverse(gram):
        diagonal = blocks(gram)
        scale = np.trace(gram).real / len(gram) or 1.0
        return np.linalg.inv(diagonal + _RIDGE * scale * np.eye(r))

    before, after = inverse(left_gram), inverse(right_gram)
    residual = blocks(left.conj().T @ matrix @ right.conj().T) - normal(stage)
    direction = preconditioned = before @ residual @ after
    size = first = np.vdot(residual, preconditioned).real
    for _ in range(_SOLVER_STEPS):
        image = normal(direction)
        curvature = np.vdot(direction, image).real
        if size <= 1e-24 * first or curvature <= 0:
            break
        stage = stage + size / curvature * direction
        residual = residual - size / curvature * image
        preconditioned = before @ residual @ after
        size, previous = np.vdot(residual, preconditioned).real, size
        direction = preconditioned + size / previous * direction
    return stage


def balanced(stages):
    """Share the scale: all stages get the same Frobenius norm, the product stays."""
    if len(stages) == 1:
        return list(stages)
    norms = np.array([np.linalg.norm(stage) for stage in stages])
    if not norms.all():
        return [np.zeros_like(stage) for stage in stages]
    common = np.exp(np.log(norms).mean())
    return [stage * (common / norm) for stage, norm in zip(stages, norms, strict=True)]
