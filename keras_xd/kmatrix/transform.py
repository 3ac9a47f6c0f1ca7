"""K-matrices applied along an axis of the data, in `keras.ops`."""

import dataclasses
import math
from collections.abc import Sequence

from keras import ops

from keras_xd.core.type_aliases import Tensor
from keras_xd.kmatrix import product, radix
from keras_xd.kmatrix.product import Factor

# How many numbers (32 MiB in float32) a matrix may become for data of which the size is not known.
_MOST_REPEATED = 2**23


@dataclasses.dataclass(frozen=True)
class Transform:
    """A K-matrix made ready for one axis: the dense matrices in use and how to apply them.

    Attributes:
        matrices: list of tensors, the first one is applied first.
        groups: group index of each matrix.
        plan: the `Plan`.
        size: number of entries on the signal side.
        stride: distance of neighbouring entries on the signal side.
        pair: whether the signal side is complex.
        repeat: whether matrices smaller than the data are repeated for them, which XLA needs to
            train fast.
        parts: 2, or 1 for a K-matrix without imaginary parts.
    """

    matrices: list[Tensor]
    groups: tuple[int, ...]
    plan: radix.Plan
    size: int
    stride: int
    pair: bool
    repeat: bool = True
    parts: int = 2

    @property
    def reach(self) -> int:
        """Number of entries of the vector of size `n` up to the last one in use."""
        return (self.size - 1) * self.stride + 1

    def _inner(self, group):
        return math.prod(self.plan.group_sizes[:group])

    def _product(self, matrix, x):
        """Return `matrix @ x`, a single dense one without the leading axis of `x` if that is 1."""
        leading, columns = x.shape[: len(x.shape) - len(matrix.shape)], x.shape[-1]
        if math.prod(leading) > 1:
            if isinstance(columns, int):
                small = matrix.shape[-2] <= columns
            else:  # the batch is not known: `None`, or a symbol of JAX or torch
                small = math.prod((*leading, *matrix.shape)) <= _MOST_REPEATED
            if self.repeat and small:
                matrix = product.repeated(matrix, leading)
        elif len(matrix.shape) == 2:
            x = ops.squeeze(x, axis=0)
        return ops.matmul(matrix, x)

    def _apply_block(self, matrix, group, x):
        """Apply one block product to pairs of shape `(pre, n, 2, post)`."""
        pre, size, inner = x.shape[0], self.plan.group_sizes[group], self._inner(group)
        outer = self.plan.n // (size * inner)
        if inner == 1:
            x = self._product(matrix, ops.reshape(x, (pre, outer, size * self.parts, -1)))
        else:
            x = ops.transpose(ops.reshape(x, (pre, outer, size, inner, -1)), (0, 1, 3, 2, 4))
            rows = size * self.parts
            x = self._product(matrix, ops.reshape(x, (pre, outer, inner, rows, -1)))
            x = ops.transpose(ops.reshape(x, (pre, outer, inner, size, -1)), (0, 1, 3, 2, 4))
        return ops.reshape(x, (pre, self.plan.n, self.parts, -1))


