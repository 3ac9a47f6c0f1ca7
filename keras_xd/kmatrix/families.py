"""The families of structured matrices behind one function, and the sizes that fit a density."""

import math
from collections.abc import Callable

from numpy.typing import ArrayLike

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.type_aliases import Config
from keras_xd.kmatrix import blast, block_tensor_train, kaleidoscope, structured
from keras_xd.kmatrix import radix as radices
from keras_xd.kmatrix.structured import Projection
from keras_xd.kmatrix.structured_product import structured_product

FAMILIES = ("kaleidoscope", "monarch", "block_tensor_train", "blast", "low_rank")
WITH_INPUTS = ("monarch", "block_tensor_train", "low_rank")
_NEAREST: dict[str, Callable[..., Projection]] = {
    "kaleidoscope": kaleidoscope.nearest_kaleidoscope,
    "monarch": block_tensor_train.nearest_monarch,
    "block_tensor_train": block_tensor_train.nearest_block_tensor_train,
    "blast": blast.nearest_blast,
    "low_rank": block_tensor_train.nearest_low_rank,
}
# What may stand beside the sizes of a family: how it is searched.
_OF_SEARCH = {"kaleidoscope": ("steps", "seed"), "blast": ("steps",)}
_MOST_BLOCKS = 16  # of a BLAST matrix along a side, as in its paper


@check_types
def project_to(
    matrix: ArrayLike,
    family: str,
    density: float = 0.25,
    inputs: ArrayLike | None = None,
    sizes: Config | None = None,
) -> Projection:
    """Return a structured matrix of a family near to a dense matrix, of at most a given density.

    Args:
        matrix: real array of shape `(rows, columns)`, multiplied as `matrix @ x`: the kernel of a
            `Dense` layer transposed.
        family: `"kaleidoscope"`, `"monarch"`, `"block_tensor_train"`, `"blast"` or `"low_rank"`.
        density: most numbers of the structured matrix, as a part of `rows · columns`; its sizes
            are the largest that keep to it.
        inputs: array of shape `(samples, columns)`, a few batches of what the layer is given. The
            error of the outputs is lowered in place of that of the matrix. Of the families
            `"monarch"`, `"block_tensor_train"` and `"low_rank"`.
        sizes: dictionary of sizes in place of those of the density, by family: `rank`; `blocks`;
            `row_factors`, `column_factors` and `rank`; `blocks`, `rank` and the most sweeps
            `steps`; `radix`, `depth`, `steps` and `seed`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import kmatrix
    >>> kernel = np.random.default_rng(0).normal(size=(48, 192))
    >>> kmatrix.project_to(kernel.T, "monarch")
    Projection('monarch', shape=(192, 48), parameters=1920, error=0.83..., bound=0.83..., ...)
    >>> kmatrix.project_to(kernel.T, "low_rank", sizes={"rank": 2}).parameters
    480
    """
    matrix, _ = structured.checked(matrix)
    rows, columns = matrix.shape
    validation.one_of(family, FAMILIES, "family")
    if inputs is not None and family not in WITH_INPUTS:
        raise ValueError(
            f"`inputs` are for the families {', '.join(WITH_INPUTS)}. Received: family={family!r}"
        )
    if sizes is None:
        sizes = sizes_within(matrix.shape, family, density)
    of_search = _OF_SEARCH.get(family, ())
    own = {name: value for name, value in sizes.items() if name not in of_search}
    if family == "kaleidoscope":
        own = {"radix": None, **own}
    structured_product(family, columns, rows, own)  # checks them
    return nearest(matrix, family, sizes, inputs)


def nearest(
    matrix: ArrayLike, family: str, sizes: Config, inputs: ArrayLike | None = None
) -> Projection:
    """Return a structured matrix of a family, or `"dense"`, and sizes near to a dense matrix."""
    matrix, inputs = structured.checked(matrix, inputs)
    if family == "dense":
        return Projection("dense", (matrix,), matrix, 0.0, 0.0, 0.0)
    given = {"inputs": inputs} if family in WITH_INPUTS else {}
    return _NEAREST[family](matrix, **sizes, **given)


