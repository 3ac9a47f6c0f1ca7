"""KMatrix: one K-matrix on its own, of weights or by name."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import keras
import numpy as np
from keras import ops
from numpy.typing import ArrayLike

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.type_aliases import Tensor
from keras_xd.kmatrix import (
    constructions,
    product,
    projection,
    sparse_matrices,
    special,
    structured,
    transform,
)
from keras_xd.kmatrix import radix as radices
from keras_xd.kmatrix.constructions import Stages

Radices = int | tuple[int, ...] | None
# How many numbers `magnitudes` computes at once: 8 MiB in float32.
LARGEST_BATCH = 2**21
# Up to this size `columns` multiplies the matrix out in NumPy, because dispatching the operations
# of a backend takes longer.
LARGEST_IN_NUMPY = 64


class KMatrix:
    """A structured matrix of depth `d`: a product of `d` butterflies of mixed radices.

    The matrix is `P = B_0ᵀ · B_1 · B_2ᵀ ⋯`; its transpose applies the same weights in the opposite
    direction. Matrices that have a name are made by class methods such as `KMatrix.dct(16)`. Where
    they take `radix`, it is that of `factorise`; `depth` is the number of butterflies, by default
    as few as the matrix takes, and identities fill a greater one.

    `matrix @ x` and `x @ matrix` multiply as NumPy does. If weights and `x` are NumPy arrays, so is
    the result, a complex one where the matrix is complex. Otherwise it is a tensor of the backend,
    through which gradients flow, or a pair `(real, imaginary)` of tensors where the matrix is
    complex. Variables and symbolic inputs of Keras must stand on the right; or use `apply`. The
    product of two K-matrices of the same radices is a K-matrix.

    Args:
        weights: array, tensor or variable of shape `(d, 2, n Σ r_j)`, real and imaginary parts of
            one butterfly after another, or `(d, 1, n Σ r_j)`, real parts alone.
        plan: the `Plan` (size, radices, groups) from `plan(n, radix)`.
        real: take the real part of the product, as cosine transforms do. Without imaginary parts
            the matrix is real anyway.
        transposed: stand for the transpose `Pᵀ`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import kmatrix
    >>> cosine = kmatrix.KMatrix.dct(8, norm="ortho")
    >>> cosine
    KMatrix(shape=(8, 8), radices=(2, 2, 2), depth=4, parameters=384, real=True)
    >>> signal = np.arange(8.0)
    >>> bool(np.allclose(cosine.T @ (cosine @ signal), signal, atol=1e-5))
    True
    >>> fourier = kmatrix.KMatrix.dft(6, order="natural")
    >>> bool(np.allclose(fourier @ signal[:6], np.fft.fft(signal[:6]), atol=1e-5))
    True

    Reference:
        Dao et al., "Kaleidoscope: An Efficient, Learnable Representation For All Structured Linear
        Maps", 2020; the K-matrices of XD-operations, Definition 3.2.
    """

    __array_ufunc__ = None  # so that NumPy leaves `array @ matrix` to the matrix

    @check_types
    def __init__(
        self, weights: Tensor, plan: radices.Plan, *, real: bool = False, transposed: bool = False
    ):
        shape = tuple(getattr(weights, "shape", ()))
        fits = len(shape) == 3 and shape[1] in (1, 2) and shape[2] == plan.parameters
        if not fits or shape[0] < 1:
            raise ValueError(
                f"The weights of a K-matrix of size {plan.n} with radices {plan.radices} must have "
                f"shape (depth, 2, {plan.parameters}), or (depth, 1, {plan.parameters}) without "
                f"imaginary parts. Received: weights of shape {shape}"
            )
        self.weights = weights
        self.plan = plan
        self.real = real or shape[1] == 1
        self.transposed = transposed

    def __repr__(self) -> str:
        transposed = ", transposed=True" if self.transposed else ""
        return (
            f"KMatrix(shape={self.shape}, radices={self.plan.radices}, depth={self.depth}, "
            f"parameters={self.parameters}, real={self.real}{transposed})"
        )

    @property
    def depth(self) -> int:
        """Number of butterflies."""
        return self.weights.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, `(n, n)`."""
        return self.plan.n, self.plan.n

    @property
    def parameters(self) -> int:
        """Number of real numbers in the weights."""
        return math.prod(self.weights.shape)

    @property
    def T(self) -> "KMatrix":  # as in NumPy
        """The transpose, not conjugated, of the same weights."""
        return KMatrix(self.weights, self.plan, real=self.real, transposed=not self.transposed)

    @property
    def butterflies(self) -> list[Stages]:
        """The butterflies in NumPy, each a list of stages, which `from_butterflies` takes."""
        weights = ops.convert_to_numpy(self.weights)
        found = constructions.butterflies_of(weights, self.plan.radices)
        return special.transpose(found) if self.transposed else found

    def __matmul__(self, x: "Tensor | tuple[Tensor, Tensor] | KMatrix") -> Any:
        if isinstance(x, KMatrix):
            return self._composed(x)
        return self._times(x, -2)

    def __rmatmul__(self, x: Tensor | tuple[Tensor, Tensor]) -> Any:
        return self.T._times(x, -1)

    def apply(self, x: Tensor | tuple[Tensor, Tensor], axis: int = -1) -> Any:
        """Multiply along an axis.

        Args:
            x: a real tensor, or a pair `(real, imaginary)` of them, of static shape except for one
                dynamic axis; size `n` along `axis`.
            axis: the axis.

        Returns:
            Pair `(real, imaginary)` of tensors of the shape of `x`; of a real matrix and a real
            tensor a single tensor.
        """
        parts = list(x) if isinstance(x, (tuple, list)) else [x]
        if not self.real:
            return self._products(parts, axis)
        results = [self._products([part], axis)[0] for part in parts]
        return results[0] if len(results) == 1 else tuple(results)

    def dense(self) -> Any:
        """Return the matrix multiplied out.

        Returns:
            A tensor of shape `(n, n)` of a real matrix, else the pair `(real, imaginary)`.
        """
        dtype = keras.backend.standardize_dtype(self.weights.dtype)
        return self.apply(ops.eye(self.plan.n, dtype=dtype), axis=0)

    def numpy(self) -> np.ndarray:
        """Return the matrix multiplied out, a real or complex NumPy array.

        Example:

        >>> from keras_xd import kmatrix
        >>> kmatrix.KMatrix.hadamard(2).numpy().tolist()
        [[1.0, 1.0], [1.0, -1.0]]
        """
        return _joined(self.dense())

    @check_types
    def relative_error(self, matrix: np.ndarray) -> float:
        """Return `‖A - P‖ / ‖A‖` for a dense matrix `A` in the Frobenius norm."""
        if np.shape(matrix) != self.shape:
            raise ValueError(
                f"The matrix must have the shape {self.shape}. Received: shape {np.shape(matrix)}"
            )
        return structured.relative_error(matrix, self.numpy())

    def columns(self, positions: Sequence[int] | np.ndarray) -> Tensor:
        """Return some columns of the matrix, without multiplying out the others.

        Args:
            positions: which columns.

        Returns:
            A complex array of shape `(n, number of positions)`.

        Example:

        >>> from keras_xd import kmatrix
        >>> kmatrix.KMatrix.dft(6).columns([0])[:, 0].real.tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
        """
        double = keras.backend.standardize_dtype(self.weights.dtype) == "float64"
        if self.plan.n <= LARGEST_IN_NUMPY:
            dense = special.kmatrix_dense(self.butterflies)
            dense = dense.real if self.real else dense
            found = dense[:, np.asarray(positions, "int64")]
        else:
            units = np.zeros((self.plan.n, len(positions)), "float64" if double else "float32")
            units[positions, np.arange(len(positions))] = 1.0
            found = _joined(self.apply(units, axis=0))
        return found.astype("complex128" if double else "complex64", copy=False)

    def magnitudes(self, most: int = 512) -> np.ndarray:
        """Return an overview of a matrix that is too large to multiply out.

        Args:
            most: how many rows and columns the overview may have.

        Returns:
            Array of at most `(most, most)`: of every `s`-th column, `s = ⌈n / most⌉`, the root mean
            squares of `s` neighbouring entries each.

        Example:

        >>> from keras_xd import kmatrix
        >>> kmatrix.KMatrix.dft(2000).magnitudes(500).shape
        (500, 500)
        """
        n = self.plan.n
        step = -(-n // validation.positive_integer(most, "most"))
        starts = np.arange(0, n, step)
        counts = np.diff([*starts, n])[:, None]
        at_once = max(1, LARGEST_BATCH // n)
        parts = []
        for first in range(0, len(starts), at_once):
            found = self.columns(starts[first : first + at_once])
            squares = np.add.reduceat(found.real**2 + found.imag**2, starts, axis=0)
            parts.append(np.sqrt(squares / counts))
        return np.concatenate(parts, axis=1, dtype="float32")

    def _times(self, x, axis):
        if not (hasattr(x, "shape") or isinstance(x, (tuple, list))):
            return NotImplemented
        if isinstance(x, list):
            x = np.asarray(x)
        whole = isinstance(x, np.ndarray)
        parts = _parts(x, self.weights.dtype) if whole else x if isinstance(x, tuple) else (x,)
        rank = len(parts[0].shape)
        if rank < 1:
            raise ValueError(f"A K-matrix multiplies arrays of at least one axis. Received: {x!r}")
        result = self.apply(parts, -1 if rank == 1 else axis)
        if not whole or not isinstance(self.weights, np.ndarray):
            return result
        result = _joined(result)
        complex_result = len(parts) == 2 or (not self.real and self.weights[:, 1].any())
        return result if complex_result else result.real

    def _products(self, parts, axis):
        """Return the pair `P · x` of a tensor or a pair; of a real matrix its first."""
        rank = len(parts[0].shape)
        size = parts[0].shape[axis]
        if size != self.plan.n:
            raise ValueError(
                f"The axis must have the matrix's size {self.plan.n}. "
                f"Received: shape {tuple(parts[0].shape)}, axis={axis}"
            )
        order = [axis % rank, *(i for i in range(rank) if i != axis % rank)]
        moved = ops.transpose(ops.convert_to_tensor(parts[0]), order)
        shape = [-1 if d is None else d for d in moved.shape]
        columns = ops.reshape(moved, (1, self.plan.n, -1))
        if len(parts) == 2:
            imaginary = ops.transpose(ops.convert_to_tensor(parts[1]), order)
            columns = ops.stack([columns, ops.reshape(imaginary, (1, self.plan.n, -1))], axis=1)
        weights = ops.convert_to_tensor(self.weights)
        if weights.shape[1] == 1:
            weights = ops.concatenate([weights, ops.zeros_like(weights)], axis=1)
        (factors,) = product.multiply_out([weights], [self.plan])
        if self.transposed:
            if len(parts) == 1:
                columns = ops.stack([columns, ops.zeros_like(columns)], axis=1)
            columns = ops.transpose(columns, (0, 2, 1, 3))
            result = transform.transposed_transform(factors, self.plan, pair=True)(columns)
            results = ops.unstack(result[0], axis=0)
        else:
            result = transform.forward_transform(factors, self.plan, pair=len(parts) == 2)(columns)
            results = ops.unstack(result[0], axis=1)
        back = np.argsort(order).tolist()
        return tuple(ops.transpose(ops.reshape(part, shape), back) for part in results)

    def _composed(self, other):
        """Return the K-matrix `self @ other`."""
        if self.plan.radices != other.plan.radices:
            raise ValueError(
                "K-matrices that are multiplied must have the same radices. "
                f"Received: radices={self.plan.radices} and {other.plan.radices}"
            )
        return self._combined(special.compose, self, other)

    @classmethod
    @check_types
    def from_butterflies(cls, butterflies: Sequence[Stages], *, real: bool = False) -> Self:
        """A matrix from stages, as `butterflies` are.

        Args:
            butterflies: a list of butterflies, each a list of stages: arrays of shape
                `(n / (r s), s, r, r)` with the product `s` of the radices of the stages before.
            real: take the real part of their product.

        Example:

        >>> from keras_xd import kmatrix
        >>> cosine = kmatrix.KMatrix.dct(8)
        >>> kmatrix.KMatrix.from_butterflies(cosine.butterflies[1:], real=True).depth
        3
        """
        if not butterflies or not all(isinstance(one, (list, tuple)) for one in butterflies):
            raise ValueError(
                "A K-matrix has at least one butterfly, each a list of stages. "
                f"Received: butterflies={butterflies!r}"
            )
        return cls._of_butterflies(list(butterflies), real=real)

    @classmethod
    def _of_butterflies(cls, butterflies, **options):
        factors = tuple(stage.shape[-1] for stage in butterflies[0])
        return cls._build(math.prod(factors), factors, None, lambda r: butterflies, **options)

    @classmethod
    def _build(
        cls,
        n: int,
        radix: Radices,
        depth: int | None,
        build: Callable[[tuple[int, ...]], list[Stages]],
        *,
        real: bool = False,
        parts: int = 2,
    ) -> Self:
        """Make a matrix of the butterflies that `build` returns for the radices."""
        first = build(radices.factorise(n, radix))
        depth = validation.positive_integer(len(first) if depth is None else depth, "depth")
        if depth < len(first):
            raise ValueError(
                f"This matrix is a K-matrix of depth at least {len(first)}. Received: depth={depth}"
            )
        plan = radices.plan(n, radix, depth=depth)
        rest = [constructions.identity(plan.radices)] * (depth - len(first))
        dtype = "float64" if keras.config.floatx() == "float64" else "float32"
        weights = constructions.kmatrix_weights([*first, *rest], dtype)
        return cls(weights[:, :parts], plan, real=real)

    @classmethod
    def _combined(cls, combine, left, right):
        """Return the K-matrix of two by a function of their butterflies, a product of some kind."""
        for matrix in (left, right):
            if not isinstance(matrix.weights, np.ndarray):
                raise ValueError(
                    "K-matrices are multiplied with each other while their weights are NumPy "
                    f"arrays. Received: weights of type {type(matrix.weights).__name__}"
                )
        parts = [matrix.weights.shape[1] for matrix in (left, right)]
        real = any(m.real for m, count in zip((left, right), parts, strict=True) if count == 2)
        if real and parts == [2, 2]:
            raise ValueError(
                "The real part of a complex K-matrix is multiplied with K-matrices without "
                f"imaginary parts only. Received: {left!r} and {right!r}"
            )
        butterflies = combine(left.butterflies, right.butterflies)
        return cls._of_butterflies(butterflies, real=real, parts=max(parts))

    @classmethod
    def _dense_block(cls, matrix):
        """Return the K-matrix of a square array, one block."""
        matrix = np.asarray(matrix)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise ValueError(f"`factors` must be square. Received: array of shape {matrix.shape}")
        stage = matrix.T.astype(complex)[None, None]
        return cls._of_butterflies([[stage]], parts=_parts_of(matrix))

    @classmethod
    @check_types
    def identity(cls, n: int, radix: Radices = None, depth: int = 1) -> Self:
        """The identity matrix of size `n`."""
        return cls._build(n, radix, depth, lambda r: [constructions.identity(r)])

    @classmethod
    @check_types
    def dft(
        cls,
        n: int,
        radix: Radices = None,
        depth: int | None = None,
        *,
        inverse: bool = False,
        unitary: bool = False,
        order: str = "digit_reversed",
    ) -> Self:
        """The discrete Fourier transform; with `inverse` its conjugate over `n`.

        Args:
            n: the size.
            radix: as in `factorise`.
            depth: number of butterflies; `None`: as few as it takes.
            inverse: make the inverse transform.
            unitary: scale by `1/√n`.
            order: of the frequencies. `"digit_reversed"`, that of `digit_reversal`, takes depth 1;
                the transpose of the inverse form takes such a spectrum back to the signal.
                `"natural"` is that of `np.fft.fft`, at depth 3.
        """
        validation.one_of(order, ("digit_reversed", "natural"), "order")

        def build(r):
            stages = constructions.dft(r, inverse=inverse, unitary=unitary)
            return [stages] if order == "digit_reversed" else special.in_natural_order(stages)

        return cls._build(n, radix, depth, build)

    @classmethod
    @check_types
    def dct(
        cls,
        n: int,
        radix: Radices = None,
        depth: int | None = None,
        *,
        kind: int = 2,
        norm: str | None = None,
    ) -> Self:
        """The discrete cosine transform, as `scipy.fft.dct`.

        Args:
            n: the size.
            radix: as in `factorise`.
            depth: number of butterflies; `None`: 4 for kind 2 and 3 for the others.
            kind: 2, 3 or 4.
            norm: `None` or `"ortho"`.
        """
        return cls._build(n, radix, depth, lambda r: special.dct(r, kind, norm), real=True)

    @classmethod
    @check_types
    def dst(
        cls,
        n: int,
        radix: Radices = None,
        depth: int | None = None,
        *,
        kind: int = 2,
        norm: str | None = None,
    ) -> Self:
        """The discrete sine transform, as `scipy.fft.dst`; arguments as in `dct`."""
        return cls._build(n, radix, depth, lambda r: special.dst(r, kind, norm), real=True)

    @classmethod
    @check_types
    def hadamard(cls, n: int, radix: Radices = None, depth: int | None = None) -> Self:
        """The Hadamard matrix `H`, of entries of modulus 1 with `H Hᴴ = n I`.

        It is that of `scipy.linalg.hadamard` and real where all radices are powers of two.
        """
        real = all(r & (r - 1) == 0 for r in radices.factorise(n, radix))
        return cls._build(n, radix, depth, special.hadamard, parts=1 if real else 2)

    @classmethod
    @check_types
    def haar(cls, n: int, radix: Radices = None, depth: int | None = None) -> Self:
        """The orthonormal Haar wavelet transform, coarse to fine, of any radices."""
        return cls._build(n, radix, depth, special.haar, parts=1)

    @classmethod
    @check_types
    def diagonal(cls, values: ArrayLike, radix: Radices = None, depth: int | None = None) -> Self:
        """The diagonal matrix of values, real if they are."""
        values = _vector(values, "values")
        build = functools.partial(special.diagonal, values)
        return cls._build(len(values), radix, depth, build, parts=_parts_of(values))

    @classmethod
    @check_types
    def permutation(
        cls, order: Sequence[int] | np.ndarray, radix: Radices = None, depth: int | None = None
    ) -> Self:
        """The permutation matrix that maps `x` to `x[order]`; needs `depth ≥ 2`."""
        build = functools.partial(constructions.permutation, order, rising_first=True)
        return cls._build(len(order), radix, depth, build)

    @classmethod
    @check_types
    def circulant(cls, column: ArrayLike, radix: Radices = None, depth: int | None = None) -> Self:
        """The circulant matrix with this first column, real if the column is."""
        column = _vector(column, "column")
        build = functools.partial(special.circulant, column)
        return cls._build(len(column), radix, depth, build, real=not np.iscomplexobj(column))

    @classmethod
    @check_types
    def toeplitz(
        cls, column: ArrayLike, row: ArrayLike, radix: Radices = None, depth: int | None = None
    ) -> Self:
        """A circulant matrix whose upper left corner is a Toeplitz matrix, as SciPy's.

        Args:
            column: its first column.
            row: its first row, whose first entry is not used.
            radix: as in `padded_size`, for a size of at least `rows + columns - 1`.
            depth: number of butterflies; `None`: 3.

        Example:

        >>> from keras_xd import kmatrix
        >>> kmatrix.KMatrix.toeplitz([1, 2], [1, 3]).numpy()[:2, :2].round(3).tolist()
        [[1.0, 3.0], [2.0, 1.0]]
        """
        column, row = _vector(column, "column"), _vector(row, "row")
        n = radices.padded_size(len(column) + len(row) - 1, radix)
        real = not (np.iscomplexobj(column) or np.iscomplexobj(row))
        build = functools.partial(special.toeplitz, column, row)
        return cls._build(n, radix, depth, build, real=real)

    @classmethod
    @check_types
    def sparse(cls, matrix: np.ndarray, radix: Radices = None, depth: int | None = None) -> Self:
        """A matrix whose upper left corner is a sparse matrix and whose other entries are zero.

        Dao et al. 2020 show that four pairs of a rising and a falling butterfly suffice, with an
        expansion of the size. Here three pairs do, and the size grows only to the non-zeros.

        Args:
            matrix: array of shape `(rows, columns)`.
            radix: as in `padded_size`, for a size of at least `rows`, `columns` and the number of
                non-zeros.
            depth: number of butterflies; `None`: 6.

        Example:

        >>> import numpy as np
        >>> from keras_xd import kmatrix
        >>> cycle = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)
        >>> found = kmatrix.KMatrix.sparse(cycle)
        >>> found.shape, bool(np.allclose(found.numpy()[:6, :6], cycle))
        ((12, 12), True)
        """
        matrix = np.asarray(matrix)
        if matrix.ndim != 2 or not matrix.size:
            raise ValueError(
                f"`matrix` must be an array of two axes. Received: matrix of shape {matrix.shape}"
            )
        n = radices.padded_size(sparse_matrices.smallest_size(matrix), radix)
        build = functools.partial(sparse_matrices.sparse, matrix)
        return cls._build(n, radix, depth, build, parts=_parts_of(matrix))

    @classmethod
    @check_types
    def kronecker(cls, *factors: "KMatrix | np.ndarray") -> "KMatrix":
        """The Kronecker product `A_1 ⊗ A_2 ⊗ ⋯`, as `np.kron`.

        Args:
            factors: K-matrices, and square arrays, which count as matrices of one block.

        Returns:
            A matrix of the radices of all factors, those of the last one first, and the largest of
            their depths.

        Example:

        >>> import numpy as np
        >>> from keras_xd import kmatrix
        >>> kmatrix.KMatrix.kronecker(np.ones((3, 3)), kmatrix.KMatrix.dct(4))
        KMatrix(shape=(12, 12), radices=(2, 2, 3), depth=4, parameters=672, real=True)
        """
        if not factors:
            raise ValueError("A Kronecker product has at least one factor. Received: factors=()")
        matrices = [one if isinstance(one, KMatrix) else cls._dense_block(one) for one in factors]
        return functools.reduce(functools.partial(cls._combined, special.kronecker), matrices)

    @classmethod
    @check_types
    def random_unitary(
        cls, n: int, radix: Radices = None, depth: int = 1, *, seed: int | None = None
    ) -> Self:
        """A product of random unitary stages."""
        return cls._random(constructions.random_unitary, n, radix, depth, seed)

    @classmethod
    @check_types
    def random_orthogonal(
        cls, n: int, radix: Radices = None, depth: int = 1, *, seed: int | None = None
    ) -> Self:
        """A product of random real orthogonal stages."""
        return cls._random(constructions.random_orthogonal, n, radix, depth, seed)

    @classmethod
    def _random(cls, construction, n, radix, depth, seed):
        rng = np.random.default_rng(seed)
        return cls._build(n, radix, depth, lambda r: [construction(r, rng) for _ in range(depth)])

    @classmethod
    @check_types
    def project(
        cls,
        matrix: np.ndarray,
        radix: Radices = None,
        depth: int = 1,
        *,
        steps: int = 50,
        seed: int | None = None,
    ) -> Self:
        """A K-matrix near to a square matrix in the Frobenius norm; real if that is real.

        One butterfly is found by hierarchical singular value decompositions, which are exact if the
        matrix is such a butterfly. Deeper K-matrices start from the one found at a butterfly less
        (so that depth never hurts), from a rising butterfly, from a random one and, if no row or
        column has two non-zeros, from the exact permutation. Each is refined by alternating least
        squares over its stages and the best is returned: for other matrices a local optimum.

        Args:
            matrix: finite array of shape `(n, n)`; `matrix.astype(complex)` for a complex K-matrix
                of a real one.
            radix: as in `factorise`.
            depth: number of butterflies.
            steps: most sweeps of refinement for each start; 0 keeps the starts.
            seed: seed of the random start.

        Example:

        >>> import numpy as np
        >>> from keras_xd import kmatrix
        >>> target = np.kron(np.eye(3), [[1.0, 2.0], [3.0, 4.0]])
        >>> found = kmatrix.KMatrix.project(target)
        >>> found.real, found.relative_error(target) < 1e-6
        (True, True)

        Reference:
            Zheng, Riccietti and Gribonval, "Efficient identification of butterfly sparse matrix
            factorizations", 2023: hierarchical identification, for radix 2.
        """
        butterflies, _ = projection.project(matrix, radix, depth, steps, seed)
        return cls._of_butterflies(butterflies, parts=_parts_of(matrix))


def _parts_of(array):
    """Return how many parts the weights of an array's K-matrix have."""
    return 2 if np.iscomplexobj(array) else 1


def _vector(values: ArrayLike, name: str) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 1 or not values.size or values.dtype.kind not in "biufc":
        raise ValueError(
            f"`{name}` must be an array of numbers of one axis. "
            f"Received: {name} of shape {values.shape} and dtype {values.dtype}"
        )
    return values


def _joined(result):
    """Return a tensor, or a pair of them as one complex array, in NumPy."""
    if not isinstance(result, tuple):
        return ops.convert_to_numpy(result)
    real, imaginary = (ops.convert_to_numpy(part) for part in result)
    return real + 1j * imaginary


def _parts(x, dtype):
    """Return an array's real part, and imaginary part if it is complex, in the weights' type."""
    if x.dtype.kind not in "biufc":
        raise ValueError(f"A K-matrix multiplies numbers. Received: array of dtype {x.dtype}")
    dtype = keras.backend.standardize_dtype(dtype)
    parts = (x.real, x.imag) if x.dtype.kind == "c" else (x,)
    return tuple(part.astype("float64" if dtype == "float64" else "float32") for part in parts)
