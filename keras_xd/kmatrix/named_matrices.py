"""The K-matrices that have a name, as class methods of `KMatrix`."""

import functools
import math
from collections.abc import Sequence
from typing import Self

import keras
import numpy as np

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.kmatrix import constructions, projection, special
from keras_xd.kmatrix import radix as radices
from keras_xd.kmatrix.constructions import Stages


class NamedMatrices:
    """The constructors of `KMatrix`.

    Where they take `radix`, it is that of `factorise`; `depth` is the number of butterflies, by
    default as few as the matrix takes, and identities fill a greater one.
    """

    @classmethod
    @check_types
    def from_butterflies(
        cls, butterflies: Sequence[Stages] | Stages, *, real: bool = False
    ) -> Self:
        """A matrix from the stages that functions such as `kmatrix.dct` and `kmatrix.dft` return.

        Args:
            butterflies: a list of butterflies in analysis form, or the stages of a single one.
            real: take the real part of their product.

        Example:

        >>> from keras_xd import kmatrix
        >>> kmatrix.KMatrix.from_butterflies(kmatrix.toeplitz([1, 2], [1, 3], (3,))).depth
        3
        """
        butterflies = constructions.as_butterflies(butterflies)
        if not butterflies:
            raise ValueError(
                f"A K-matrix has at least one butterfly. Received: butterflies={butterflies!r}"
            )
        factors = tuple(stage.shape[-1] for stage in butterflies[0])
        return cls._build(math.prod(factors), factors, None, lambda r: butterflies, real=real)

    @classmethod
    def _build(cls, n, radix, depth, build, *, real=False, parts=2):
        first = build(radices.factorise(n, radix))
        depth = len(first) if depth is None else validation.positive_integer(depth, "depth")
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
    @check_types
    def identity(cls, n: int, radix: int | tuple[int, ...] | None = None, depth: int = 1) -> Self:
        """The identity matrix of size `n`."""
        return cls._build(n, radix, depth, lambda r: [constructions.identity(r)])

    @classmethod
    @check_types
    def dft(
        cls,
        n: int,
        radix: int | tuple[int, ...] | None = None,
        depth: int | None = None,
        *,
        inverse: bool = False,
        unitary: bool = False,
        order: str = "digit_reversed",
    ) -> Self:
        """The DFT; with `inverse` its conjugate over `n`.

        Args:
            n: the size.
            radix: as in `factorise`.
            depth: number of butterflies; `None`: as few as it takes.
            inverse: make the inverse transform.
            unitary: scale by `1/√n`.
            order: of the frequencies. `"digit_reversed"` gives `P F` at depth 1, and the transpose
                of the inverse form, `F⁻¹ Pᵀ`, takes such a spectrum back to the signal.
                `"natural"` gives `F`, as `np.fft.fft` does, at depth 3.
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
        radix: int | tuple[int, ...] | None = None,
        depth: int | None = None,
        *,
        kind: int = 2,
        norm: str | None = None,
    ) -> Self:
        """The discrete cosine transform II, III or IV of `kmatrix.dct`, as `scipy.fft.dct`."""
        return cls._build(n, radix, depth, lambda r: special.dct(r, kind, norm=norm), real=True)

    @classmethod
    @check_types
    def dst(
        cls,
        n: int,
        radix: int | tuple[int, ...] | None = None,
        depth: int | None = None,
        *,
        kind: int = 2,
        norm: str | None = None,
    ) -> Self:
        """The discrete sine transform II, III or IV of `kmatrix.dst`, as `scipy.fft.dst`."""
        return cls._build(n, radix, depth, lambda r: special.dst(r, kind, norm=norm), real=True)

    @classmethod
    @check_types
    def hadamard(
        cls, n: int, radix: int | tuple[int, ...] | None = None, depth: int | None = None
    ) -> Self:
        """The Hadamard matrix of `kmatrix.hadamard`, real where all radices are powers of two."""
        real = all(r & (r - 1) == 0 for r in radices.factorise(n, radix))
        return cls._build(n, radix, depth, special.hadamard, parts=1 if real else 2)

    @classmethod
    @check_types
    def haar(
        cls, n: int, radix: int | tuple[int, ...] | None = None, depth: int | None = None
    ) -> Self:
        """The orthonormal Haar wavelet transform of `kmatrix.haar`, coarse to fine."""
        return cls._build(n, radix, depth, special.haar, parts=1)

    @classmethod
    @check_types
    def circulant(
        cls,
        column: Sequence[float] | np.ndarray,
        radix: int | tuple[int, ...] | None = None,
        depth: int | None = None,
    ) -> Self:
        """The circulant matrix with this first column, real if the column is."""
        build = functools.partial(special.circulant, column)
        return cls._build(len(column), radix, depth, build, real=not np.iscomplexobj(column))

    @classmethod
    @check_types
    def project(
        cls,
        matrix: np.ndarray,
        radix: int | tuple[int, ...] | None = None,
        depth: int = 1,
        *,
        steps: int = 50,
        seed: int | None = None,
    ) -> Self:
        """A K-matrix near to a square matrix, found by `kmatrix.project`; real if that is real.

        Args:
            matrix: array of shape `(n, n)`.
            radix: as in `factorise`.
            depth: number of butterflies.
            steps: most sweeps of refinement for each start.
            seed: seed of the random start.

        Example:

        >>> import numpy as np
        >>> from keras_xd import kmatrix
        >>> target = np.kron(np.eye(3), [[1.0, 2.0], [3.0, 4.0]])
        >>> found = kmatrix.KMatrix.project(target)
        >>> found.real, found.relative_error(target) < 1e-6
        (True, True)
        """
        butterflies, _ = projection.project(matrix, radix, depth, steps, seed)
        parts = 2 if np.iscomplexobj(matrix) else 1
        return cls._build(len(matrix), radix, depth, lambda r: butterflies, parts=parts)

    @classmethod
    @check_types
    def random_unitary(
        cls,
        n: int,
        radix: int | tuple[int, ...] | None = None,
        depth: int = 1,
        *,
        seed: int | None = None,
    ) -> Self:
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
    ) -> Self:
        """A product of random real orthogonal stages."""
        return cls._random(constructions.random_orthogonal, n, radix, depth, seed)

    @classmethod
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
    ) -> Self:
        """The permutation matrix that maps `x` to `x[order]`; needs `depth ≥ 2`."""
        return cls._build(
            len(order),
            radix,
            depth,
            lambda r: constructions.permutation(order, r, rising_first=True),
        )
