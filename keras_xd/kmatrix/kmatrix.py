"""One K-matrix on its own: weights, plan and what can be done with them."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.type_aliases import Tensor
from keras_xd.kmatrix import constructions, product, special, transform
from keras_xd.kmatrix import radix as radices
from keras_xd.kmatrix.constructions import Stages
from keras_xd.kmatrix.named_matrices import NamedMatrices

# How many numbers `magnitudes` computes at once: 8 MiB in float32.
LARGEST_BATCH = 2**21
# Up to this size `columns` multiplies the matrix out in NumPy, because dispatching the operations
# of a backend takes longer.
LARGEST_IN_NUMPY = 64


class KMatrix(NamedMatrices):
    """A structured matrix of depth `d`: a product of `d` butterflies of mixed radices.

    The matrix is kept in analysis form `P = B_0ᵀ · B_1 · B_2ᵀ ⋯` (see `constructions`); its
    transpose, the synthesis form, applies the same weights in the opposite direction.

    `matrix @ x` and `x @ matrix` multiply as NumPy does. If weights and `x` are NumPy arrays, so is
    the result, a complex one where the matrix is complex. Otherwise it is a tensor of the backend,
    through which gradients flow, or a pair `(real, imaginary)` of tensors where the matrix is
    complex. Variables and symbolic inputs of Keras must stand on the right; or use `apply`.

    Args:
        weights: array, tensor or variable of shape `(d, 2, n Σ r_j)`, real and imaginary parts, as
            `constructions.kmatrix_weights` packs them, or `(d, 1, n Σ r_j)`, real parts alone.
        plan: the `Plan` (size, radices, groups) from `plan(n, radix)`.
        real: take the real part of the product, as cosine transforms do. Without imaginary parts
            the matrix is real anyway.
        transposed: stand for the transpose `Pᵀ`.

    Raises:
        ValueError: if the shape of the weights does not fit the plan.

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
        """The butterflies in NumPy, each a list of stages: what the functions beside take."""
        weights = ops.convert_to_numpy(self.weights)
        found = constructions.butterflies_of(weights, self.plan.radices)
        return special.transpose(found) if self.transposed else found

    def __matmul__(self, x: Tensor | tuple[Tensor, Tensor]) -> Any:
        return self._times(x, -2, transpose=False)

    def __rmatmul__(self, x: Tensor | tuple[Tensor, Tensor]) -> Any:
        return self._times(x, -1, transpose=True)

    def apply(
        self, x: Tensor | tuple[Tensor, Tensor], axis: int = -1, *, transpose: bool = False
    ) -> Any:
        """Multiply along an axis.

        Args:
            x: a real tensor, or a pair `(real, imaginary)` of them, of static shape except for one
                dynamic axis; size `n` along `axis`.
            axis: the axis.
            transpose: multiply by the transpose (not conjugated) instead.

        Returns:
            Pair `(real, imaginary)` of tensors of the shape of `x`; of a real matrix and a real
            tensor a single tensor.

        Raises:
            ValueError: if the axis does not have size `n`.
        """
        parts = list(x) if isinstance(x, (tuple, list)) else [x]
        transpose = transpose != self.transposed
        if not self.real:
            return self._products(parts, axis, transpose)
        results = [self._products([part], axis, transpose)[0] for part in parts]
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
        norm = np.linalg.norm(matrix)
        return float(np.linalg.norm(matrix - self.numpy()) / norm) if norm else 0.0

    def _times(self, x, axis, transpose):
        if isinstance(x, KMatrix) or not (hasattr(x, "shape") or isinstance(x, (tuple, list))):
            return NotImplemented
        if isinstance(x, list):
            x = np.asarray(x)
        whole = isinstance(x, np.ndarray)
        parts = _parts(x, self.weights.dtype) if whole else x if isinstance(x, tuple) else (x,)
        rank = len(parts[0].shape)
        if rank < 1:
            raise ValueError(f"A K-matrix multiplies arrays of at least one axis. Received: {x!r}")
        result = self.apply(parts, -1 if rank == 1 else axis, transpose=transpose)
        if not whole or not isinstance(self.weights, np.ndarray):
            return result
        result = _joined(result)
        complex_result = len(parts) == 2 or (not self.real and self.weights[:, 1].any())
        return result if complex_result else result.real

    def _products(self, parts, axis, transpose):
        """Return the pair `P · x` or `Pᵀ · x` of a tensor or a pair; of a real matrix its first."""
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
        (factors,) = product.fold([weights], [self.plan])
        if transpose:
            if len(parts) == 1:
                columns = ops.stack([columns, ops.zeros_like(columns)], axis=1)
            columns = ops.transpose(columns, (0, 2, 1, 3))
            result = transform.synthesis(factors, self.plan, pair=True)(columns)
            results = ops.unstack(result[0], axis=0)
        else:
            result = transform.analysis(factors, self.plan, pair=len(parts) == 2)(columns)
            results = ops.unstack(result[0], axis=1)
        back = np.argsort(order).tolist()
        return tuple(ops.transpose(ops.reshape(part, shape), back) for part in results)

    def columns(self, positions: Sequence[int] | np.ndarray, *, transpose: bool = False) -> Tensor:
        """Return some columns of the matrix, without multiplying out the others.

        Args:
            positions: which columns.
            transpose: take those of `Pᵀ` instead of `P`.

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
            found = (dense.T if transpose else dense)[:, np.asarray(positions, "int64")]
        else:
            units = np.zeros((self.plan.n, len(positions)), "float64" if double else "float32")
            units[positions, np.arange(len(positions))] = 1.0
            found = _joined(self.apply(units, axis=0, transpose=transpose))
        return found.astype("complex128" if double else "complex64", copy=False)

    def magnitudes(self, most: int = 512, *, transpose: bool = False) -> np.ndarray:
        """Return an overview of a matrix that is too large to multiply out.

        Args:
            most: how many rows and columns the overview may have.
            transpose: show `Pᵀ` instead of `P`.

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
            found = self.columns(starts[first : first + at_once], transpose=transpose)
            squares = np.add.reduceat(found.real**2 + found.imag**2, starts, axis=0)
            parts.append(np.sqrt(squares / counts))
        return np.concatenate(parts, axis=1, dtype="float32")


@check_types
def parameter_count(
    n: int, radix: int | str | tuple[int, ...] | None = None, depth: int = 1
) -> int:
    """Number of real parameters of one K-matrix: `2 d n Σ r_j`.

    Example:

    >>> from keras_xd import kmatrix
    >>> kmatrix.parameter_count(32), kmatrix.parameter_count(32, radix=32)
    (640, 2048)
    """
    factors = radices.factorise(n, radix)
    return 2 * depth * math.prod(factors) * sum(factors)


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
