"""Sizes of structured matrices: factorisation, padded sizes and groups of stages."""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types

# Cost of a block product in multiply–adds a value, besides its size: the passes through memory, and
# the size below which small blocks get no cheaper; both measured on a CPU.
_MEMORY_PASSES = 16
_SMALLEST_EFFICIENT_BLOCK = 24
# Cost of multiplying out a number of a block, and of its gradient, which all columns share; twice
# that where there are more numbers than stay in a cache. Fewer columns are not faster.
_MULTIPLYING_OUT = 150
_MOST_IN_CACHE = 2**18
_FEWEST_COLUMNS = 64
_MOST_GROUPS = 6
# What the product between the channels costs a frequency: that of 16 channels.
_CHANNEL_PRODUCT = 64
# A size that is faster may have so many times the parameters of the one with the fewest.
_TIMES_THE_PARAMETERS = 2
# How many columns share the multiplied-out stages when the caller does not say: 16 samples of 32
# channels.
_TYPICAL_COLUMNS = 512
# The radix of the fastest size; "time" is what files of versions up to 0.2 call it.
_FASTEST = ("fastest", "time")
Radix = int | str | tuple[int, ...] | None


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a structured matrix of size `n` is cut into stages and computed.

    Attributes:
        n: the size.
        radices: the sizes of the stages' blocks, innermost stride first; their product is `n`.
        groups: how many consecutive stages are folded into each dense block, innermost first;
            `(len(radices),)` folds the whole butterfly into one dense matrix.
    """

    n: int
    radices: tuple[int, ...]
    groups: tuple[int, ...]

    @property
    def parameters(self) -> int:
        """Number of (complex) parameters of one butterfly: `n · Σ r_j`."""
        return self.n * sum(self.radices)

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Sizes of the dense blocks, one for each group, innermost first."""
        sizes, start = [], 0
        for count in self.groups:
            sizes.append(math.prod(self.radices[start : start + count]))
            start += count
        return tuple(sizes)


def prime_factors(n: int) -> tuple[int, ...]:
    """Return the prime factors of `n` in ascending order, `(1,)` for `n = 1`."""
    n = validation.matrix_side(n, "n")
    factors, candidate, rest = [], 2, n
    while candidate * candidate <= rest:
        while rest % candidate == 0:
            factors.append(candidate)
            rest //= candidate
        candidate += 1
    if rest > 1 or n == 1:
        factors.append(rest)
    return tuple(factors)


@check_types
def factorise(n: int, radix: Radix = None) -> tuple[int, ...]:
    """Return the radices of size `n`."""
    if not (radix is None or isinstance(radix, (int, np.integer, str))):
        radix = tuple(radix)
    return _factorised(n, radix)


@functools.lru_cache(maxsize=4096)
def _factorised(n, radix):
    n = validation.matrix_side(n, "n")
    if radix is None or radix in _FASTEST:
        return prime_factors(n)
    if isinstance(radix, tuple):
        if not all(validation.is_integer(r) and r >= 1 for r in radix) or math.prod(radix) != n:
            raise ValueError(
                "The radices must be positive integers that multiply to the size of the matrix. "
                f"Received: radix={radix} (product {_product(radix)}), size {n}"
            )
        return tuple(int(r) for r in radix)
    check_radix(radix)
    factors, rest = [], n
    while rest > 1:
        primes = prime_factors(rest)
        divisors = {1}
        for prime in primes:
            divisors |= {prime * d for d in divisors if prime * d <= radix}
        factors.append(max(divisors) if len(divisors) > 1 else primes[0])
        rest //= factors[-1]
    return tuple(sorted(factors)) or (1,)


def check_radix(radix: Radix) -> None:
    """Raise `ValueError` unless `radix` is what `factorise` takes."""
    if isinstance(radix, str):
        fits = radix in _FASTEST
    elif isinstance(radix, tuple):
        fits = len(radix) > 0 and all(validation.is_integer(r) and r >= 1 for r in radix)
    else:
        fits = radix is None or (validation.is_integer(radix) and radix >= 2)
    if fits:
        return
    raise ValueError(
        "`radix` must be None (prime factors), an integer of at least 2 (the largest block), a "
        "tuple of positive integers that multiply to the size, or 'fastest' (prime factors of the "
        f"fastest size). Received: radix={radix!r}"
    )


