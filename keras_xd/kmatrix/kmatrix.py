"""One K-matrix on its own: weights, plan and what can be done with them."""

import math
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.type_aliases import Tensor
from keras_xd.kmatrix import constructions, product, transform
from keras_xd.kmatrix import radix as radices

# How many numbers `magnitudes` computes at once: 8 MiB in float32.
LARGEST_BATCH = 2**21


class KMatrix:
    """A structured matrix of depth `d`: a product of `d` butterflies of mixed radices.

    The matrix is kept in analysis form `P = B_0ᵀ · B_1 · B_2ᵀ ⋯` (see `constructions`); its
    transpose, the synthesis form, applies the same weights in the opposite direction.

    Args:
        weights: array, tensor or variable of shape `(d, 2, n Σ r_j)`, real and imaginary parts, as
            `constructions.kmatrix_weights` packs them.
        plan: the `Plan` (size, radices, groups) from `plan(n, radix)`.

    Raises:
        ValueError: if the shape of the weights does not fit the plan.

    Example:

    >>> import numpy as np
    >>> from keras_xd import kmatrix
    >>> fourier = kmatrix.KMatrix.dft(6)
    >>> real, imaginary = fourier.apply(np.eye(6, dtype="float32"), axis=0)
    >>> order = kmatrix.digit_reversal((2, 3))
    >>> spectrum = np.fft.fft(np.eye(6), axis=0)[order]
    >>> bool(np.allclose(np.array(real) + 1j * np.array(imaginary), spectrum, atol=1e-6))
    True

    Reference:
        Dao et al., "Kaleidoscope: An Efficient, Learnable Representation For All Structured Linear
        Maps", 2020; the K-matrices of XD-operations, Definition 3.2.
    """

    @check_types
    @check_types
    def __init__(self, weights: Tensor, plan: radices.Plan):
        shape = tuple(getattr(weights, "shape", ()))
        if len(shape) != 3 or shape[1:] != (2, plan.parameters) or shape[0] < 1:
            raise ValueError(
                f"The weights of a K-matrix of size {plan.n} with radices {plan.radices} must have "
                f"shape (depth, 2, {plan.parameters}). Received: weights of shape {shape}"
            )
        self.weights = weights
        self.plan = plan

    @property
    def depth(self) -> int:
        """Number of butterflies."""
        return self.weights.shape[0]

    @classmethod
    def _build(cls, n, radix, depth, build):
        plan = radices.plan(n, radix, depth=depth)
        first = build(plan.radices)
        rest = [constructions.identity(plan.radices)] * (depth - len(first))
        dtype = "float64" if keras.config.floatx() == "float64" else "float32"
        return cls(constructions.kmatrix_weights([*first, *rest], dtype), plan)

    @classmethod
    @check_types
    def identity(
        cls, n: int, radix: int | tuple[int, ...] | None = None, depth: int = 1
    ) -> "KMatrix":
        """The identity matrix of size `n`."""
        return cls._build(n, radix, depth, lambda r: [constructions.identity(r)])

    @classmethod
    @check_types
    def dft(
        cls,
        n: int,
        radix: int | tuple[int, ...] | None = None,
        depth: int = 1,
        *,
        inverse: bool = False,
        unitary: bool = False,
    ) -> "KMatrix":
        """The DFT in digit-reversed order, `P F`; with `inverse` its conjugate over `n`.

        The transpose of the inverse form, `F⁻¹ Pᵀ`, takes such a spectrum back to the signal.
        """
        options = {"inverse": inverse, "unitary": unitary}
        return cls._build(n, radix, depth, lambda r: [constructions.dft(r, **options)])

    @classmethod
    @check_types
    def random_unitary(
        cls,
        n: int,
        radix: int | tuple[int, ...] | None = None,
        depth: int = 1,
        *,
        seed: int | None = None,
    ) -> "KMatrix":
        """A product of random unitary stages."""
        return cls._random(constructions.random_unitary, n, radix, depth, seed)

    @classmethod
    @check_types
    def random_orthogonal(
        cls,
        n: int,
        radix: int | tuple[int, ...] | None = None,
        depth: int = 1,
        *,
        seed: int | None = None,
    ) -> "KMatrix":
        """A product of random real orthogonal stages."""
        return cls._random(constructions.random_orthogonal, n, radix, depth, seed)

    @classmethod
    @check_types
    def _random(cls, construction, n, radix, depth, seed):
        rng = np.random.default_rng(seed)
        return cls._build(n, radix, depth, lambda r: [construction(r, rng) for _ in range(depth)])

    @classmethod
    @check_types
    def permutation(
        cls,
        order: Sequence[int] | np.ndarray,
        radix: int | tuple[int, ...] | None = None,
        depth: int = 2,
    ) -> "KMatrix":
        """The permutation matrix that maps `x` to `x[order]`; needs `depth ≥ 2`."""
        if validation.positive_integer(depth, "depth") < 2:
            raise ValueError(
                f"A permutation is a K-matrix of depth at least 2. Received: depth={depth}"
            )
        return cls._build(
            len(order),
            radix,
            depth,
            lambda r: constructions.permutation(order, r, rising_first=True),
        )

    def apply(
        self, x: Tensor | tuple[Tensor, Tensor], axis: int = -1, *, transpose: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Multiply along an axis.

        Args:
            x: a real tensor, or a pair `(real, imaginary)` of them, of static shape except for one
                dynamic axis; size `n` along `axis`.
            axis: the axis.
            transpose: multiply by `Pᵀ` (not conjugated) instead of `P`.

        Returns:
            Pair `(real, imaginary)` of tensors of the shape of `x`.

        Raises:
            ValueError: if the axis does not have size `n`.
        """
        parts = list(x) if isinstance(x, (tuple, list)) else [x]
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
        (factors,) = product.fold([ops.convert_to_tensor(self.weights)], [self.plan])
        if transpose:
            if len(parts) == 1:
                columns = ops.stack([columns, ops.zeros_like(columns)], axis=1)
            columns = ops.transpose(columns, (0, 2, 1, 3))
            result = transform.synthesis(factors, self.plan, pair=True)(columns)
            real, imaginary = ops.unstack(result[0], axis=0)
        else:
            result = transform.analysis(factors, self.plan, pair=len(parts) == 2)(columns)
            real, imaginary = ops.unstack(result[0], axis=1)
        back = np.argsort(order).tolist()
        return tuple(ops.transpose(ops.reshape(part, shape), back) for part in (real, imaginary))

    def dense(self) -> tuple[Tensor, Tensor]:
        """Return the matrix multiplied out, a pair of tensors of shape `(n, n)`."""
        dtype = keras.backend.standardize_dtype(self.weights.dtype)
        return self.apply(ops.eye(self.plan.n, dtype=dtype), axis=0)

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
        units = np.zeros((self.plan.n, len(positions)), dtype="float32")
        units[positions, np.arange(len(positions))] = 1.0
        parts = self.apply(units, axis=0, transpose=transpose)
        real, imaginary = (ops.convert_to_numpy(part) for part in parts)
        return real + 1j * imaginary

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
def parameter_count(n: int, radix: int | tuple[int, ...] | None = None, depth: int = 1) -> int:
    """Number of real parameters of one K-matrix: `2 d n Σ r_j`.

    Example:

    >>> from keras_xd import kmatrix
    >>> kmatrix.parameter_count(32), kmatrix.parameter_count(32, radix=32)
    (640, 2048)
    """
    factors = radices.factorise(n, radix)
    return 2 * depth * math.prod(factors) * sum(factors)
