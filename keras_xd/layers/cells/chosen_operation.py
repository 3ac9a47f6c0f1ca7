"""What one operation on an edge of a relaxed cell makes, chosen while a graph runs.

The others are branches that are not taken: they cost neither time nor memory, and neither their
weights nor their statistics move.
"""

import dataclasses
import functools

import numpy as np
from keras import ops

from keras_xd.core.type_aliases import Tensor
from keras_xd.layers.cells.dynamic_conv import MOMENTUM, widened
from keras_xd.layers.cells.edge import (
    DEPTHWISE,
    POOLING,
    Edge,
    depthwise_names,
    is_separable,
    kernel_sizes,
)
from keras_xd.layers.cells.edge_products import outcomes
from keras_xd.layers.cells.genotypes import ATTENTION_OPERATIONS, is_feature
from keras_xd.layers.cells.node_products import node_values
from keras_xd.layers.cells.operator_cell import KERNEL_SIZES, Outcomes, added_up


def chosen_outcome(
    edge: Edge, x: Tensor, weights: dict[str, Tensor], number: Tensor, weight: Tensor
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return what one operation on an edge makes of a node, weighted, and moved statistics.

    Args:
        edge: the `Edge`.
        x: features of the node, `(batch, height, width, filters)`.
        weights: those of the edge by name, with the moving statistics of its node's poolings.
        number: integer scalar, which of `edge.operations`; their number for none of them.
        weight: float32 scalar.

    Returns:
        A dictionary with those of `features`, `spatial`, `channel` and `kernel` that one of the
        operations makes, zeros where the chosen one does not; and in training one with all moving
        statistics, where those of the chosen operation have moved.
    """
    x = ops.convert_to_tensor(x)
    length = max(sum(map(len, _places(edge, name).values())) for name in edge.operations)
    branches = [
        functools.partial(_outcome, edge, name, length, x, weights, weight)
        for name in edge.operations
    ]
    branches.append(functools.partial(_nothing, edge, length, x))
    result, found = ops.switch(number, branches)
    moved = {}
    for key in weights if edge.training else ():
        if "moving_" in key:
            group, kind = key.split("moving_")
            table = np.full((len(branches), weights[key].shape[0]), length)
            for row, name in enumerate(edge.operations):
                places = _places(edge, name)[group]
                table[row, places] = np.arange(len(places))
            places = ops.take(table, number, axis=0)
            new = weights[key] * MOMENTUM + ops.take(found[kind], places) * (1 - MOMENTUM)
            moved[key] = ops.where(places < length, new, weights[key])
    return result, moved


def combined_chosen(
    operations: tuple[str, ...],
    edges: int,
    made: list[dict[str, Tensor]],
    gate: Tensor | None,
    numbers: Tensor,
    surrogate: Tensor | None,
    weights: Tensor,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the node that the outcomes of chosen operations make, and nothing aside.

    As `operator_cell.combined`, but attention is multiplied and dynamic kernels are applied, at
    the size of the largest, only where they were chosen.

    Args:
        operations: the names of the operations.
        edges: how many edges there are; other numbers are other functions.
        made: the outcomes of each chosen operation.
        gate: factor of what attention and dynamic convolutions add, or `None`.
        numbers: integer vector, the columns of all chosen operations, that of none as above.
        surrogate: in the second tier its node, which takes the place of features where a chosen
            operation makes none, as in a discrete cell.
        weights: float32 vector, the weights of the chosen operations.
    """
    sizes = (0, *sorted(kernel_sizes(operations)))
    total = added_up(sizes[-1], made)
    if surrogate is not None:
        makes_none = np.array([not is_feature(name) for name in operations], "float32")
        share = ops.sum(ops.take(makes_none, numbers) * weights)
        total.features = total.features + surrogate * ops.cast(share, surrogate.dtype)

    def calibrated(attends, size):
        part = Outcomes(size)
        part.attention = total.attention if attends else {}
        if size:
            margin = (sizes[-1] - size) // 2
            inside = slice(margin, margin + size)
            part.kernel = total.kernel[:, inside, inside]
        return part.calibrated(total.features, gate)

    cases = [
        (attends, size) for attends in (False, True)[: 1 + bool(total.attention)] for size in sizes
    ]
    codes = np.array(
        [
            (name in ATTENTION_OPERATIONS, sizes.index(KERNEL_SIZES.get(name, 0)))
            for name in operations
        ]
        + [(False, 0)],
        "int32",
    )
    found = ops.max(ops.take(codes, numbers, axis=0), axis=0)
    index = found[0] * len(sizes) + found[1]
    return ops.switch(index, [functools.partial(calibrated, *case) for case in cases]), {}


def _outcome(edge, name, length, x, weights, weight):
    """Return what an operation of a name makes, and the statistics of what it normalises.

    These are the means and the variances, each with zeros up to a length, and one more.
    """
    alone = dataclasses.replace(edge, operations=(name,))
    own = _own(edge, name, weights)
    node, pooled = node_values(alone, x, own)
    own = {key: ops.expand_dims(value, 0) for key, value in own.items()}
    made, normalized = outcomes(alone, node, own, ops.reshape(weight, (1, 1)))
    made = {kind: ops.cast(value, x.dtype) for kind, (value,) in made.items()}
    normalized = {key: ops.reshape(value, (-1,)) for key, value in normalized.items()}
    if "kernel" in made:
        made["kernel"] = widened(made["kernel"], max(kernel_sizes(edge.operations)))
    nothing, statistics = _nothing(edge, length, x)
    made = {kind: made.get(kind, zeros) for kind, zeros in nothing.items()}
    found = {key.split("moving_")[1]: value for key, value in {**pooled, **normalized}.items()}
    for kind in ("mean", "variance") if edge.training else ():
        value = found.get(kind, ops.zeros((0,), "float32"))
        # No gradients are asked of statistics, and none are to be computed as zeros.
        value = ops.stop_gradient(value)
        statistics[kind] = ops.pad(value, [(0, length + 1 - value.shape[0])])
    return made, statistics


def _nothing(edge, length, x):
    """Return what no operation makes, and statistics that stay as they are."""
    made = {kind: ops.zeros(shape, x.dtype) for kind, shape in _shapes(edge, x).items()}
    kinds = ("mean", "variance") if edge.training else ()
    return made, {kind: ops.zeros((length + 1,), "float32") for kind in kinds}


def _shapes(edge, x):
    """Return the shape of each kind of outcomes that the operations of an edge have."""
    batch, names, c = ops.shape(x)[0], edge.operations, edge.filters
    sizes = [-(-n // edge.strides) for n in x.shape[1:-1]]
    shapes = {"features": (batch, *sizes, c)}
    if "spatial_attention" in names:
        shapes["spatial"] = (batch, *sizes, 1)
    if "channel_attention" in names:
        shapes["channel"] = (batch, 1, 1, c)
    if kernel_sizes(names):
        size = max(kernel_sizes(names))
        shapes["kernel"] = (batch, size, size, c)
    return shapes


def _own(edge, name, weights):
    """Return the weights that an edge with one operation alone would have."""
    own, names = dict(weights), edge.operations
    if name in DEPTHWISE:
        for step in range(1 + is_separable(name)):
            row = depthwise_names(names, step).index(name)
            own[f"pointwise_{step}"] = weights[f"pointwise_{step}"][row : row + 1]
    elif name in KERNEL_SIZES:
        row, count = kernel_sizes(names).index(KERNEL_SIZES[name]), len(kernel_sizes(names))
        inner = weights["bottleneck"].shape[-1] // count
        own["bottleneck"] = weights["bottleneck"][:, row * inner : (row + 1) * inner]
    if not edge.training:
        for group, places in _places(edge, name).items():
            for kind in ("mean", "variance") if places else ():
                key = f"{group}moving_{kind}"
                own[key] = ops.take(weights[key], np.array(places))
    return own


def _places(edge, name):
    """Return where the statistics of an operation lie in the vectors of all, lists of places.

    That of the edge's statistics has the key "", that of its node's poolings "pooling_".
    """
    found, pooled, names, c = [], [], edge.operations, edge.filters

    def add(key, row=0, count=1):
        place = edge.statistics[key]
        size = (place.stop - place.start) // count
        start = place.start + row * size
        found.extend(range(start, start + size))

    if name in DEPTHWISE:
        for step in range(1 + is_separable(name)):
            rows = depthwise_names(names, step)
            add(f"pointwise_{step}", rows.index(name), len(rows))
    elif name in POOLING:
        row = [other for other in names if other in POOLING].index(name)
        pooled.extend(range(row * c, (row + 1) * c))
    elif name == "identity" and edge.strides > 1:
        add("reduction")
    elif name == "spatial_attention":
        add("spatial")
    elif name in KERNEL_SIZES:
        sizes = kernel_sizes(names)
        add("bottleneck", sizes.index(KERNEL_SIZES[name]), len(sizes))
    return {"": found, "pooling_": pooled}
