"""Structured matrices folded into dense blocks and applied, in `keras.ops`.

The parameters of a structured matrix are tiny beside the data it is applied to. So stages are
first folded into at most a few dense blocks (`fold`), of which the columns and rows in use are
made ready (`analysis`, `synthesis`), and the data are touched once per block, by one large matrix
product. Gradients go through the folding.

Complex numbers are pairs of real numbers. A complex block is kept as the real block

    [[A, -B], [B, A]]        of A + iB

with the pair index beside the row and the column index, so that a complex product is one real
matrix product and nothing is sliced out of the data.
"""

import dataclasses
import math

import numpy as np
from keras import ops

from keras_xd.kmatrix import radix


@dataclasses.dataclass(frozen=True)
class Factor:
    """One dense block product of a folded K-matrix.

    Attributes:
        group: index of the group of stages it came from.
        blocks: tensor of shape `(O, S, R, 2, R, 2)`: outer index, inner index, row and its pair,
            column and its pair. It maps a vector viewed as `(O, R, S)`.
    """

    group: int
    blocks: object

    @property
    def transposed(self):
        """The factor of the transposed (not conjugated) matrix."""
        return Factor(self.group, ops.transpose(self.blocks, (0, 1, 4, 3, 2, 5)))


def fold(weights, plans):
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
        blocks = [_fold_group(stages, start) for stages, start in _stage_groups(joined, plan)]
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


@dataclasses.dataclass(frozen=True)
class Transform:
    """A K-matrix made ready for one axis: the dense matrices in use and how to apply them.

    Only the columns and rows in use are kept. Build one with `analysis` or `synthesis`, call it on
    data; `matrices` alone may be replaced, by stored or by cast ones.

    Attributes:
        matrices: list of tensors, the first one is applied first.
        groups: group index of each matrix.
        plan: the `Plan`.
        size: number of entries on the signal side.
        stride: distance of neighbouring entries on the signal side (synthesis only).
        pair: whether the signal side is complex.
    """

    matrices: list
    groups: tuple
    plan: radix.Plan
    size: int
    stride: int
    pair: bool

    def _inner(self, group):
        return math.prod(self.plan.group_sizes[:group])


