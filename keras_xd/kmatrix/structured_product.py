"""Products with rectangular structured matrices, in `keras.ops`."""

import abc
import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.type_aliases import Config, Tensor
from keras_xd.kmatrix import constructions, product, transform
from keras_xd.kmatrix import radix as radices
from keras_xd.kmatrix.structured import Projection, check_divides, check_factors

SIZES = {
    "kaleidoscope": ("radix", "depth"),
    "monarch": ("blocks",),
    "block_tensor_train": ("row_factors", "column_factors", "rank"),
    "blast": ("blocks", "rank"),
    "low_rank": ("rank",),
    "dense": (),
}


@dataclasses.dataclass(frozen=True)
class StructuredProduct(abc.ABC):
    """How vectors are multiplied by a matrix of a family and size."""

    inputs: int
    units: int
    family: str
    sizes: Config

    @property
    @abc.abstractmethod
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the arrays that hold the matrix."""

    @property
    @abc.abstractmethod
    def fans(self) -> tuple[int, ...]:
        """Of each array, how many products are summed to an entry of what it computes."""

    @abc.abstractmethod
    def packed(self, projection: Projection) -> list[np.ndarray]:
        """Return the arrays of a `Projection` of this family and size."""

    @abc.abstractmethod
    def apply(self, factors: Sequence[Tensor], x: Tensor) -> Tensor:
        """Return `x Aᵀ`, of shape `(batch, units)`, for `x` of shape `(batch, inputs)`."""

    def multiplied_out(self, factors: Sequence[Tensor]) -> Tensor:
        """Return `Aᵀ`, the kernel of a dense layer, of shape `(inputs, units)`."""
        return self.apply(factors, ops.eye(self.inputs, dtype=factors[0].dtype))

    def rows(self, factors: Sequence[Tensor], indices: Tensor) -> Tensor:
        """Return rows of `Aᵀ`, of shape `(count, units)`, at indices of shape `(count,)`."""
        raise ValueError(f"A {self.family} matrix has no rows that are computed one by one.")

    @property
    def row_fans(self) -> tuple[int, ...]:
        """Of each array, how many products are summed to an entry of what it adds to `rows`."""
        raise ValueError(f"A {self.family} matrix has no rows that are computed one by one.")

    @property
    def row_multiply_adds(self) -> int:
        """Multiply–adds of one of the `rows`."""
        return 0

    @property
    def rates(self) -> tuple[float, ...]:
        """Of each array, the factor of a learning rate at which its steps act as those of
        `Dense`.
        """
        return tuple(self.inputs / (fan * len(self.fans)) for fan in self.fans)

    @property
    def parameters(self) -> int:
        """How many numbers the arrays hold."""
        return sum(map(math.prod, self.shapes))

    @property
    def multiply_adds(self) -> int:
        """Multiply–adds of one vector: each number is used once."""
        return self.parameters

    def initial(self, gain: float, rng: np.random.Generator) -> list[np.ndarray]:
        """Return random arrays by which a vector of entries of variance 1 gets the variance
        `gain`.
        """
        gains = [1.0] * (len(self.shapes) - 1) + [gain]
        return [
            rng.standard_normal(shape) * math.sqrt(gain / fan)
            for shape, fan, gain in zip(self.shapes, self.fans, gains, strict=True)
        ]

    def initial_rows(self, deviation: float, rng: np.random.Generator) -> list[np.ndarray]:
        """Return random arrays, all of like scale, whose `rows` have this standard deviation."""
        part = deviation ** (1 / len(self.shapes))
        return [
            rng.standard_normal(shape) * part / math.sqrt(fan)
            for shape, fan in zip(self.shapes, self.row_fans, strict=True)
        ]

    def row_rates(self, deviation: float) -> tuple[float, ...]:
        """Return what `rates` are for `rows` that begin as those of `initial_rows`."""
        count = len(self.shapes)
        others = deviation ** ((count - 1) / count)
        return tuple(1 / (fan * others * count) for fan in self.row_fans)


@dataclasses.dataclass(frozen=True)
class DenseProduct(StructuredProduct):
    """A matrix without structure; its array is its transpose, the kernel of `Dense`."""

    @property
    def shapes(self):
        return ((self.inputs, self.units),)

    @property
    def fans(self):
        return (self.inputs,)

    def packed(self, projection):
        return [projection.matrix.T]

    def apply(self, factors, x):
        return ops.matmul(x, factors[0])

    def multiplied_out(self, factors):
        return ops.copy(factors[0])  # no variable

    def rows(self, factors, indices):
        return ops.take(factors[0], indices, axis=0)

    @property
    def row_fans(self):
        return (1,)


@dataclasses.dataclass(frozen=True)
class TrainProduct(StructuredProduct):
    """A block tensor train, of which low rank and Monarch are cases; see `nearest_…`."""

    row_factors: tuple[int, ...]
    column_factors: tuple[int, ...]
    rank: int

    @property
    def cores(self):
        """`(rows so far, m, n, columns to come, rank before, rank after)` of each core."""
        result: list[tuple[int, ...]] = []
        done = before = 1
        to_come, rows = self.inputs, self.units
        for m, n in zip(self.row_factors, self.column_factors, strict=True):
            to_come, rows = to_come // n, rows // m
            last = len(result) + 1 == len(self.row_factors)
            after = 1 if last else min(self.rank, rows, before * n)
            result.append((done, m, n, to_come, before, after))
            done, before = done * m, after
        return result

    @property
    def shapes(self):
        return tuple((M * C, n * a, m * b) for M, m, n, C, a, b in self.cores)

    @property
    def fans(self):
        return tuple(n * a for _, _, n, _, a, _ in self.cores)

    def packed(self, projection):
        factors = projection.factors
        if projection.family == "low_rank":
            factors = [factor.T for factor in reversed(factors)]
        found = []
        for factor, (M, m, n, C, a, b), shape in zip(factors, self.cores, self.shapes, strict=True):
            core = factor.reshape(a, M, m, n, C, b).transpose(1, 4, 3, 0, 2, 5)
            found.append(core.reshape(shape))
        return found

    def apply(self, factors, x):
        # x is (rows so far, columns n, columns to come, batch, rows m, rank), of which the blocks
        # of the next core are taken to the front.
        shape = (1, self.column_factors[0], self.inputs // self.column_factors[0])
        x = ops.reshape(x, (-1, *shape))
        x = _transposed(x, (1, 3, 0, 2))
        for index, (factor, (M, m, _, C, _, b)) in enumerate(zip(factors, self.cores, strict=True)):
            blocks, size, _ = factor.shape
            x = _block_product(ops.reshape(x, (blocks, -1, size)), factor)
            if index + 1 < len(factors):
                n = self.column_factors[index + 1]
                x = _transposed(ops.reshape(x, (M, n, C // n, -1, m, b)), (0, 4, 2, 3, 1, 5))
        return ops.reshape(_transposed(ops.reshape(x, (M, -1, m)), (1, 0, 2)), (-1, self.units))

    def multiplied_out(self, factors):
        if len(factors) > 2:
            return super().multiplied_out(factors)
        (_, rows, columns, to_come, _, rank), (_, last_rows, last_columns, *_) = self.cores
        first = ops.reshape(factors[0], (to_come, columns, rows, rank))
        second = ops.reshape(factors[1], (rows, last_columns, rank, last_rows))
        first = _transposed(first, (0, 2, 1, 3))  # of each column to come and row so far
        blocks = _outer_product(first, _transposed(second, (1, 0, 2, 3)))
        return ops.reshape(_transposed(blocks, (2, 0, 1, 3)), (self.inputs, self.units))

    def rows(self, factors, indices):
        # What is computed so far is (count, rows so far, rank).
        found, left = None, indices
        for factor, (M, m, n, C, a, b) in zip(factors, self.cores, strict=True):
            if M * C * n == 1:  # the same for every index
                found = ops.matmul(ops.reshape(found, (-1, a)), factor[0])
            else:
                blocks = _transposed(ops.reshape(factor, (M, C * n, a, m * b)), (1, 0, 2, 3))
                taken = ops.take(blocks, (left % C) * n + left // C, axis=0)
                found = taken if found is None else _outer_product(found, taken)
            found, left = ops.reshape(found, (-1, M * m, 1, b)), left % C
        return ops.reshape(found, (-1, self.units))

    @property
    def row_fans(self):
        return tuple(a for *_, a, _ in self.cores)

    @property
    def row_multiply_adds(self):
        return sum(M * m * a * b for M, m, _, _, a, b in self.cores[1:])


@dataclasses.dataclass(frozen=True)
class BlastProduct(StructuredProduct):
    """A BLAST matrix: arrays `V`, `s` and `U`, in this order."""

    blocks: int
    rank: int

    @property
    def shapes(self):
        b, rank = self.blocks, self.rank
        return (b, self.inputs // b, rank), (rank, b, b), (b, rank, self.units // b)

    @property
    def fans(self):
        return self.inputs // self.blocks, self.blocks, self.rank

    def packed(self, projection):
        left, scale, right = projection.factors
        return [right, scale.transpose(2, 1, 0), left.transpose(0, 2, 1)]

    def apply(self, factors, x):
        right, scale, left = factors
        x = ops.reshape(x, (-1, self.blocks, self.inputs // self.blocks))
        x = ops.matmul(ops.transpose(x, (1, 0, 2)), right)  # (j, batch, rank)
        x = ops.matmul(ops.transpose(x, (2, 1, 0)), scale)  # (rank, batch, i)
        x = ops.matmul(ops.transpose(x, (2, 1, 0)), left)  # (i, batch, units of a block)
        return ops.reshape(ops.transpose(x, (1, 0, 2)), (-1, self.units))

    def multiplied_out(self, factors):
        right, scale, left = factors
        scaled = right * ops.expand_dims(ops.transpose(scale, (2, 1, 0)), 2)  # (i, j, rows, rank)
        blocks = ops.matmul(ops.reshape(scaled, (self.blocks, self.inputs, self.rank)), left)
        return ops.reshape(ops.transpose(blocks, (1, 0, 2)), (self.inputs, self.units))

    def rows(self, factors, indices):
        right, scale, left = factors
        right = ops.take(ops.reshape(right, (self.inputs, self.rank)), indices, axis=0)
        block = indices // (self.inputs // self.blocks)
        scale = ops.take(ops.transpose(scale, (1, 2, 0)), block, axis=0)  # (count, i, rank)
        scaled = ops.transpose(scale * ops.expand_dims(right, 1), (1, 0, 2))
        return ops.reshape(ops.transpose(ops.matmul(scaled, left), (1, 0, 2)), (-1, self.units))

    @property
    def row_fans(self):
        return 1, 1, self.rank

    @property
    def row_multiply_adds(self):
        return self.blocks * self.rank + self.rank * self.units


@dataclasses.dataclass(frozen=True)
class KaleidoscopeProduct(StructuredProduct):
    """The corner of a K-matrix, real here; its array is the weights of `KMatrix`."""

    plan: radices.Plan
    depth: int

    @property
    def shapes(self):
        return ((self.depth, 1, self.plan.parameters),)

    @property
    def fans(self):
        return (self.plan.n,)

    @property
    def rates(self):
        # One for all stages, whose radices are alike.
        stages = self.depth * len(self.plan.radices)
        return (self.inputs / (max(self.plan.radices) * stages),)

    @property
    def multiply_adds(self):
        return transform.multiply_adds(
            self.plan, self.depth, size=self.inputs, pair=False, columns=1, parts=1
        )

    def packed(self, projection):
        return list(projection.factors)

    def apply(self, factors, x):
        weights = ops.convert_to_tensor(factors[0])
        (blocks,) = product.multiply_out([weights], [self.plan])
        times = transform.forward_transform(blocks, self.plan, size=self.inputs, pair=False)
        matrices = [ops.cast(matrix, x.dtype) for matrix in times.matrices]
        times = dataclasses.replace(times, matrices=matrices)
        columns = ops.reshape(ops.transpose(x), (1, self.inputs, -1))
        # Of a matrix with imaginary parts, as KDense may have, the real parts of the results.
        results = ops.reshape(times(columns), (self.plan.n, factors[0].shape[1], -1))
        return ops.transpose(results[: self.units, 0])

    def initial(self, gain, rng):
        stages = [
            constructions.random_orthogonal(self.plan.radices, rng) for _ in range(self.depth)
        ]
        # An orthogonal matrix spreads `inputs` entries over `n`.
        stages[0] = constructions.scaled(stages[0], math.sqrt(gain * self.plan.n / self.inputs))
        return [constructions.kmatrix_weights(stages, "float64")[:, :1]]


def structured_product(family: str, inputs: int, units: int, sizes: Config) -> StructuredProduct:
    """Return how vectors are multiplied by a matrix of a family and sizes, as `SIZES`
    names them.
    """
    names = SIZES[validation.one_of(family, tuple(SIZES), "family")]
    missing = [name for name in names if name not in sizes and name != "depth"]
    if missing or set(sizes) - set(names):
        raise ValueError(
            f"The sizes of a {family} matrix are {list(names)}. Received: sizes={sizes!r}"
        )
    shape = (units, inputs)
    for name in ("rank", "blocks"):
        if name in sizes:
            validation.positive_integer(sizes[name], name)
    if "blocks" in sizes:
        check_divides(sizes["blocks"], shape)
    if family in ("low_rank", "blast") and sizes["rank"] > min(shape):
        raise ValueError(
            "`rank` must be at most the smaller side of the matrix. "
            f"Received: rank={sizes['rank']}, matrix of shape {shape}"
        )
    made = _product(family, inputs, units, sizes)
    validation.matrix_numbers(
        sum(map(math.prod, made.shapes)), f"a {family} matrix of shape {shape}"
    )
    return made


def _product(family, inputs, units, sizes):
    """Return the product of a family, its sizes not yet known to be small enough."""
    common = (inputs, units, family, dict(sizes))
    if family == "dense":
        return DenseProduct(*common)
    if family == "blast":
        return BlastProduct(*common, sizes["blocks"], sizes["rank"])
    if family == "low_rank":
        return TrainProduct(*common, (1, units), (inputs, 1), sizes["rank"])
    if family == "monarch":
        b = sizes["blocks"]
        return TrainProduct(*common, (b, units // b), (inputs // b, b), 1)
    if family == "block_tensor_train":
        names = ("row_factors", "column_factors")
        rows, columns = (validation.collection(sizes[name], name) for name in names)
        check_factors(rows, columns, (units, inputs))
        return TrainProduct(*common, rows, columns, sizes["rank"])
    radix = tuple(sizes["radix"]) if isinstance(sizes["radix"], list) else sizes["radix"]
    depth = validation.depth(sizes.get("depth", 1))
    size = radices.padded_size(max(units, inputs), radix)
    return KaleidoscopeProduct(*common, radices.plan(size, radix, depth=depth), depth)


def _block_product(x, factor):
    """Multiply `(blocks, batch, n)` by `(blocks, n, m)`; one block without the leading axis."""
    if factor.shape[0] == 1:
        return ops.matmul(ops.squeeze(x, axis=0), ops.squeeze(factor, axis=0))
    return ops.matmul(x, factor)


def _outer_product(x, y):
    """Multiply `(…, n, r)` by `(…, r, m)`; numbers, not matrices, where `r` is 1."""
    return x * y if x.shape[-1] == 1 else ops.matmul(x, y)


def _transposed(x, order):
    """Transpose, by a reshape where only axes of size 1 move."""
    moving = [axis for axis in order if x.shape[axis] != 1]
    if moving == sorted(moving):
        sizes = [x.shape[axis] for axis in order]
        return ops.reshape(x, [-1 if size is None else size for size in sizes])
    return ops.transpose(x, order)
