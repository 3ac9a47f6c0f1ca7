"""K-matrices multiplied out to dense blocks, in `keras.ops`."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_xd.core import devices, splitting
from keras_xd.core.type_aliases import Tensor
from keras_xd.kmatrix.radix import Plan


@dataclasses.dataclass(frozen=True)
class Factor:
    """One dense block product of a K-matrix that is multiplied out.

    It maps a vector viewed as `(O, R, S)` by the matrices of positions `(O, S)`.

    Attributes:
        group: index of the group of stages it came from.
        falling: blocks whose product it is, of shape `(parts, R, R, O, S)`: the real part and,
            unless the weights have none, the imaginary one. Positions are last, so that stages are
            multiplied for all of them at once. Every other one is transposed.
        rising: whether the first of them is transposed.
    """

    group: int
    falling: tuple[Tensor, ...]
    rising: bool

    @property
    def parts(self) -> int:
        """2, or 1 for a factor without imaginary parts."""
        return self.falling[0].shape[0]

    def matrices(self, *, transposed: bool = False, rows: int = 2, columns: int = 2) -> Tensor:
        """Return the matrices `(O S, R rows, R columns)` of the factor or its transpose.

        Rows and columns are those of pairs `[[A, -B], [B, A]]`, or of their real parts for 1.
        """
        blocks, rising = self.falling, self.rising
        if transposed:
            rising ^= len(blocks) % 2 == 1
            blocks = blocks[::-1]
        result, last = None, len(blocks) - 1
        for index, block in enumerate(blocks):
            # Of a product only its ends have other numbers of rows or columns.
            ends = (rows if index == 0 else 2, columns if index == last else 2)
            block = _with_pairs(block, rising ^ (index % 2 == 1), *ends)
            result = block if result is None else ops.matmul(result, block)
        return result


def multiply_out(weights: Sequence[Tensor], plans: Sequence[Plan]) -> list[list[Factor]]:
    """Multiply the weights of several K-matrices out to dense blocks."""
    # Not in the type that Keras gives arrays of NumPy.
    weights = [
        ops.convert_to_tensor(one, keras.backend.standardize_dtype(one.dtype)) for one in weights
    ]
    results: list[list[Factor]] = [[] for _ in weights]
    for plan, members in _positions_of_values(plans):
        multiplied = _multiply_out_one_plan([weights[i] for i in members], plan)
        for i, factors in zip(members, multiplied, strict=True):
            results[i] = factors
    return results


def complex_blocks(real: Tensor, imaginary: Tensor) -> Tensor:
    """Return `[[A, -B], [B, A]]` of `A + iB` with shape `(…, rows, 2, columns, 2)`."""
    top = ops.stack([real, -imaginary], axis=-1)
    bottom = ops.stack([imaginary, real], axis=-1)
    return ops.stack([top, bottom], axis=-3)


def repeated(matrix: Tensor, leading: Sequence[int]) -> Tensor:
    """Return the matrix repeated along leading axes of the data that it is multiplied with."""
    count = math.prod(leading)
    second = 0 if devices.has_accelerator() else count // 2
    halves = [
        ops.broadcast_to(matrix, (number, *matrix.shape))
        for number in (count - second, second)
        if number
    ]
    joined = ops.concatenate(halves, axis=0) if len(halves) > 1 else halves[0]
    return ops.reshape(joined, (*leading, *matrix.shape))


def _positions_of_values(values):
    """Return `(value, positions)` of each distinct value of a list, in order of appearance."""
    return [
        (value, [i for i, other in enumerate(values) if other == value])
        for value in dict.fromkeys(values)
    ]


def _multiply_out_one_plan(weights, plan):
    """Return the factors of each K-matrix, all of one plan: a list of lists."""
    depths = [weight.shape[0] for weight in weights]
    joined = ops.concatenate(weights, axis=0) if len(weights) > 1 else weights[0]
    groups = [_multiply_out_group(stages) for stages in _stage_groups(joined, plan)]
    if len(groups) == 1:
        return _multiply_out_to_one(groups[0], depths)
    butterflies = [ops.unstack(group, axis=0) for group in groups]
    results, start = [], 0
    for depth in depths:
        blocks = [group[start : start + depth] for group in butterflies]
        results.append(_factors(blocks, depth))
        start += depth
    return results


def _factors(blocks, depth):
    """Return the factors of `B_0ᵀ B_1 B_2ᵀ …`, neighbours of the same group as one."""
    factors: list[Factor] = []
    for slot in range(depth):
        rising = slot % 2 == 1
        for group in reversed(range(len(blocks))) if rising else range(len(blocks)):
            block = blocks[group][slot]
            if factors and factors[-1].group == group:
                last = factors.pop()
                factors.append(Factor(group, (*last.falling, block), last.rising))
            else:
                factors.append(Factor(group, (block,), rising))
    return factors


def _multiply_out_to_one(blocks, depths):
    """Return the one factor of each K-matrix whose butterflies are dense matrices."""
    results: list[list[Factor]] = [[] for _ in depths]
    count, parts, size = blocks.shape[:3]
    wide = ops.transpose(ops.reshape(blocks, (count, parts, size, size)), (0, 2, 1, 3))
    butterflies = splitting.split(ops.reshape(wide, (count, size, parts * size)), depths, axis=0)
    # Butterflies of equal depth are multiplied together, in one batch.
    for _, members in _positions_of_values(depths):
        product = _chain_product(ops.stack([butterflies[i] for i in members], axis=0))[:, 0]
        pairs = ops.transpose(ops.reshape(product, (-1, size, parts, size)), (0, 2, 1, 3))
        pairs = ops.reshape(pairs, (-1, parts, size, size, 1, 1))
        for i, block in zip(members, ops.unstack(pairs, axis=0), strict=True):
            results[i].append(Factor(0, (block,), False))
    return results


def _stage_groups(weights, plan):
    """Split packed weights into stages, group by group.

    A stage is a tensor `(count, parts, H, b, a, I, O, S)` of its blocks: first the later and the
    earlier digits of its group, and last those of the other groups.
    """
    count, parts = weights.shape[:2]
    split = splitting.split(weights, [plan.n * r for r in plan.radices], axis=2)
    groups, start, group_inner = [], 0, 1
    for length, size in zip(plan.groups, plan.group_sizes, strict=True):
        stages, inner = [], 1
        for j in range(start, start + length):
            r = plan.radices[j]
            later = size // (inner * r)
            shape = (count * parts, -1, later * r * r * inner, group_inner)
            stage = ops.transpose(ops.reshape(split[j], shape), (0, 2, 1, 3))
            stages.append(ops.reshape(stage, (count, parts, later, r, r, inner, -1, group_inner)))
            inner *= r
        groups.append(stages)
        start += length
        group_inner *= size
    return groups


def _multiply_out_group(stages):
    """Multiply consecutive stages out to falling blocks, `(count, parts, R, R, O, S)`."""
    size = 1
    result: Any = None
    for stage in stages:
        count, parts, later, radix, _, _, *positions = stage.shape
        stage = ops.reshape(
            stage, (count, parts, later * radix, 1, radix, size * math.prod(positions))
        )
        if result is not None:
            # Both as (… b, columns, a, rows and positions), broadcast where 1.
            result = ops.reshape(result, (count, parts, later * radix, size, 1, -1))
            result = result * stage if parts == 1 else _complex_product(result, stage)
        result, size = stage if result is None else result, size * radix
    return ops.reshape(result, (count, parts, size, size, *positions))


@ops.custom_gradient
def _complex_product(result, stage):
    """Return the product of complex numbers entry by entry, their parts along axis 1.

    Each derivative is one sum of products; of the parts by themselves it would be four sums.
    """

    def gradient(*arguments, upstream=None):
        upstream = arguments[0] if upstream is None else upstream
        real, imaginary = ops.split(upstream, 2, axis=1)
        turned = ops.concatenate([imaginary, -real], axis=1)

        def conjugate_product(x, axis):
            real, imaginary = ops.split(x, 2, axis=1)
            return ops.sum(real * upstream + imaginary * turned, axis=axis, keepdims=True)

        return conjugate_product(stage, 4), conjugate_product(result, 3)

    (a, b), (c, d) = ops.split(result, 2, axis=1), ops.split(stage, 2, axis=1)
    return ops.concatenate([a * c - b * d, a * d + b * c], axis=1), gradient


def _with_pairs(block, rising, rows, columns):
    """Return the matrices `(O S, R rows, R columns)` of a block, transposed if `rising`."""
    parts, size = block.shape[:2]
    if parts == 1:
        rows = columns = 1
        pairs = block
    else:
        real, imaginary = ops.split(block, 2, axis=0)
        first = block if rows == 2 else real
        second = ops.concatenate([-imaginary, real][:rows], axis=0)
        pairs = first if columns == 1 else ops.concatenate([first, second], axis=0)
    # (pair of columns, pair of rows, R, R, O, S); the rows of a rising block are the second R.
    pairs = ops.reshape(pairs, (columns, rows, size, size, -1))
    if rising:
        pairs = ops.transpose(pairs, (4, 3, 1, 2, 0))
    else:
        pairs = ops.transpose(pairs, (4, 2, 1, 3, 0))
    return ops.reshape(pairs, (-1, size * rows, size * columns))


def _is_real(blocks):
    """Return whether blocks have no imaginary parts beside them."""
    return blocks.shape[-1] == blocks.shape[-2]


def _chain_product(blocks):
    """Multiply falling blocks along axis 1, `F_0 F_1ᵀ …`, all pairs of one level together."""
    left_over, transposed = [], True  # on the first level the right factors are rising
    while blocks.shape[1] > 1:
        count, depth, *shape = blocks.shape
        if depth % 2:
            blocks, last = splitting.split(blocks, (depth - 1, 1), axis=1)
            left_over.append(last)
        pairs = ops.reshape(blocks, (count, depth // 2, 2, *shape))
        left, right = ops.unstack(pairs, axis=2)
        blocks = _wide_product(left, right, transposed)
        transposed = False
    for last in reversed(left_over):
        blocks = _wide_product(blocks, last, False)
    return blocks


def _wide_product(left, right, transposed):
    """Multiply complex matrices kept as `[A | B]`, or real ones, the right transposed if asked."""
    if _is_real(right):
        return ops.matmul(left, ops.swapaxes(right, -1, -2) if transposed else right)
    real, imaginary = ops.split(right, 2, axis=-1)
    if transposed:
        real, imaginary = ops.swapaxes(real, -1, -2), ops.swapaxes(imaginary, -1, -2)
    upper = ops.concatenate([real, imaginary], axis=-1)
    lower = ops.concatenate([-imaginary, real], axis=-1)
    return ops.matmul(left, ops.concatenate([upper, lower], axis=-2))
