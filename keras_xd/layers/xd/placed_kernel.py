"""The product of `L` and the kernel along each axis."""

import dataclasses

import numpy as np
from keras import ops

from keras_xd.core import devices
from keras_xd.core.type_aliases import Tensor
from keras_xd.kmatrix import radix, transform
from keras_xd.kmatrix.radix import Plan
from keras_xd.kmatrix.transform import ForwardTransform

# What moving one value through memory costs, in multiply–adds; see `kmatrix.radix`.
MEMORY_PASS = 16
# Columns of `L` are made once and then take one product, so they are kept unless the other way is
# estimated to be so many times faster: below that, measurements found no gain.
CLEARLY_FASTER = 2


@dataclasses.dataclass(frozen=True)
class KernelAxis:
    """One axis of `L w`.

    Attributes:
        plan: the `Plan` that `L` is folded by.
        weights: for each of the `n` points of the circle the index of the weight there, −1 for
            none, or the rows of the dense `(n, k)` array that puts the weights on the circle.
        kernel_size: number of weights `k`.
        direct: whether `L` is applied to the placed kernel; otherwise its columns at the weights
            are multiplied out first.
    """

    plan: Plan
    weights: tuple
    kernel_size: int
    direct: bool = False

    def placement(self, dtype: str) -> Tensor:
        """Return the dense `(n, k)` tensor that puts the weights on the circle."""
        if isinstance(self.weights[0], tuple):
            return ops.convert_to_tensor(np.array(self.weights), dtype)
        return ops.one_hot(self.weights, self.kernel_size, dtype=dtype)


@dataclasses.dataclass(frozen=True)
class PlacedTransform:
    """`L` along one axis, ready to be applied to a kernel that is placed on the circle."""

    analysis: ForwardTransform
    weights: tuple[int, ...]

    def __call__(self, data):
        n, pairs = len(self.weights), 2 if self.analysis.pair else 1
        rows, taps, _ = data.shape
        data = ops.reshape(data, (rows * pairs, taps // pairs, -1))
        data = ops.pad(data, [[0, 0], [0, 1], [0, 0]])  # what index −1 takes: no weight
        places = [taps // pairs if index < 0 else index for index in self.weights]
        data = ops.take(data, places, axis=1)
        shape = (rows, 2, n, -1) if self.analysis.pair else (rows, n, -1)
        data = self.analysis(ops.reshape(data, shape))
        return ops.reshape(data, (rows, 2 * n, -1))


def kernel_plans(plans, geometry, depth, method="auto"):
    """Return the plans to fold `L` by, for those of `K` and `M`."""
    if devices.has_accelerator() or method == "stages":
        return tuple(plans)
    return tuple(
        radix.plan(plan.n, plan.radices, depth=depth, columns=g.kernel_size)
        if len(plan.groups) > 1
        else plan
        for plan, g in zip(plans, geometry, strict=True)
    )


def kernel_axes(start, geometry, plans, depth, connections, method="auto"):
    """Choose by cost, for every axis, how `L` meets the kernel."""
    axes, rows = [], 1
    columns = connections * int(np.prod([g.kernel_size for g in geometry], dtype=object))
    for index, (g, plan) in enumerate(
        zip(geometry, kernel_plans(plans, geometry, depth, method), strict=True)
    ):
        columns //= g.kernel_size
        weights = start.placed_weights(g)
        direct = weights is not None and _is_direct(
            plan, depth, g.kernel_size, rows, columns, index
        )
        weights = start.placement(g) if weights is None else weights
        weights = tuple(tuple(row) if np.ndim(row) else int(row) for row in weights)
        axes.append(KernelAxis(plan, weights, g.kernel_size, direct))
        rows *= plan.n
    return tuple(axes)


def _is_direct(plan, depth, kernel_size, rows, columns, index):
    """Return whether `L` is clearly cheaper applied to the placed kernel than by its columns."""
    pairs = 2 if index else 1
    if len(plan.groups) == 1:
        return False  # the folded matrix is dense already

    def of_vectors(count, pair):
        written = 2 * plan.n * len(radix.block_products(plan, depth))
        work = transform.multiply_adds(plan, depth, size=plan.n, pair=pair, columns=1)
        return count * (work + MEMORY_PASS * written)

    written = MEMORY_PASS * 2 * plan.n * rows * columns
    product = 2 * plan.n * pairs * kernel_size * rows * columns
    by_columns = of_vectors(kernel_size, False) + product + written
    return by_columns > CLEARLY_FASTER * of_vectors(rows * columns, index > 0)
