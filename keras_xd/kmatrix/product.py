"""K-matrices multiplied out to dense blocks, in `keras.ops`."""

import dataclasses
import math
from collections.abc import Sequence

import keras
from keras import ops

from keras_xd.core import devices, splitting
from keras_xd.core.type_aliases import Tensor
from keras_xd.kmatrix.radix import Plan


@dataclasses.dataclass(frozen=True)
class Factor:
    """One dense block product of a K-matrix that is multiplied out.

    Attributes:
        group: index of the group of stages it came from.
        blocks: tensor of shape `(O, S, R, 2, R, 2)`: outer index, inner index, row and its pair,
            column and its pair. It maps a vector viewed as `(O, R, S)`. Of weights without
            imaginary parts the axes of pairs have size 1.
    """

    group: int
    blocks: Tensor

    @property
    def transposed(self) -> "Factor":
        """The factor of the transposed (not conjugated) matrix."""
        return Factor(self.group, ops.transpose(self.blocks, (0, 1, 4, 3, 2, 5)))


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
    blocks_of_groups = []  # for each group a list, one tensor for each K-matrix
    for stages in _stage_groups(joined, plan):
        blocks = _multiply_out_group(stages)
        blocks_of_groups.append(splitting.split(blocks, depths, axis=0))
    results: list[list[Factor]] = [[] for _ in weights]
    # Butterflies of equal depth are multiplied together, in one batch.
    for depth, members in _positions_of_values(depths):
        stacked = [ops.stack([blocks[i] for i in members], axis=0) for blocks in blocks_of_groups]
        for group, product in _multiply(stacked, depth, len(plan.groups)):
            for i, blocks in zip(members, ops.unstack(product, axis=0), strict=True):
                results[i].append(Factor(group, blocks))
    return results


def _stage_groups(weights, plan):
    """Split packed weights into `(real, imaginary)` or `(real,)` stages, group by group."""
    count, n = weights.shape[0], plan.n
    sizes = [n * r for r in plan.radices]
    split = [splitting.split(part, sizes, axis=1) for part in ops.unstack(weights, axis=1)]
    groups, start, group_inner = [], 0, 1
    for length in plan.groups:
        stages, inner = [], 1
        for j in range(start, start + length):
            r = plan.radices[j]
            outer = n // (r * inner * group_inner)
            if group_inner == 1:  # of the first group, where there is nothing to move
                shape = (count, 1, outer, r, r, inner)
                parts = [ops.reshape(part[j], shape) for part in split]
            else:
                shape = (count, outer, r, r, inner, group_inner)
                parts = [ops.moveaxis(ops.reshape(part[j], shape), -1, 1) for part in split]
            stages.append(tuple(parts))
            inner *= r
        groups.append(stages)
        start += length
        group_inner *= inner
    return groups


def _multiply_out_group(stages):
    """Multiply consecutive stages out to falling blocks `[A | B]`, `(count, O, S, R, 2 R)`."""
    first, parts = stages[0], len(stages[0])
    count, inner_groups, _, size, _, _ = first[0].shape
    butterfly = ops.concatenate(first, axis=-2) if parts == 2 else first[0]
    for stage in stages[1:]:
        butterfly = _times_stage(butterfly, *stage)
        size *= stage[0].shape[3]
    butterfly = ops.reshape(butterfly, (count, inner_groups, -1, size, parts * size))
    return ops.swapaxes(butterfly, 1, 2)


def _times_stage(butterfly, real, imaginary=None):
    """Multiply the butterfly `(…, b, c, part, i)` by the next stage to `(… b, c, part a, i)`."""
    count, inner_groups, outer, radix, _, size = real.shape
    positions = count * inner_groups * outer * radix
    if imaginary is None:
        butterfly = ops.reshape(butterfly, (positions, size, 1, size))
        return butterfly * ops.reshape(real, (positions, 1, radix, size))
    # Both as (… b, c, part of the butterfly, part of the product with a, i), broadcast where 1.
    butterfly = ops.reshape(butterfly, (positions, size, 2, 1, size))
    real = ops.reshape(real, (positions, 1, 1, radix, size))
    imaginary = ops.reshape(imaginary, (positions, 1, 1, radix, size))
    times_real = ops.concatenate([real, imaginary], axis=3)
    times_imaginary = ops.concatenate([-imaginary, real], axis=3)
    stage = ops.concatenate([times_real, times_imaginary], axis=2)
    # A sum, because XLA keeps sums, where it would compute a mere product again for each entry of
    # the blocks that come after it.
    return ops.sum(butterfly * stage, axis=2)


def _multiply(groups, depth, group_count):
    """Multiply `B_0ᵀ B_1 B_2ᵀ …`, merging neighbouring blocks of the same group."""
    if group_count == 1:
        factors = [(0, _chain_product(groups[0])[:, 0])]
    else:
        slots = [ops.unstack(blocks, axis=1) for blocks in groups]
        factors = []
        for slot in range(depth):
            rising = slot % 2 == 1
            order = range(group_count - 1, -1, -1) if rising else range(group_count)
            for group in order:
                block = slots[group][slot]
                if factors and factors[-1][0] == group:
                    block = _wide_product(factors.pop()[1], block, rising)
                elif rising:
                    block = _transposed(block)
                factors.append((group, block))
    return [(group, _with_pairs(wide)) for group, wide in factors]


def _with_pairs(blocks):
    """Return blocks with axes of pairs, of `[A | B]` or of real ones."""
    if _is_real(blocks):
        return blocks[..., None, :, None]
    return complex_blocks(*ops.split(blocks, 2, axis=-1))


def _is_real(blocks):
    """Return whether blocks have no imaginary parts beside them."""
    return blocks.shape[-1] == blocks.shape[-2]


def _transposed(blocks):
    """Transpose complex matrices kept as `[A | B]`, or real ones."""
    if _is_real(blocks):
        return ops.swapaxes(blocks, -1, -2)
    *leading, size, _ = blocks.shape
    pairs = ops.reshape(blocks, (-1, size, 2, size))
    return ops.reshape(ops.transpose(pairs, (0, 3, 2, 1)), (*leading, size, 2 * size))


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