class ForwardTransform(Transform):
    """`P` along an axis: signal to frequencies."""

    def __call__(self, x):
        # `post` holds the batch and may be dynamic, hence the -1 in every shape below.
        x = ops.convert_to_tensor(x)
        plan, size, pairs = self.plan, self.reach, 2 if self.pair else 1
        pre, first = x.shape[0], self.matrices[0]
        if len(plan.group_sizes) == 1:
            x = self._product(first, ops.reshape(x, (pre, pairs * self.size, -1)))
            return ops.reshape(x, (pre, plan.n, self.parts, -1))
        if self.stride > 1:
            x = _pad(ops.reshape(x, (pre, pairs, self.size, 1, -1)), 3, self.stride - 1)
            x = ops.reshape(x, (pre, pairs, self.size * self.stride, -1))[:, :, :size]
        inner, rows = self._inner(self.groups[0]), plan.group_sizes[self.groups[0]]
        if inner > 1:
            used = -(-size // inner)
            x = _pad(ops.reshape(x, (pre, pairs, size, -1)), 2, used * inner - size)
            x = ops.reshape(x, (pre, pairs, used, inner, -1))
            x = ops.reshape(ops.transpose(x, (0, 3, 2, 1, 4)), (pre, inner, used * pairs, -1))
            x = ops.reshape(self._product(first, x), (pre, inner, rows, -1))
            x = ops.transpose(x, (0, 2, 1, 3))
        else:
            used = -(-size // rows)
            x = _pad(ops.reshape(x, (pre, pairs, size, -1)), 2, used * rows - size)
            x = ops.reshape(x, (pre, pairs, used, rows, -1))
            x = ops.reshape(ops.transpose(x, (0, 2, 3, 1, 4)), (pre, used, rows * pairs, -1))
            x = _pad(self._product(first, x), 1, plan.n // rows - used)
        x = ops.reshape(x, (pre, plan.n, self.parts, -1))
        for group, matrix in zip(self.groups[1:], self.matrices[1:], strict=True):
            x = self._apply_block(matrix, group, x)
        return x


class TransposedTransform(Transform):
    """`Pᵀ` along an axis: frequencies to signal."""

    def __call__(self, y):
        y = ops.convert_to_tensor(y)
        plan, size, pairs = self.plan, self.size, 2 if self.pair else 1
        pre, last = y.shape[0], self.matrices[-1]
        reach = self.reach
        shape = (pre, pairs, size, -1) if self.pair else (pre, size, -1)
        if len(plan.group_sizes) == 1:
            y = self._product(last, ops.reshape(y, (pre, plan.n * self.parts, -1)))
            return ops.reshape(y, shape)
        for group, matrix in zip(self.groups[:-1], self.matrices[:-1], strict=True):
            y = self._apply_block(matrix, group, y)
        inner, columns = self._inner(self.groups[-1]), plan.group_sizes[self.groups[-1]]
        if inner > 1:
            used, block = -(-reach // inner), inner
            y = ops.transpose(ops.reshape(y, (pre, columns, inner, -1)), (0, 2, 1, 3))
            y = self._product(last, ops.reshape(y, (pre, inner, columns * self.parts, -1)))
            y = ops.transpose(ops.reshape(y, (pre, inner, used, pairs, -1)), (0, 3, 2, 1, 4))
        else:
            used, block = -(-reach // columns), columns
            y = ops.reshape(y, (pre, plan.n // columns, columns * self.parts, -1))[:, :used]
            y = ops.reshape(self._product(last, y), (pre, used, columns, pairs, -1))
            y = ops.transpose(y, (0, 3, 1, 2, 4))
        y = ops.reshape(y, (pre, pairs, used * block, -1))[:, :, : reach : self.stride]
        return ops.reshape(y, shape)


def forward_transform(
    factors: Sequence[Factor],
    plan: radix.Plan,
    *,
    size: int | None = None,
    stride: int = 1,
    pair: bool,
) -> ForwardTransform:
    """Make a K-matrix ready to be applied as `P` to the first `size` entries of a signal."""
    size = -(-plan.n // stride) if size is None else size
    reach = (size - 1) * stride + 1
    _check_pair(factors, pair)
    first, pairs = factors[-1].blocks, 2 if pair else 1
    _, inner, rows, parts, _, _ = first.shape
    if len(plan.groups) == 1:
        # One dense matrix; its columns are ordered as the data, pair before position.
        matrix = ops.transpose(first[0, 0, :, :, :reach:stride, :pairs], (0, 1, 3, 2))
        matrix = ops.reshape(matrix, (rows * parts, pairs * size))
    elif inner > 1:
        used = -(-reach // inner)
        matrix = ops.reshape(first[0, :, :, :, :used, :pairs], (inner, rows * parts, used * pairs))
    else:
        used = -(-reach // rows)
        matrix = ops.reshape(first[:used, ..., :pairs], (used, rows * parts, rows * pairs))
    matrices = [matrix] + [_block_matrix(factor.blocks) for factor in reversed(factors[:-1])]
    groups = tuple(factor.group for factor in reversed(factors))
    return ForwardTransform(matrices, groups, plan, size, stride, pair, parts=parts)


def transposed_transform(
    factors: Sequence[Factor],
    plan: radix.Plan,
    *,
    size: int | None = None,
    stride: int = 1,
    pair: bool,
) -> TransposedTransform:
    """Make a K-matrix ready to be applied as its transpose `Pᵀ`; arguments as before."""
    size = -(-plan.n // stride) if size is None else size
    reach = (size - 1) * stride + 1
    _check_pair(factors, pair)
    pairs = 2 if pair else 1
    _, inner, _, _, columns, parts = factors[-1].blocks.shape
    if len(plan.groups) == 1:
        matrix = factors[-1].blocks[0, 0, :, :pairs, :reach:stride]
        matrix = ops.transpose(matrix, (1, 2, 0, 3))  # the transpose, pair before position
        matrix = ops.reshape(matrix, (pairs * size, columns * parts))
    elif inner > 1:
        used = -(-reach // inner)
        matrix = factors[-1].transposed.blocks[0, :, :used, :pairs]
        matrix = ops.reshape(matrix, (inner, used * pairs, columns * parts))
    else:
        used = -(-reach // columns)
        matrix = factors[-1].transposed.blocks[:used, :, :, :pairs]
        matrix = ops.reshape(matrix, (used, columns * pairs, columns * parts))
    matrices = [_block_matrix(factor.transposed.blocks) for factor in factors[:-1]] + [matrix]
    groups = tuple(factor.group for factor in factors)
    return TransposedTransform(matrices, groups, plan, size, stride, pair, parts=parts)


def multiply_adds(
    plan: radix.Plan,
    depth: int,
    *,
    size: int,
    stride: int = 1,
    pair: bool,
    columns: int,
    parts: int = 2,
) -> int:
    """Return the multiply–adds of a transform with these arguments for so many vectors."""
    order, sizes = radix.block_products(plan, depth), plan.group_sizes
    total = parts**2 * plan.n * sum(sizes[group] for group in order[:-1])
    last, reach = sizes[order[-1]], (size - 1) * stride + 1
    if len(sizes) == 1:
        end = plan.n * size
    elif order[-1] == 0:
        end = -(-reach // last) * last * last
    else:
        end = plan.n * -(-reach * last // plan.n)
    return columns * (total + parts * (2 if pair else 1) * end)


def _check_pair(factors, pair):
    """Raise `ValueError` if a K-matrix without imaginary parts is asked for complex signals."""
    if pair and factors[0].blocks.shape[3] == 1:
        raise ValueError(
            "A K-matrix without imaginary parts is applied to each part of a complex signal by "
            f"itself. Received: pair={pair}"
        )


def _block_matrix(blocks):
    """Join the pair axes of `(O, S, R, 2, R, 2)` to their rows and columns, dropping `S = 1`."""
    outer, inner, size, parts = blocks.shape[:4]
    leading = (outer, inner) if inner > 1 else (outer,)
    return ops.reshape(blocks, (*leading, size * parts, size * parts))


def _pad(x, axis, amount):
    if amount == 0:
        return x
    widths = [[0, 0]] * len(x.shape)
    widths[axis] = [0, amount]
    return ops.pad(x, widths)