def sizes_within(shape: tuple[int, int], family: str, density: float) -> Config:
    """Return the largest sizes of a family that keep to a share, the arguments of `nearest_…`."""
    validation.one_of(family, FAMILIES, "family")
    validation.number_within(density, "(]", 0, 1, "density")
    rows, columns = shape
    validation.matrix_numbers(rows + columns, f"a {family} matrix of shape {shape}")
    budget = int(density * rows * columns)
    if family == "low_rank":
        return {"rank": _rank(budget, rows + columns, shape, family)}
    if family == "monarch":
        counts = [b for b in _common_divisors(shape, family) if b > 1]
        blocks = _largest(counts, lambda b: b * (rows + columns), budget, shape, family)
        return {"blocks": blocks}
    if family == "blast":
        counts = [b for b in _common_divisors(shape, family) if 1 < b <= _MOST_BLOCKS]
        counts = counts or [min(b for b in _common_divisors(shape, family) if b > 1)]
        blocks = _largest(counts, lambda b: rows + columns + b * b, budget, shape, family)
        return {"blocks": blocks, "rank": _rank(budget, rows + columns + blocks**2, shape, family)}
    if family == "block_tensor_train":
        row_factors, column_factors, rank = _train_sizes(budget, shape)
        return {"row_factors": row_factors, "column_factors": column_factors, "rank": rank}
    return {"radix": _radices(budget, shape)}


def _too_small(smallest, budget, shape, family):
    return ValueError(
        f"The smallest {family} matrix of shape {shape} has {smallest} numbers, "
        f"a density of {smallest / math.prod(shape):.2g}. Received: a density for {budget} numbers"
    )


def _rank(budget, numbers, shape, family):
    """Return the largest rank, of so many numbers each."""
    if budget < numbers:
        raise _too_small(numbers, budget, shape, family)
    return min(budget // numbers, *shape)


def _largest(candidates, numbers, budget, shape, family):
    """Return the candidate with the most numbers that keeps to the budget."""
    fitting = [candidate for candidate in candidates if numbers(candidate) <= budget]
    if not fitting:
        raise _too_small(min(map(numbers, candidates)), budget, shape, family)
    return max(fitting, key=numbers)


def _divisors(n):
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def _common_divisors(shape, family):
    common = math.gcd(*shape)
    if common == 1:
        raise ValueError(
            f"Rows and columns of a {family} matrix must have a common divisor above 1. "
            f"Received: matrix of shape {shape}"
        )
    return _divisors(common)


def _train_sizes(budget, shape):
    """Return row factors, column factors and rank of two cores, as square as the budget allows."""
    rows, columns = shape
    sizes = [
        (first, second)
        for first in _divisors(rows)
        for second in _divisors(columns)
        if first**2 <= rows and second**2 <= columns and first * second > 1
    ]
    if not sizes:
        raise ValueError(
            "Rows or columns of a block tensor train must factor. "
            f"Received: matrix of shape {shape}"
        )

    def numbers(size):
        return size[0] * columns + size[1] * rows

    def rank(size):
        first, second = size
        return min(budget // numbers(size), rows // first, columns // second)

    fitting = [size for size in sizes if rank(size)]
    if not fitting:
        raise _too_small(min(map(numbers, sizes)), budget, shape, "block_tensor_train")

    def preference(size):
        between = math.prod(size) * rank(size)
        fast = between <= max(shape)
        return fast, rank(size) > 1, min(size) if fast else -between, rank(size) * numbers(size)

    first, second = found = max(fitting, key=preference)
    return (first, rows // first), (columns // second, second), rank(found)


def _radices(budget, shape):
    """Return the radices with the most numbers that keep to the budget."""
    need = max(shape)
    limits = [None, *(2**k for k in range(2, need.bit_length() + 1))]
    sizes = [(size, limit) for limit in limits for size in (need, radices.padded_size(need, limit))]
    candidates = sorted({radices.factorise(size, limit) for size, limit in sizes})

    def numbers(factors):
        return math.prod(factors) * sum(factors)

    return _largest(candidates, numbers, budget, shape, "kaleidoscope")