class Analysis(Transform):
    """`P` along an axis: signal to frequencies.

    Called on real tensors `(pre, size, post)`, or pairs `(pre, 2, size, post)` if `pair`; returns
    `(pre, n, 2, post)`. Entries from `size` to `n` count as zeros and are never multiplied.
    """

    def __call__(self, x):
        # `post` holds the batch and may be dynamic, hence the -1 in every shape below.
        plan, size, pairs = self.plan, self.size, 2 if self.pair else 1
        pre, first = x.shape[0], self.matrices[0]
        if len(plan.group_sizes) == 1:
            x = ops.matmul(first, ops.reshape(x, (pre, pairs * size, -1)))
            return ops.reshape(x, (pre, plan.n, 2, -1))
        inner, rows = self._inner(self.groups[0]), plan.group_sizes[self.groups[0]]
        if inner > 1:
            used = -(-size // inner)
            x = _pad(ops.reshape(x, (pre, pairs, size, -1)), 2, used * inner - size)
            x = ops.reshape(x, (pre, pairs, used, inner, -1))
            x = ops.reshape(ops.transpose(x, (0, 3, 2, 1, 4)), (pre, inner, used * pairs, -1))
            x = ops.reshape(ops.matmul(first, x), (pre, inner, rows, -1))
            x = ops.transpose(x, (0, 2, 1, 3))
        else:
            used = -(-size // rows)
            x = _pad(ops.reshape(x, (pre, pairs, size, -1)), 2, used * rows - size)
            x = ops.reshape(x, (pre, pairs, used, rows, -1))
            x = ops.reshape(ops.transpose(x, (0, 2, 3, 1, 4)), (pre, used, rows * pairs, -1))
            x = _pad(ops.matmul(first, x), 1, plan.n // rows - used)
        x = ops.reshape(x, (pre, plan.n, 2, -1))
        for group, matrix in zip(self.groups[1:], self.matrices[1:], strict=True):
            x = _apply_block(matrix, plan, group, self._inner(group), x)
        return x


class Synthesis(Transform):
    """`Pᵀ` along an axis: frequencies to signal.

    Called on `(pre, n, 2, post)`; returns the real part `(pre, size, post)`, or pairs
    `(pre, 2, size, post)` if `pair`: the entries 0, `stride`, 2 `stride`, … of the result.
    """

    def __call__(self, y):
        plan, size, pairs = self.plan, self.size, 2 if self.pair else 1
        pre, last = y.shape[0], self.matrices[-1]
        reach = (size - 1) * self.stride + 1
        shape = (pre, pairs, size, -1) if self.pair else (pre, size, -1)
        if len(plan.group_sizes) == 1:
            y = ops.matmul(last, ops.reshape(y, (pre, plan.n * 2, -1)))
            return ops.reshape(y, shape)
        for group, matrix in zip(self.groups[:-1], self.matrices[:-1], strict=True):
            y = _apply_block(matrix, plan, group, self._inner(group), y)
        inner, columns = self._inner(self.groups[-1]), plan.group_sizes[self.groups[-1]]
        if inner > 1:
            used, block = -(-reach // inner), inner
            y = ops.transpose(ops.reshape(y, (pre, columns, inner, -1)), (0, 2, 1, 3))
            y = ops.matmul(last, ops.reshape(y, (pre, inner, columns * 2, -1)))
            y = ops.transpose(ops.reshape(y, (pre, inner, used, pairs, -1)), (0, 3, 2, 1, 4))
        else:
            used, block = -(-reach // columns), columns
            y = ops.reshape(y, (pre, plan.n // columns, columns * 2, -1))[:, :used]
            y = ops.reshape(ops.matmul(last, y), (pre, used, columns, pairs, -1))
            y = ops.transpose(y, (0, 3, 1, 2, 4))
        y = ops.reshape(y, (pre, pairs, used * block, -1))[:, :, : reach : self.stride]
        return ops.reshape(y, shape)


def analysis(factors, plan, *, size=None, pair):
    """Make a folded K-matrix ready to be applied as `P`.

    Args:
        factors: the factors of `P` from `fold`.
        plan: the `Plan` they were folded by.
        size: number of entries of the signal; zeros follow them. Default: all `n`.
        pair: whether the signal is complex.

    Returns:
        An `Analysis`.
    """
    size = plan.n if size is None else size
    first = factors[-1].blocks if pair else factors[-1].blocks[..., :1]
    outer, inner, rows, _, _, pairs = first.shape
    if len(plan.groups) == 1:
        # One dense matrix; its columns are ordered as the data, pair before position.
        matrix = ops.transpose(first[0, 0, :, :, :size], (0, 1, 3, 2))
        matrix = ops.reshape(matrix, (rows * 2, pairs * size))
    elif inner > 1:
        used = -(-size // inner)
        matrix = ops.reshape(first[0, :, :, :, :used], (inner, rows * 2, used * pairs))
    else:
        used = -(-size // rows)
        matrix = ops.reshape(first[:used], (used, rows * 2, rows * pairs))
    matrices = [matrix] + [_block_matrix(factor.blocks) for factor in reversed(factors[:-1])]
    groups = tuple(factor.group for factor in reversed(factors))
    return Analysis(matrices, groups, plan, size, 1, pair)


def synthesis(factors, plan, *, size=None, stride=1, pair):
    """Make a folded K-matrix ready to be applied as its transpose `Pᵀ`.

    Args:
        factors: the factors of `P` (not of its transpose) from `fold`.
        plan: the `Plan` they were folded by.
        size: how many entries of the result are kept, from the first one on (default: all).
        stride: taking every `stride`-th.
        pair: whether the imaginary part of the result is needed.

    Returns:
        A `Synthesis`.
    """
    size = -(-plan.n // stride) if size is None else size
    reach = (size - 1) * stride + 1
    factors = [factor.transposed for factor in factors]
    last = factors[-1].blocks if pair else factors[-1].blocks[:, :, :, :1]
    _, inner, _, pairs, columns, _ = last.shape
    if len(plan.groups) == 1:
        matrix = ops.transpose(last[0, 0, :reach:stride], (1, 0, 2, 3))
        matrix = ops.reshape(matrix, (pairs * size, columns * 2))
    elif inner > 1:
        used = -(-reach // inner)
        matrix = ops.reshape(last[0, :, :used], (inner, used * pairs, columns * 2))
    else:
        used = -(-reach // columns)
        matrix = ops.reshape(last[:used], (used, columns * pairs, columns * 2))
    matrices = [_block_matrix(factor.blocks) for factor in factors[:-1]] + [matrix]
    groups = tuple(factor.group for factor in factors)
    return Synthesis(matrices, groups, plan, size, stride, pair)


def multiply_adds(plan, depth, *, size, pair, columns):
    """Multiply–adds of an `Analysis` or `Synthesis` with these arguments (weights' folding aside).

    Args:
        plan: the `Plan`.
        depth: depth of the K-matrix.
        size: number of entries on the signal side.
        pair: whether the signal side is complex.
        columns: number of vectors, `pre × post`.
    """
    order, sizes = radix.block_products(plan, depth), plan.group_sizes
    total = 4 * plan.n * sum(sizes[group] for group in order[:-1])
    last = sizes[order[-1]]
    if len(sizes) == 1:
        end = plan.n * size
    elif order[-1] == 0:
        end = -(-size // last) * last * last
    else:
        end = plan.n * -(-size * last // plan.n)
    return columns * (total + (4 if pair else 2) * end)


def complex_blocks(real, imaginary):
    """Return `[[A, -B], [B, A]]` of `A + iB` with shape `(…, rows, 2, columns, 2)`.

    Args:
        real: tensor of shape `(…, rows, columns)`.
        imaginary: tensor of the same shape.
    """
    top = ops.stack([real, -imaginary], axis=-1)
    bottom = ops.stack([imaginary, real], axis=-1)
    return ops.stack([top, bottom], axis=-3)


def _stage_groups(weights, plan):
    """Cut packed weights into `(real, imaginary)` stages, group by group, with the inner size."""
    count, n = weights.shape[0], plan.n
    real, imaginary = ops.unstack(weights, axis=1)
    cuts = np.cumsum([n * r for r in plan.radices])[:-1].tolist()
    real = ops.split(real, cuts, axis=1) if cuts else [real]
    imaginary = ops.split(imaginary, cuts, axis=1) if cuts else [imaginary]
    groups, start, inner = [], 0, 1
    for length in plan.groups:
        stages = []
        group_inner = inner
        for j in range(start, start + length):
            r = plan.radices[j]
            shape = (count, n // (r * inner), r, r, inner)
            stages.append((ops.reshape(real[j], shape), ops.reshape(imaginary[j], shape)))
            inner *= r
        groups.append((stages, group_inner))
        start += length
    return groups


def _fold_group(stages, group_inner):
    """Multiply consecutive stages out to falling blocks `[A | B]`, `(count, O, S, R, 2 R)`.

    Works on transposed blocks, (column, row, inner): no operation but broadcast products.
    """
    real, imaginary = stages[0]
    for stage_real, stage_imaginary in stages[1:]:
        count, outer, r, _, inner = stage_real.shape
        size = real.shape[2]
        stage_shape = (count, outer, r, 1, r, inner)
        block_shape = (count, outer, r, size, 1, inner)
        stage_real = ops.reshape(stage_real, stage_shape)
        stage_imaginary = ops.reshape(stage_imaginary, stage_shape)
        real, imaginary = ops.reshape(real, block_shape), ops.reshape(imaginary, block_shape)
        real, imaginary = (
            stage_real * real - stage_imaginary * imaginary,
            stage_real * imaginary + stage_imaginary * real,
        )
        shape = (count, outer, r * size, r * size, group_inner)
        real, imaginary = ops.reshape(real, shape), ops.reshape(imaginary, shape)
    # (count, O, column, row, S) holds the transposed blocks: the falling butterfly.
    order = (0, 1, 4, 2, 3)
    if group_inner == 1:
        shape = (real.shape[0], real.shape[1], 1, *real.shape[2:4])
        return ops.concatenate([ops.reshape(real, shape), ops.reshape(imaginary, shape)], axis=-1)
    return ops.concatenate([ops.transpose(real, order), ops.transpose(imaginary, order)], axis=-1)


def _multiply(groups, depth, group_count):
    """Multiply `B_0ᵀ B_1 B_2ᵀ …`, merging neighbouring blocks of the same group.

    Args:
        groups: for each group a tensor `(matrices, depth, O, S, R, 2 R)` of falling blocks.

    Returns:
        List of `(group, blocks)` in product order, blocks of shape `(matrices, O, S, R, 2, R, 2)`.
    """
    if group_count == 1:
        chain = _chain_product(groups[0])[:, 0]
        return [(0, complex_blocks(*ops.split(chain, 2, axis=-1)))]
    slots = []
    for blocks in groups:
        falling = complex_blocks(*ops.split(blocks, 2, axis=-1))
        if depth == 1:
            slots.append([falling[:, 0]])
            continue
        rising = ops.transpose(falling, (0, 1, 2, 3, 6, 5, 4, 7))
        falling_list, rising_list = ops.unstack(falling, axis=1), ops.unstack(rising, axis=1)
        slots.append([(rising_list if k % 2 else falling_list)[k] for k in range(depth)])
    factors = []
    for slot in range(depth):
        order = range(group_count) if slot % 2 == 0 else range(group_count - 1, -1, -1)
        for group in order:
            block = slots[group][slot]
            if factors and factors[-1][0] == group:
                block = _block_product(factors.pop()[1], block)
            factors.append((group, block))
    return factors


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


def _block_product(left, right):
    shape = left.shape
    size = 2 * shape[-2]
    left = ops.reshape(left, (-1, size, size))
    right = ops.reshape(right, (-1, size, size))
    return ops.reshape(ops.matmul(left, right), shape)


def _block_matrix(blocks):
    """Join the pair axes of `(O, S, R, 2, R, 2)` to their rows and columns, dropping `S = 1`."""
    outer, inner, size = blocks.shape[:3]
    leading = (outer, inner) if inner > 1 else (outer,)
    return ops.reshape(blocks, (*leading, size * 2, size * 2))


def _apply_block(matrix, plan, group, inner, x):
    """Apply one block product to pairs of shape `(pre, n, 2, post)`."""
    pre, size = x.shape[0], plan.group_sizes[group]
    outer = plan.n // (size * inner)
    if inner == 1:
        x = ops.matmul(matrix, ops.reshape(x, (pre, outer, size * 2, -1)))
    else:
        x = ops.transpose(ops.reshape(x, (pre, outer, size, inner, -1)), (0, 1, 3, 2, 4))
        x = ops.matmul(matrix, ops.reshape(x, (pre, outer, inner, size * 2, -1)))
        x = ops.transpose(ops.reshape(x, (pre, outer, inner, size, -1)), (0, 1, 3, 2, 4))
    return ops.reshape(x, (pre, plan.n, 2, -1))


def _pad(x, axis, amount):
    if amount == 0:
        return x
    widths = [[0, 0]] * len(x.shape)
    widths[axis] = [0, amount]
    return ops.pad(x, widths)
