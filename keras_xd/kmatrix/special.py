"""Butterflies of known transforms, and products of K-matrices, in NumPy."""

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from keras_xd.core import validation
from keras_xd.kmatrix import constructions
from keras_xd.kmatrix.constructions import Stages


def kmatrix_dense(butterflies: Sequence[Stages]) -> np.ndarray:
    """Multiply a K-matrix out to an `n × n` complex array."""
    factors = [constructions.butterfly_dense(stages) for stages in butterflies]
    factors[::2] = [factor.T for factor in factors[::2]]
    return functools.reduce(np.matmul, factors)


def transpose(butterflies: Sequence[Stages]) -> list[Stages]:
    """Return the butterflies of the transposed matrix, after an identity if their depth is odd."""
    reverse = list(butterflies[::-1])
    return reverse if len(reverse) % 2 == 0 else [_identity_like(reverse[0]), *reverse]


def compose(left: Sequence[Stages], right: Sequence[Stages]) -> list[Stages]:
    """Return the butterflies of the product of two K-matrices of the same radices."""
    between = [_identity_like(left[0])] if len(left) % 2 else []
    return [*left, *between, *right]


def diagonal_times(butterflies: Sequence[Stages], values: np.ndarray) -> list[Stages]:
    """Return `diag(values) · P`, the diagonal absorbed into a stage of factor 0."""
    return [_columns_scaled(butterflies[0], values), *butterflies[1:]]


def times_diagonal(butterflies: Sequence[Stages], values: np.ndarray) -> list[Stages]:
    """Return `P · diag(values)`, the diagonal absorbed into a stage of the last factor."""
    rising = len(butterflies) % 2 == 0
    scale = _columns_scaled if rising else constructions.rows_scaled
    return [*butterflies[:-1], scale(butterflies[-1], values)]


def diagonal(values: ArrayLike, radices: Sequence[int]) -> list[Stages]:
    """Return the diagonal matrix of `values`, of shape `(n,)`."""
    return diagonal_times([constructions.identity(radices)], np.asarray(values))


def kronecker(left: Sequence[Stages], right: Sequence[Stages]) -> list[Stages]:
    """Return `P ⊗ Q`, of the radices of `Q`, then those of `P`, and the larger of their depths."""
    depth = max(len(left), len(right))
    left = [*left, *[_identity_like(left[0])] * (depth - len(left))]
    right = [*right, *[_identity_like(right[0])] * (depth - len(right))]
    outer, inner = math.prod(_radices(left[0])), math.prod(_radices(right[0]))
    return [
        [
            *(np.tile(stage, (outer, 1, 1, 1)) for stage in q),
            *(np.repeat(stage, inner, axis=1) for stage in p),
        ]
        for p, q in zip(left, right, strict=True)
    ]


def hadamard(radices: Sequence[int]) -> list[Stages]:
    """Return the generalised Hadamard matrix, of entries of modulus 1."""
    stages = constructions.identity(radices)
    for stage, r in zip(stages, radices, strict=True):
        index = np.arange(r)
        if r & (r - 1):
            stage[:] = np.exp(-2j * np.pi * np.outer(index, index) / r)
        else:
            shared = index[:, None] & index
            parity = sum((shared >> bit) & 1 for bit in range(r.bit_length()))
            stage[:] = 1.0 - 2.0 * (parity % 2)
    return [stages]


def in_natural_order(stages: Stages) -> list[Stages]:
    """Return the butterfly of a `dft`, forward or inverse, with its digit reversal undone."""
    radices = _radices(stages)
    order = np.argsort(constructions.digit_reversal(radices))
    return [*constructions.permutation(order, radices, rising_first=True), stages]


def dct(radices: Sequence[int], kind: int, norm: str | None) -> list[Stages]:
    """Return a K-matrix whose real part is the discrete cosine transform II, III or IV.

    With the DFT `F` of the same size, `Q x = (x_0, x_2, x_4, …, x_5, x_3, x_1)` (Makhoul 1980),
    `c_k = 2 exp(-πik/2n)`, `s_t` = -1 on the odd entries of `x` and 1 on the even ones:

    - II: `Re(diag(c) F Q)`,
    - III: `Re(Qᵀ F diag(c e))`, where `e_0 = 1/2` and `e_k = 1` otherwise,
    - IV: `Re(Qᵀ diag(s_t exp(-πi(4t+1)/4n)) F diag(c))`.
    """
    n = math.prod(radices)
    outer = 2 * np.exp(-0.5j * np.pi * np.arange(n) / n)
    inner = np.ones(n, dtype=complex)
    if kind == 4:
        inner = _odd_part(n, -1) * np.exp(-0.25j * np.pi * (4 * np.arange(n) + 1) / n)
    return _trigonometric(radices, kind, norm, outer, inner, edge=0)