@check_types
def padded_size(need: int, radix: Radix = None) -> int:
    """Return the cheapest size ≥ `need`: the one whose butterfly has the fewest parameters.

    With `radix="fastest"` it is the one that is estimated to be the fastest of those with at most
    twice as many parameters.

    Args:
        need: the smallest size that will do.
        radix: as in `factorise`; a tuple of radices fixes the size to their product.

    Raises:
        ValueError: if the given radices multiply to less than `need`.

    Example:

    >>> from keras_xd import kmatrix
    >>> (
    ...     kmatrix.padded_size(33),
    ...     kmatrix.padded_size(65),
    ...     kmatrix.padded_size(33, radix=64),
    ... )
    (36, 72, 33)
    >>> kmatrix.padded_size(33, "fastest"), kmatrix.padded_size(65, "fastest")
    (33, 65)
    """
    need = validation.matrix_side(need, "need")
    check_radix(radix)
    if isinstance(radix, tuple):
        size = math.prod(radix)
        if size < need:
            raise ValueError(
                f"The radices must multiply to at least {need}, the size this operation needs. "
                f"Received: radix={radix} (product {size})"
            )
        return size
    return _fastest_size(need) if radix in _FASTEST else _cheapest_size(need, radix)


@functools.lru_cache(maxsize=4096)
def _fastest_size(need):
    """Return the size of least estimated time; of equal ones that of the fewest parameters."""
    fewest = _cheapest_size(need, None)  # larger ones have more to do and more parameters
    most = _TIMES_THE_PARAMETERS * fewest * sum(_factorised(fewest, None))
    best, least = fewest, (_time(fewest), fewest * sum(_factorised(fewest, None)))
    for n in _smooth_numbers(need, fewest, most // need):
        if _least_time(n) > least[0]:
            break
        count = n * sum(_factorised(n, None))
        if count <= most and (_time(n), count) < least:
            best, least = n, (_time(n), count)
    return best


def _time(n):
    """Return what a transform and the channel product take, in multiply–adds for a vector."""
    return n * (min(_cost(each, 1, _TYPICAL_COLUMNS) for each in _plans(n, 3)) + _CHANNEL_PRODUCT)


def _least_time(n):
    """Return a time below that of every size ≥ `n`: groups cannot be smaller than equal ones."""
    groups = (count * max(n ** (1 / count), _SMALLEST_EFFICIENT_BLOCK) for count in (1, 2, 3))
    costs = [size + count * _MEMORY_PASSES for count, size in enumerate(groups, 1)]
    return n * (min(n, *costs[1:]) + _CHANNEL_PRODUCT) * (1 - 1e-9)


@functools.lru_cache(maxsize=4096)
def _cheapest_size(need, radix):
    limit = 1 << (need - 1).bit_length()
    best, least = limit, limit * sum(_factorised(limit, radix))
    # Any two blocks of a size multiply to more than `radix`, so there are at most so many.
    blocks = max(1, math.floor(2 * math.log(limit + 1) / math.log(radix or 2)))
    start, length = need, 64
    while start < limit and _least_parameters(start, blocks) <= least:
        stop = min(start + length, limit)
        # A prime factor is a block or divides one.
        for n in _smooth_numbers(start, stop, least // need):
            count = n * sum(_factorised(n, radix))
            if (count, n) < (least, best):
                best, least = n, count
        start, length = stop, min(2 * length, 1 << 16)
    return best


def _least_parameters(n, blocks):
    """Return what no butterfly of a size ≥ `n` is below that has at most so many blocks."""
    if blocks > math.log(n):
        return n * math.e * math.log(n) * (1 - 1e-9)
    return n * blocks * n ** (1 / blocks) * (1 - 1e-9)


def _smooth_numbers(start, stop, largest):
    """Return the integers in `[start, stop)` that have no prime factor above `largest`."""
    rest = np.arange(start, stop)
    for prime in _primes(min(largest, stop - 1)):
        power = prime
        while power < stop:
            rest[-start % power :: power] //= prime
            power *= prime
    return [start + int(index) for index in np.flatnonzero(rest == 1)]


@functools.lru_cache(maxsize=64)
def _primes(largest):
    """Return the primes up to `largest`."""
    is_prime = np.ones(largest + 1, bool)
    is_prime[:2] = False
    for n in range(2, math.isqrt(largest) + 1):
        is_prime[n * n :: n] &= not is_prime[n]
    return np.flatnonzero(is_prime).tolist()


@check_types
def plan(
    n: int,
    radix: Radix = None,
    *,
    depth: int = 1,
    columns: int | None = None,
    groups: Sequence[int] | None = None,
) -> Plan:
    """Decide how a structured matrix of size `n` is computed.

    Consecutive stages are folded into one to six groups of dense blocks, whichever the cost rule
    finds cheapest. With `G` groups of sizes `R_g`, a K-matrix of depth `d` costs `d (G - 1) + 1`
    block products of about `R_g` multiply–adds a value each; every further group also moves the
    data through memory once more. All columns share the folding: of `d n Σ R_g` numbers, and into
    a single group `(d - 1) n³` multiply–adds.

    Args:
        n: the size of the matrix.
        radix: as in `factorise`.
        depth: how many butterflies the K-matrix has.
        columns: how many vectors the matrix is applied to at once (batch × channels × other axes).
        groups: the stages of each group, innermost first, to bypass the cost rule.

    Example:

    >>> from keras_xd import kmatrix
    >>> kmatrix.plan(1024, depth=3).group_sizes
    (32, 32)
    """
    radices = factorise(n, radix)
    depth = validation.positive_integer(depth, "depth")
    numbers = depth * Plan(n, radices, ()).parameters
    matrix = f"a K-matrix of radices {radices}, depth {depth}"
    validation.matrix_numbers(numbers, matrix, validation.LARGEST_KMATRIX)
    columns = (
        _TYPICAL_COLUMNS if columns is None else validation.positive_integer(columns, "columns")
    )
    if groups is not None:
        groups = tuple(groups)
        if sum(groups) != len(radices) or not all(g >= 1 for g in groups):
            raise ValueError(
                "`groups` must be positive counts that add up to the number of stages. "
                f"Received: groups={groups}, radices={radices}"
            )
        return Plan(n, radices, groups)
    columns = max(columns, _FEWEST_COLUMNS)

    def cost(candidate):
        numbers = depth * sum(candidate.group_sizes)
        shared = (2 if n * numbers > _MOST_IN_CACHE else 1) * _MULTIPLYING_OUT * numbers / columns
        return _cost(candidate, depth, columns) + shared

    return min(_plans(n, _MOST_GROUPS, radices), key=cost)


def parameter_count(n: int, radix: Radix = None, depth: int = 1) -> int:
    """Return the number of real parameters of one complex K-matrix: `2 d n Σ r_j`."""
    factors = factorise(n, radix)
    return 2 * depth * math.prod(factors) * sum(factors)


def block_products(candidate: Plan, depth: int) -> tuple[int, ...]:
    """Return the group index of each dense block product of a K-matrix, in product order."""
    last = len(candidate.groups) - 1
    order = [0] if last == 0 else []
    for slot in range(depth if last else 0):
        groups = range(last + 1) if slot % 2 == 0 else range(last, -1, -1)
        order.extend(g for g in groups if not order or order[-1] != g)
    return tuple(order)


def _plans(n, most, radices=None):
    """Return the plans of up to so many groups."""
    radices = _factorised(n, None) if radices is None else radices
    return [balanced(n, radices, count) for count in range(1, min(most, len(radices)) + 1)]


def _cost(candidate, depth, columns):
    sizes = candidate.group_sizes
    order = block_products(candidate, depth)
    if len(sizes) == 1:
        return candidate.n + (depth - 1) * candidate.n**2 / columns
    return sum(max(sizes[g], _SMALLEST_EFFICIENT_BLOCK) + _MEMORY_PASSES for g in order)


def balanced(n: int, radices: tuple[int, ...], count: int) -> Plan:
    """Return the `Plan` that cuts the stages into `count` runs of smallest total block size."""

    def cuts(stages, runs):
        if runs == 1:
            return [(stages,)]
        return [
            (first, *rest)
            for first in range(1, stages - runs + 2)
            for rest in cuts(stages - first, runs - 1)
        ]

    plans = [Plan(n, radices, groups) for groups in cuts(len(radices), count)]
    return min(plans, key=lambda candidate: sum(candidate.group_sizes))


def _product(radices):
    return math.prod(r for r in radices if validation.is_integer(r))
