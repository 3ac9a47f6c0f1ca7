"""K-matrices applied along an axis of the data, in `keras.ops`."""

import dataclasses
import math
from collections.abc import Sequence

from keras import ops

from keras_xd.core import splitting
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
        """Return `matrix @ x`."""
        leading, columns = x.shape[: len(x.shape) - len(matrix.shape)], x.shape[-1]
        if math.prod(leading) > 1:
            if isinstance(columns, int):
                small = matrix.shape[-2] <= columns
            else:  # the batch is not known: `None`, or a symbol of JAX or torch
                small = math.prod((*leading, *matrix.shape)) <= _MOST_REPEATED
            if self.repeat and small:
                matrix = product.repeated(matrix, leading)
        elif len(matrix.shape) == 2:
            # Of a product of two axes TensorFlow is slow at the matrix's gradient.
            matrix = ops.reshape(matrix, (1, *matrix.shape))
        return ops.matmul(matrix, x)

    def _apply_block(self, matrix, group, x):
        """Apply one block product to pairs of which the digit of its group stands last."""
        rows = self.plan.group_sizes[group] * self.parts
        # Finalized operations in files of earlier versions have two axes of positions.
        matrix = ops.reshape(matrix, (-1, rows, rows))
        return self._product(matrix, ops.reshape(x, (x.shape[0], matrix.shape[0], rows, -1)))

    def _moved(self, x, last, group):
        """Bring pairs with the digit of one group last to the order with that of another last.

        With that of the first group last they are in the natural order.
        """
        if last == group:
            return x
        sizes, low, high = self.plan.group_sizes, min(last, group), max(last, group)
        above, between = math.prod(sizes[high + 1 :]), math.prod(sizes[low + 1 : high])
        if last == low:
            digits, order = (sizes[high], between, self._inner(low), sizes[low]), (3, 5, 4, 2)
        else:
            digits, order = (between, sizes[low], self._inner(low), sizes[high]), (5, 2, 4, 3)
        # With axes of one entry XLA moves the data once more for the gradient.
        shape = (x.shape[0], above, *digits)
        kept = [axis for axis, n in enumerate(shape) if n != 1]
        places = [kept.index(axis) for axis in (0, 1, *order) if axis in kept]
        moved = ops.reshape(x, (*(shape[axis] for axis in kept), -1))
        moved = ops.transpose(moved, (*places, len(kept)))
        return ops.reshape(moved, (x.shape[0], self.plan.n, self.parts, -1))


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
            x = _first(ops.reshape(x, (pre, pairs, self.size * self.stride, -1)), size, 2)
        last = self.groups[0]
        inner, rows = self._inner(last), plan.group_sizes[last]
        block = inner if inner > 1 else rows
        used = -(-size // block)
        x = _pad(ops.reshape(x, (pre, pairs, size, -1)), 2, used * block - size)
        x = ops.reshape(x, (pre, pairs, used, block, -1))
        if inner > 1:
            x = ops.reshape(ops.transpose(x, (0, 3, 2, 1, 4)), (pre, inner, used * pairs, -1))
            x = self._product(first, x)
        else:
            x = ops.reshape(ops.transpose(x, (0, 2, 3, 1, 4)), (pre, used, rows * pairs, -1))
            x = _pad(self._product(first, x), 1, plan.n // rows - used)
        for group, matrix in zip(self.groups[1:], self.matrices[1:], strict=True):
            x = self._apply_block(matrix, group, self._moved(x, last, group))
            last = group
        return ops.reshape(x, (pre, plan.n, self.parts, -1))


class TransposedTransform(Transform):
    """`Pᵀ` along an axis: frequencies to signal."""

    def __call__(self, y):
        y = ops.convert_to_tensor(y)
        plan, size, pairs = self.plan, self.size, 2 if self.pair else 1
        pre, matrix = y.shape[0], self.matrices[-1]
        shape = (pre, pairs, size, -1) if self.pair else (pre, size, -1)
        if len(plan.group_sizes) == 1:
            y = self._product(matrix, ops.reshape(y, (pre, plan.n * self.parts, -1)))
            return ops.reshape(y, shape)
        last = 0
        for group, block in zip(self.groups[:-1], self.matrices[:-1], strict=True):
            y = self._apply_block(block, group, self._moved(y, last, group))
            last = group
        y = self._moved(y, last, self.groups[-1])
        inner, columns = self._inner(self.groups[-1]), plan.group_sizes[self.groups[-1]]
        y = ops.reshape(y, (pre, plan.n // columns, columns * self.parts, -1))
        if inner > 1:
            used, block = matrix.shape[-2] // pairs, inner
            y = ops.reshape(self._product(matrix, y), (pre, inner, used, pairs, -1))
            y = ops.transpose(y, (0, 3, 2, 1, 4))
        else:
            used, block = matrix.shape[0], columns
            y = self._product(matrix, _first(y, used, 1))
            y = ops.transpose(ops.reshape(y, (pre, used, columns, pairs, -1)), (0, 3, 1, 2, 4))
        y = ops.reshape(y, (pre, pairs, used * block, -1))
        return ops.reshape(_first(y, size, 2, self.stride), shape)


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
    *others, first = factors
    pairs, parts, rows = 2 if pair else 1, first.parts, plan.group_sizes[first.group]
    inner, matrix = math.prod(plan.group_sizes[: first.group]), first.matrices(columns=pairs)
    if len(plan.groups) == 1:
        # One dense matrix; its columns are ordered as the data, pair before position.
        matrix = _first(ops.reshape(matrix, (rows * parts, rows, pairs)), size, 1, stride)
        matrix = ops.reshape(ops.transpose(matrix, (0, 2, 1)), (rows * parts, pairs * size))
    elif inner > 1:
        matrix = _first(matrix, -(-reach // inner) * pairs, 2)
    else:
        matrix = _first(matrix, -(-reach // rows), 0)
    matrices = [matrix, *(factor.matrices() for factor in reversed(others))]
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
    *others, last = factors
    pairs, parts, columns = 2 if pair else 1, last.parts, plan.group_sizes[last.group]
    inner = math.prod(plan.group_sizes[: last.group])
    matrix = last.matrices(transposed=True, rows=pairs)
    if len(plan.groups) == 1:
        matrix = _first(ops.reshape(matrix, (columns, pairs, columns * parts)), size, 0, stride)
        matrix = ops.reshape(ops.transpose(matrix, (1, 0, 2)), (pairs * size, columns * parts))
    elif inner > 1:
        matrix = _first(matrix, -(-reach // inner) * pairs, 1)
    else:
        matrix = _first(matrix, -(-reach // columns), 0)
    matrices = [*(factor.matrices(transposed=True) for factor in others), matrix]
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
    if pair and factors[0].parts == 1:
        raise ValueError(
            "A K-matrix without imaginary parts is applied to each part of a complex signal by "
            f"itself. Received: pair={pair}"
        )


def _first(x, count, axis, stride=1):
    """Return the first entries along an axis; their gradient is faster than that of a slice."""
    length = x.shape[axis]
    if stride > 1:
        x = _first(_pad(x, axis, max(0, count * stride - length)), count * stride, axis)
        before, after = x.shape[:axis], x.shape[axis + 1 : -1]
        x = _first(ops.reshape(x, (*before, count, stride, *after, -1)), 1, axis + 1)
        return ops.reshape(x, (*before, count, *after, -1))
    if count == length:
        return x
    return splitting.split(x, (count, length - count), axis)[0]


def _pad(x, axis, amount):
    if amount == 0:
        return x
    widths = [[0, 0]] * len(x.shape)
    widths[axis] = [0, amount]
    return ops.pad(x, widths)
