"""Exact K-matrices of known transforms, and how K-matrices are composed, in NumPy.

Every function returns a list of butterflies in the analysis form of `constructions`,
`P = B_0ᵀ · B_1 · B_2ᵀ ⋯`, ready for `kmatrix_weights`; the length of the list is the depth. Where
such a list is taken, the stages of a single butterfly (`dft`, `identity`) stand for a list of one.
Radices are arbitrary: `radices[0]` is the innermost (fastest) digit of an index.

| matrix of size n = Π r_j                    | depth | remarks                                    |
|---------------------------------------------|-------|--------------------------------------------|
| Kronecker product of r_j × r_j, Hadamard    | 1     |                                            |
| diagonal; a diagonal times any K-matrix     | 1; +0 | absorbed, on either side                   |
| DFT                                         | 1     | spectrum in digit-reversed order (`dft`)   |
| DFT in natural order                        | 3     |                                            |
| digit reversal, any permutation             | 2     |                                            |
| circulant, Toeplitz embedded in one         | 3     | factor 0 is the identity                   |
| circulant, digit-reversed on both sides     | 2     |                                            |
| DCT and DST III, IV                         | 3     | real part                                  |
| DCT and DST II                              | 4     | real part; factor 0 is the identity        |
| DCT and DST II, digit-reversed output       | 3     | real part                                  |
| Haar wavelet, coefficients in place         | 2     | factor 0 is the identity                   |
| Haar wavelet, coarse to fine                | 4     |                                            |
| at most n non-zeros (`sparse`)              | 6     | no expansion                               |
| sparse, room for empty rows and columns     | 5     | factor 0 is the identity                   |

Where factor 0 is the identity, the transpose of the other factors is a matrix of one butterfly
less, in the synthesis form.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.kmatrix import constructions
from keras_xd.kmatrix.constructions import Stages


@check_types
def kmatrix_dense(butterflies: Sequence[Stages] | Stages) -> np.ndarray:
    """Multiply a K-matrix in analysis form out to an `n × n` complex array."""
    matrix = None
    for k, stages in enumerate(constructions.as_butterflies(butterflies)):
        factor = constructions.butterfly_dense(stages)
        factor = factor if k % 2 else factor.T
        matrix = factor if matrix is None else matrix @ factor
    return matrix


@check_types
def transpose(butterflies: Sequence[Stages] | Stages) -> list[Stages]:
    """Return the butterflies of the transposed matrix.

    The depth stays if it is even; an odd depth needs an identity in front to keep the directions
    of the butterflies alternating.
    """
    reverse = constructions.as_butterflies(butterflies)[::-1]
    return reverse if len(reverse) % 2 == 0 else [_identity_like(reverse[0]), *reverse]


@check_types
def compose(*kmatrices: Sequence[Stages] | Stages) -> list[Stages]:
    """Return the butterflies of the product of K-matrices of the same radices, leftmost first.

    Depths add up; a factor of odd depth that is followed by another one costs one identity more.

    Raises:
        ValueError: if the radices differ.
    """
    result = []
    for butterflies in map(constructions.as_butterflies, kmatrices):
        if result and _radices(result[0]) != _radices(butterflies[0]):
            raise ValueError(
                "K-matrices that are multiplied must have the same radices. "
                f"Received: radices={_radices(result[0])} and {_radices(butterflies[0])}"
            )
        if len(result) % 2:
            result.append(_identity_like(result[0]))
        result.extend(butterflies)
    return result


@check_types
def diagonal(values: ArrayLike, radices: Sequence[int]) -> list[Stages]:
    """Return the diagonal matrix of `values`, shape `(n,)`: one butterfly."""
    return diagonal_times([constructions.identity(radices)], values)


@check_types
def diagonal_times(butterflies: Sequence[Stages] | Stages, values: ArrayLike) -> list[Stages]:
    """Return `diag(values) · P`, the diagonal absorbed into a stage of factor 0.

    Args:
        butterflies: `P` of size `n`.
        values: array of shape `(n,)`, real or complex.

    Example:

    >>> import numpy as np
    >>> from keras_xd import kmatrix
    >>> scaled = kmatrix.diagonal_times(kmatrix.hadamard((2, 2)), [1, 2, 3, 4])
    >>> kmatrix.kmatrix_dense(scaled).real.astype(int)[2]
    array([ 3,  3, -3, -3])
    """
    butterflies = constructions.as_butterflies(butterflies)
    values = _vector(values, _size(butterflies[0]), "values")
    return [_columns_scaled(butterflies[0], values), *butterflies[1:]]


@check_types
def times_diagonal(butterflies: Sequence[Stages] | Stages, values: ArrayLike) -> list[Stages]:
    """Return `P · diag(values)`, the diagonal absorbed into a stage of the last factor."""
    butterflies = constructions.as_butterflies(butterflies)
    values = _vector(values, _size(butterflies[0]), "values")
    rising = len(butterflies) % 2 == 0
    scale = _columns_scaled if rising else constructions.rows_scaled
    return [*butterflies[:-1], scale(butterflies[-1], values)]


@check_types
def kronecker_of_matrices(matrices: Sequence[ArrayLike]) -> list[Stages]:
    """Return `A_1 ⊗ A_2 ⊗ ⋯` of small square matrices: one butterfly.

    The last matrix acts on the innermost digit, as in `np.kron`, hence the radices are the sizes of
    the matrices in reverse.

    Args:
        matrices: list of arrays of shape `(r, r)`, real or complex, of any sizes.

    Raises:
        ValueError: if a matrix is not square.
    """
    matrices = [np.asarray(matrix) for matrix in matrices]
    shapes = [matrix.shape for matrix in matrices]
    if not matrices or any(len(shape) != 2 or shape[0] != shape[1] for shape in shapes):
        raise ValueError(f"`matrices` must be square arrays. Received: shapes {shapes}")
    sizes = constructions.stage_shapes([shape[0] for shape in shapes[::-1]])
    blocks = [matrix.T.astype(complex) for matrix in matrices[::-1]]
    return [[np.broadcast_to(b, shape).copy() for b, shape in zip(blocks, sizes, strict=True)]]


@check_types
def kronecker_of_kmatrices(
    left: Sequence[Stages] | Stages, right: Sequence[Stages] | Stages
) -> list[Stages]:
    """Return `P ⊗ Q` of two K-matrices; its depth is the larger of theirs.

    Args:
        left: butterflies of `P`, radices `p`.
        right: butterflies of `Q`, radices `q`; the result has the radices `q + p`, as `Q` acts on
            the inner digits (`np.kron`).
    """
    left, right = constructions.as_butterflies(left), constructions.as_butterflies(right)
    depth = max(len(left), len(right))
    left = [*left, *[_identity_like(left[0])] * (depth - len(left))]
    right = [*right, *[_identity_like(right[0])] * (depth - len(right))]
    outer, inner = _size(left[0]), _size(right[0])
    return [
        [
            *(np.tile(stage, (outer, 1, 1, 1)) for stage in q),
            *(np.repeat(stage, inner, axis=1) for stage in p),
        ]
        for p, q in zip(left, right, strict=True)
    ]


@check_types
def hadamard(radices: Sequence[int]) -> list[Stages]:
    """Return the (generalised) Hadamard matrix: one butterfly of entries of modulus 1.

    It is the Kronecker product of Sylvester's matrices where a radix is a power of two and of
    Fourier matrices elsewhere (Walsh–Chrestenson), so that `H Hᴴ = n I` for every size; it is
    `scipy.linalg.hadamard(n)` if all radices are powers of two.
    """
    blocks = []
    for r in radices:
        index = np.arange(r)
        if r & (r - 1):
            blocks.append(np.exp(-2j * np.pi * np.outer(index, index) / r))
        else:
            shared = index[:, None] & index
            parity = sum((shared >> bit) & 1 for bit in range(r.bit_length()))
            blocks.append(1.0 - 2.0 * (parity % 2))
    return kronecker_of_matrices(blocks[::-1])


@check_types
def digit_reversal_matrix(radices: Sequence[int]) -> list[Stages]:
    """Return the permutation matrix of `digit_reversal(radices)` (bit reversal): depth 2."""
    order = constructions.digit_reversal(radices)
    return list(constructions.permutation(order, radices, rising_first=True))


@check_types
def natural_dft(radices: Sequence[int]) -> list[Stages]:
    """Return the DFT with inputs and outputs in natural order: depth 3.

    It is the inverse digit reversal of the butterfly of `dft`, which alone has depth 1.
    """
    return in_natural_order(constructions.dft(radices))


def in_natural_order(stages: Stages) -> list[Stages]:
    """Return the butterfly of a `dft`, forward or inverse, with its digit reversal undone."""
    radices = _radices(stages)
    order = np.argsort(constructions.digit_reversal(radices))
    return [*constructions.permutation(order, radices, rising_first=True), stages]


@check_types
def dct(
    radices: Sequence[int], kind: int = 2, *, norm: str | None = None, digit_reversed: bool = False
) -> list[Stages]:
    """Return a K-matrix whose real part is the discrete cosine transform II, III or IV.

    With the DFT `F` of the same size, `Q x = (x_0, x_2, x_4, …, x_5, x_3, x_1)` (Makhoul 1980),
    `c_k = 2 exp(-πik/2n)`, `s_t` = -1 on the odd entries of `x` and 1 on the even ones:

    - II: `Re(diag(c) F Q)`,
    - III: `Re(Qᵀ F diag(c e))`, where `e_0 = 1/2` and `e_k = 1` otherwise,
    - IV: `Re(Qᵀ diag(s_t exp(-πi(4t+1)/4n)) F diag(c))`.

    The DFT's digit reversal merges into the permutation. II is the transpose of a K-matrix of
    depth 3 and has depth 4, III and IV have depth 3; every kind has depth 3 if `digit_reversed`.

    Args:
        radices: the radices, whose product is the size `n`.
        kind: 2, 3 or 4.
        norm: `None` or `"ortho"`, as in `scipy.fft.dct`.
        digit_reversed: give the outputs in the order of `digit_reversal(radices)`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import kmatrix
    >>> matrix = kmatrix.kmatrix_dense(kmatrix.dct((2, 3), norm="ortho")).real
    >>> bool(np.allclose(matrix @ matrix.T, np.eye(6)))
    True
    """
    n = math.prod(radices)
    outer = 2 * np.exp(-0.5j * np.pi * np.arange(n) / n)
    inner = np.ones(n, dtype=complex)
    if kind == 4:
        inner = _odd_part(n, -1) * np.exp(-0.25j * np.pi * (4 * np.arange(n) + 1) / n)
    return _trigonometric(radices, kind, norm, digit_reversed, outer, inner, edge=0)


@check_types
def dst(
    radices: Sequence[int], kind: int = 2, *, norm: str | None = None, digit_reversed: bool = False
) -> list[Stages]:
    """Return a K-matrix whose real part is the discrete sine transform II, III or IV.

    Depths and arguments as in `dct`, and in its notation:

    - II: `Re(diag(2i exp(-πi(k+1)/2n)) F diag(s_t exp(-2πit/n)) Q)`,
    - III: the transpose of II with its last column halved,
    - IV: `Re(Qᵀ diag(exp(-πi(4t+1)/4n)) F diag(2i exp(-πik/2n)))`.
    """
    n = math.prod(radices)
    t = np.arange(n)
    if kind == 4:
        outer = 2j * np.exp(-0.5j * np.pi * t / n)
        inner = np.exp(-0.25j * np.pi * (4 * t + 1) / n)
    else:
        outer = 2j * np.exp(-0.5j * np.pi * (t + 1) / n)
        inner = _odd_part(n, -1) * np.exp(-2j * np.pi * t / n)
    return _trigonometric(radices, kind, norm, digit_reversed, outer, inner, edge=n - 1)


@check_types
def circulant(
    column: ArrayLike, radices: Sequence[int], *, digit_reversed: bool = False
) -> list[Stages]:
    """Return the circulant matrix `C[i, j] = column[(i - j) mod n] = F⁻¹ diag(F column) F`.

    No permutation is needed: the digit-reversed orders of `F` and `F⁻¹` cancel.

    Args:
        column: array of shape `(n,)`, the first column.
        radices: the radices, whose product is `n`.
        digit_reversed: give `R C Rᵀ`, signals on both sides in the order of the digit reversal `R`,
            as two butterflies; otherwise `C` itself has an identity in front, depth 3.
    """
    spectrum = np.fft.fft(_vector(column, math.prod(radices), "column"))
    forward, inverse = constructions.dft(radices), constructions.dft(radices, inverse=True)
    if digit_reversed:
        return [inverse, constructions.rows_scaled(forward, spectrum)]
    inverse = _columns_scaled(inverse, spectrum[constructions.digit_reversal(radices)])
    return [constructions.identity(radices), inverse, forward]


@check_types
def toeplitz(column: ArrayLike, row: ArrayLike, radices: Sequence[int]) -> list[Stages]:
    """Return a circulant K-matrix whose upper left block is a Toeplitz matrix: depth 3.

    Args:
        column: array of shape `(rows,)`, the first column.
        row: array of shape `(columns,)`, the first row; its first entry is not used.
        radices: radices of a size `N ≥ rows + columns - 1` (`padded_size` finds one).

    Returns:
        Butterflies of size `N`; the first `rows` rows and `columns` columns are in use.

    Raises:
        ValueError: if the radices multiply to less.
    """
    column, row, n = np.asarray(column), np.asarray(row), math.prod(radices)
    if n < len(column) + len(row) - 1:
        raise ValueError(
            "A Toeplitz matrix is embedded in a circulant matrix of at least rows + columns - 1 = "
            f"{len(column) + len(row) - 1}. Received: radices={tuple(radices)} (product {n})"
        )
    first = np.zeros(n, dtype=np.result_type(column, row))
    first[: len(column)] = column
    if len(row) > 1:
        first[1 - len(row) :] = row[:0:-1]
    return circulant(first, radices)


@check_types
def haar(radices: Sequence[int], *, in_place: bool = False) -> list[Stages]:
    """Return the orthonormal Haar wavelet transform of mixed radix.

    With the orthonormal cosine matrix `W_r`, whose first row is constant and whose other rows are
    the details (`W_2` is Haar's), the matrix of size `r n` is, first radix last,

        H_{rn} = [H_n ⊗ W_r[0]; I_n ⊗ W_r[1]; …; I_n ⊗ W_r[r - 1]].

    Args:
        radices: the radices; all 2 gives the classical transform.
        in_place: leave each coefficient where it is computed (a detail of level `j` at the
            multiples of `r_1 ⋯ r_{j-1}`): an identity and one butterfly. Otherwise the order is
            coarse to fine, as above, at depth 4.
    """
    stages, order = constructions.identity(radices), np.zeros(1, dtype=int)
    for stage, r in zip(stages, radices, strict=True):
        wave = np.cos(np.pi * np.outer(np.arange(r), np.arange(r) + 0.5) / r) * np.sqrt(2 / r)
        wave[0] = np.sqrt(1 / r)
        stage[:, 0] = wave
    butterflies = [constructions.identity(radices), stages]
    if in_place:
        return butterflies
    for outer, inner, r, _ in constructions.stage_shapes(radices)[::-1]:
        details = inner * (np.arange(1, r)[:, None] + r * np.arange(outer)).ravel()
        order = np.concatenate([order, details])
    return compose(constructions.permutation(order, radices, rising_first=True), butterflies)


def _trigonometric(radices, kind, norm, digit_reversed, outer, inner, edge):
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
    reversal, fourier = constructions.digit_reversal(radices), [constructions.dft(radices)]
    if kind == 2 and digit_reversed:
        factor = times_diagonal(diagonal_times(fourier, outer[reversal]), inner)
        return [*factor, *constructions.permutation(even_odd, radices)]
    factor = times_diagonal(diagonal_times(fourier, inner[reversal]), outer)
    order = np.argsort(even_odd[reversal])
    if digit_reversed:
        order = order[reversal]
    result = [*constructions.permutation(order, radices, rising_first=True), *factor]
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


def _size(stages):
    return math.prod(_radices(stages))


def _identity_like(stages):
    return constructions.identity(_radices(stages))


def _vector(values, n, name):
    values = np.asarray(values)
    if values.shape != (n,):
        raise ValueError(
            f"`{name}` must have shape ({n},), the size of the K-matrix. "
            f"Received: {name} of shape {values.shape}"
        )
    return values