def dst(radices: Sequence[int], kind: int, norm: str | None) -> list[Stages]:
    """Return a K-matrix whose real part is the discrete sine transform II, III or IV."""
    n = math.prod(radices)
    t = np.arange(n)
    if kind == 4:
        outer = 2j * np.exp(-0.5j * np.pi * t / n)
        inner = np.exp(-0.25j * np.pi * (4 * t + 1) / n)
    else:
        outer = 2j * np.exp(-0.5j * np.pi * (t + 1) / n)
        inner = _odd_part(n, -1) * np.exp(-2j * np.pi * t / n)
    return _trigonometric(radices, kind, norm, outer, inner, edge=n - 1)


def circulant(column: np.ndarray, radices: Sequence[int]) -> list[Stages]:
    """Return the circulant matrix `C[i, j] = column[(i - j) mod n] = F⁻¹ diag(F column) F`."""
    spectrum = np.fft.fft(column)[constructions.digit_reversal(radices)]
    inverse = _columns_scaled(constructions.dft(radices, inverse=True), spectrum)
    return [constructions.identity(radices), inverse, constructions.dft(radices)]


def toeplitz(column: np.ndarray, row: np.ndarray, radices: Sequence[int]) -> list[Stages]:
    """Return the circulant matrix whose upper left block is a Toeplitz matrix."""
    first = np.zeros(math.prod(radices), dtype=np.result_type(column, row))
    first[: len(column)] = column
    if len(row) > 1:
        first[1 - len(row) :] = row[:0:-1]
    return circulant(first, radices)


def haar(radices: Sequence[int]) -> list[Stages]:
    """Return the orthonormal Haar wavelet transform of mixed radix, coarse to fine."""
    stages, order = constructions.identity(radices), np.zeros(1, dtype=int)
    for stage, r in zip(stages, radices, strict=True):
        wave = np.cos(np.pi * np.outer(np.arange(r), np.arange(r) + 0.5) / r) * np.sqrt(2 / r)
        wave[0] = np.sqrt(1 / r)
        stage[:, 0] = wave
    # A detail of level `j` is computed at a multiple of `r_1 ⋯ r_{j-1}`.
    for outer, inner, r, _ in constructions.stage_shapes(radices)[::-1]:
        details = inner * (np.arange(1, r)[:, None] + r * np.arange(outer)).ravel()
        order = np.concatenate([order, details])
    sort = constructions.permutation(order, radices, rising_first=True)
    return [*sort, constructions.identity(radices), stages]


def _trigonometric(radices, kind, norm, outer, inner, edge):
    """Assemble `diag(outer) F diag(inner) Q` (II) or its transpose (III, IV), scaled."""
    validation.one_of(kind, (2, 3, 4), "kind")
    validation.one_of(norm, (None, "ortho"), "norm")
    n = len(outer)
    if norm == "ortho":
        outer = outer / np.sqrt(2 * n)
    if kind != 4 and norm == "ortho":
        outer[edge] /= np.sqrt(2)
    elif kind == 3:
        outer[edge] /= 2
    even_odd = np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)[::-1]])
    reversal = constructions.digit_reversal(radices)
    factor = diagonal_times([constructions.dft(radices)], inner[reversal])
    order = np.argsort(even_odd[reversal])
    permutation = constructions.permutation(order, radices, rising_first=True)
    result = [*permutation, *times_diagonal(factor, outer)]
    return transpose(result) if kind == 2 else result


def _odd_part(n, value):
    """Return `value` where `Q x` holds an odd entry of `x`, 1 elsewhere."""
    return np.where(np.arange(n) < (n + 1) // 2, 1, value)


def _columns_scaled(stages, scale):
    """Return the stages of `B · diag(scale)` of a rising butterfly `B`."""
    outer, _, r, _ = stages[0].shape
    return [stages[0] * np.asarray(scale).reshape(outer, 1, 1, r), *stages[1:]]


def _radices(stages):
    return tuple(stage.shape[-1] for stage in stages)


def _identity_like(stages):
    return constructions.identity(_radices(stages))
