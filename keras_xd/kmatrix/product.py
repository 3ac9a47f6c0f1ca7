"""Structured matrices folded into dense blocks, in `keras.ops`.

The parameters of a structured matrix are tiny beside the data it is applied to. So stages are
first folded into at most a few dense blocks (`fold`); `keras_xd.kmatrix.transform` applies these,
and the data are touched once per block. Gradients go through the folding.

Complex numbers are pairs of real numbers. A complex block is kept as the real block

    [[A, -B], [B, A]]        of A + iB

with the pair index beside the row and the column index, so that a complex product is one real
matrix product and nothing is sliced out of the data.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_xd.core.argument_types import check_types
from keras_xd.core.type_aliases import Tensor
from keras_xd.kmatrix.radix import Plan


@dataclasses.dataclass(frozen=True)
class Factor:
    """One dense block product of a folded K-matrix.

    Attributes:
        group: index of the group of stages it came from.
        blocks: tensor of shape `(O, S, R, 2, R, 2)`: outer index, inner index, row and its pair,
            column and its pair. It maps a vector viewed as `(O, R, S)`.
    """

    group: int
    blocks: Tensor

    @property
    def transposed(self) -> "Factor":
        """The factor of the transposed (not conjugated) matrix."""
        return Factor(self.group, ops.transpose(self.blocks, (0, 1, 4, 3, 2, 5)))


@check_types
def fold(weights: Sequence[Tensor], plans: Sequence[Plan]) -> list[list[Factor]]:
    """Fold the weights of several K-matrices into dense blocks.

    All K-matrices of one plan are folded together, whatever their depths: the number of operations
    grows with the number of stages of one butterfly and with the logarithm of the depth only.

    Args:
        weights: list of tensors of shape `(d, 2, n Σ r_j)`, as `constructions.kmatrix_weights`
            packs them.
        plans: list of `Plan`, one for each weight.

    Returns:
        A list with the factors of each K-matrix in analysis form, a list of `Factor` in product
        order: the last one is applied first.
    """
    results = [None] * len(weights)
    for plan in dict.fromkeys(plans):
        members = [i for i, other in enumerate(plans) if other == plan]
        depths = [weights[i].shape[0] for i in members]
        joined = [weights[i] for i in members]
        joined = ops.concatenate(joined, axis=0) if len(joined) > 1 else joined[0]
        blocks = [_fold_group(stages) for stages in _stage_groups(joined, plan)]
        # Butterflies of equal depth are multiplied together, in one batch.
        offsets = np.cumsum(depths)[:-1].tolist()
        parts = [ops.split(b, offsets, axis=0) if offsets else [b] for b in blocks]
        for depth in dict.fromkeys(depths):
            same = [k for k, other in enumerate(depths) if other == depth]
            stacked = [ops.stack([part[k] for k in same], axis=0) for part in parts]
            factors = _multiply(stacked, depth, len(plan.groups))
            unstacked = [(group, ops.unstack(blocks, axis=0)) for group, blocks in factors]
            for position, k in enumerate(same):
                results[members[k]] = [Factor(g, list_[position]) for g, list_ in unstacked]
    return results


def complex_blocks(real: Tensor, imaginary: Tensor) -> Tensor:
    """Return `[[A, -B], [B, A]]` of `A + iB` with shape `(…, rows, 2, columns, 2)`.

    Args:
        real: tensor of shape `(…, rows, columns)`.
        imaginary: tensor of the same shape.
    """
    top = ops.stack([real, -imaginary], axis=-1)
    bottom = ops.stack([imaginary, real], axis=-1)
    return ops.stack([top, bottom], axis=-3)


def repeated(matrix: Tensor, leading: Sequence[int]) -> Tensor:
    """Return the matrix repeated along leading axes of the data that it is multiplied with.

    Left to broadcast it by itself, XLA transposes the data instead, there and back. Repeated in two
    halves, because the sum of one gradient becomes part of a product that has a single thread.

    Args:
        matrix: tensor.
        leading: known lengths of the axes.
    """
    count = math.prod(leading)
    halves = [
        ops.broadcast_to(matrix, (number, *matrix.shape))
        for number in (count - count // 2, count // 2)
        if number
    ]
    joined = ops.concatenate(halves, axis=0) if len(halves) > 1 else halves[0]
    return ops.reshape(joined, (*leading, *matrix.shape))


def _stage_groups(weights, plan):
    """Cut packed weights into `(real, imaginary)` stages, group by group.

    Each part of a stage has the shape `(count, S, outer, r, r, inner)`, `S` the inner size of the
    group: the blocks of a group differ in it, so it stands in front of what is multiplied out.
    """
    count, n = weights.shape[0], plan.n
    real, imaginary = ops.unstack(weights, axis=1)
    cuts = np.cumsum([n * r for r in plan.radices])[:-1].tolist()
    real = ops.split(real, cuts, axis=1) if cuts else [real]
    imaginary = ops.split(imaginary, cuts, axis=1) if cuts else [imaginary]
    groups, start, group_inner = [], 0, 1
    for length in plan.groups:
        stages, inner = [], 1
        for j in range(start, start + length):
            r = plan.radices[j]
            shape = (count, n // (r * inner * group_inner), r, r, inner, group_inner)
            parts = (ops.reshape(x[j], shape) for x in (real, imaginary))
            stages.append(tuple(ops.moveaxis(part, -1, 1) for part in parts))
            inner *= r
        groups.append(stages)
        start += length
        group_inner *= inner
    return groups


def _fold_group(stages):
    """Multiply consecutive stages out to falling blocks `[A | B]`, `(count, O, S, R, 2 R)`.

    Works on transposed blocks, (column, row): there every entry is a product of entries. The pairs
    of a complex product are summed, because XLA keeps sums, where it would work a mere product out
    anew for each entry of the blocks that come after it.
    """
    count, inner_groups, *_ = stages[0][0].shape
    blocks = ops.concatenate(stages[0], axis=-2)  # (count, S, outer, column, 2 row, 1)
    size = stages[0][0].shape[-2]
    for real, imaginary in stages[1:]:
        r = real.shape[3]
        shape = (-1, 1, 1, r, size)
        real, imaginary = ops.reshape(real, shape), ops.reshape(imaginary, shape)
        times_real = ops.concatenate([real, imaginary], axis=3)
        times_imaginary = ops.concatenate([-imaginary, real], axis=3)
        stage = ops.concatenate([times_real, times_imaginary], axis=2)
        # (outer r, column, pair, ·, row) by (outer r, ·, pair, pair' r', row)
        blocks = ops.sum(ops.reshape(blocks, (-1, size, 2, 1, size)) * stage, axis=2)
        size *= r
    # (count, S, O, column, 2 row) holds the transposed blocks: the falling butterfly.
    blocks = ops.reshape(blocks, (count, inner_groups, -1, size, 2 * size))
    return ops.swapaxes(blocks, 1, 2)


def _multiply(groups, depth, group_count):
    """Multiply `B_0ᵀ B_1 B_2ᵀ …`, merging neighbouring blocks of the same group.

    Args:
        groups: for each group a tensor `(matrices, depth, O, S, R, 2 R)` of falling blocks.

    Returns:
        List of `(group, blocks)` in product order, blocks of shape `(matrices, O, S, R, 2, R, 2)`.
    """
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
    return [(group, complex_blocks(*ops.split(wide, 2, axis=-1))) for group, wide in factors]


def _transposed(blocks):
    """Transpose complex matrices kept as `[A | B]`."""
    *leading, size, _ = blocks.shape
    pairs = ops.reshape(blocks, (-1, size, 2, size))
    return ops.reshape(ops.transpose(pairs, (0, 3, 2, 1)), (*leading, size, 2 * size))


def _chain_product(blocks):
    """Multiply falling blocks `[A | B]` along axis 1, every second one transposed: `F_0 F_1ᵀ …`.

    The pairs of one level are multiplied together, so the number of operations grows with the
    logarithm of the depth.
    """
    left_over, transposed = [], True  # on the first level the right factors are rising
    while blocks.shape[1] > 1:
        count, depth, *shape = blocks.shape
        if depth % 2:
            blocks, last = ops.split(blocks, [depth - 1], axis=1)
            left_over.append(last)
        pairs = ops.reshape(blocks, (count, depth // 2, 2, *shape))
        blocks = _wide_product(*ops.unstack(pairs, axis=2), transposed)
        transposed = False
    for last in reversed(left_over):
        blocks = _wide_product(blocks, last, False)
    return blocks


def _wide_product(left, right, transposed):
    """Multiply complex matrices kept as `[A | B]`, the right one transposed if asked."""
    real, imaginary = ops.split(right, 2, axis=-1)
    if transposed:
        real, imaginary = ops.swapaxes(real, -1, -2), ops.swapaxes(imaginary, -1, -2)
    upper = ops.concatenate([real, imaginary], axis=-1)
    lower = ops.concatenate([-imaginary, real], axis=-1)
    return ops.matmul(left, ops.concatenate([upper, lower], axis=-2))
