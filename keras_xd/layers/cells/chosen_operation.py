"""One operation on an edge of a relaxed cell, chosen while a graph runs."""

import functools

import numpy as np
from keras import ops

from keras_xd.core.type_aliases import Tensor
from keras_xd.layers.cells.dynamic_conv import MOMENTUM, widened
from keras_xd.layers.cells.edge_operations import Edge, node_values, outcomes
from keras_xd.layers.cells.edge_products import joined
from keras_xd.layers.cells.genotypes import (
    ATTENTION_OPERATIONS,
    KERNEL_SPANS,
    is_feature,
    largest_span,
)
from keras_xd.layers.cells.operator_cell import ATTENTION_MAPS, Outcomes, added_up


def chosen_outcome(
    edge: Edge, x: Tensor, weights: dict[str, Tensor], number: Tensor, weight: Tensor
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return what one operation on an edge makes of a node, weighted, and moved statistics."""
    x = ops.convert_to_tensor(x)
    length = max(len(_statistics(edge, name)) for name in edge.operations)
    branches = [
        functools.partial(_outcome, edge, name, length, x, weights, weight)
        for name in edge.operations
    ]
    branches.append(functools.partial(_nothing, edge, length, x))
    result, found = ops.switch(number, branches)
    moved = {}
    for key in weights if edge.training else ():
        if "moving_" in key:
            table = np.full((len(branches), weights[key].shape[0]), length)
            for row, name in enumerate(edge.operations):
                for column, (of, place) in enumerate(_statistics(edge, name)):
                    if key.startswith(of):
                        table[row, place] = column
            places, kind = ops.take(table, number, axis=0), key.split("moving_")[1]
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
    """Return the node that the outcomes of chosen operations make, and nothing aside."""
    sizes = (0, *sorted({KERNEL_SPANS[name] for name in operations if name in KERNEL_SPANS}))
    total = added_up(sizes[-1], made).sums
    features, maps = total["features"], {k: total[k] for k in ATTENTION_MAPS if k in total}
    if surrogate is not None:
        makes_none = np.array([not is_feature(name) for name in operations], "float32")
        share = ops.sum(ops.take(makes_none, numbers) * weights)
        features = features + surrogate * ops.cast(share, surrogate.dtype)

    def calibrated(attends, size):
        part = Outcomes(size)
        part.sums |= maps if attends else {}
        if size:
            margin = (sizes[-1] - size) // 2
            inside = slice(margin, margin + size)
            part.sums["kernel"] = total["kernel"][:, inside, inside]
        return part.calibrated(features, gate)

    cases = [(attends, size) for attends in (False, True)[: 1 + bool(maps)] for size in sizes]
    codes = np.array(
        [
            (name in ATTENTION_OPERATIONS, sizes.index(KERNEL_SPANS.get(name, 0)))
            for name in operations
        ]
        + [(False, 0)],
        "int32",
    )
    found = ops.max(ops.take(codes, numbers, axis=0), axis=0)
    index = found[0] * len(sizes) + found[1]
    return ops.switch(index, [functools.partial(calibrated, *case) for case in cases]), {}


def _outcome(edge, name, length, x, weights, weight):
    """Return what an operation makes, and its means and variances with zeros up to a length."""
    alone, own = edge.alone(name), _own(edge, name, weights)
    node, pooled = node_values(alone, x, own)
    own = {key: ops.expand_dims(value, 0) for key, value in own.items()}
    made, normalized = outcomes(alone, node, own, ops.reshape(weight, (1, 1)))
    made = {kind: ops.cast(value, x.dtype) for kind, (value,) in made.items()}
    normalized = {key: ops.reshape(value, (-1,)) for key, value in normalized.items()}
    if "kernel" in made:
        made["kernel"] = widened(made["kernel"], largest_span(edge.operations))
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
    if any(name in KERNEL_SPANS for name in names):
        size = largest_span(names)
        shapes["kernel"] = (batch, size, size, c)
    return shapes


def _own(edge, name, weights):
    """Return the weights that an edge with one operation alone would have."""
    own = {}
    for place in edge.places(name):
        if not (edge.training and "moving_" in place.name):
            value = weights[place.name]
            own.setdefault(place.name, []).append(value[place.index] if place.index else value)
    return {key: joined(values, 0) for key, values in own.items()}


def _statistics(edge, name):
    """Return pairs of the name and the place of each mean that an operation normalises by."""
    return [
        (place.name.removesuffix("mean"), number)
        for place in edge.places(name)
        if place.name.endswith("moving_mean")
        for number in range(place.index[0].start, place.index[0].stop)
    ]
