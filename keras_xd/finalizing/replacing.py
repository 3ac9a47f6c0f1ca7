"""Replacement of one searched layer, with its row of the report."""

import dataclasses

import keras

from keras_xd.core.argument_types import constructor_parameters
from keras_xd.core.searchable import (
    SearchableLayer,
    architecture_variables,
    flatten_layers,
    named_layers,
    sublayers,
)
from keras_xd.core.shares import CandidateShares
from keras_xd.finalizing import snapping
from keras_xd.finalizing.report import LayerReport
from keras_xd.graph.cost import multiply_adds
from keras_xd.layers import StaticKernelXD, StaticLowRankXD
from keras_xd.layers.masked.base import MaskedLayer
from keras_xd.layers.xd.base import XDLayer
from keras_xd.layers.xd.distances import OPERATIONS
from keras_xd.layers.xd.finalized_sizes import LOW_RANK
from keras_xd.rewriting.comparison import tensor_bytes


@dataclasses.dataclass(frozen=True)
class Replacement:
    """A layer in place of a searched one.

    Attributes:
        before, after: the two layers.
        form: as in `LayerReport`.
        snap: what `snap` found, or `None`.
        reason: as `left_because` in `LayerReport`.
        candidate: as in `LayerReport`.
    """

    before: SearchableLayer
    after: keras.layers.Layer
    form: str
    snap: snapping.Snap | None = None
    reason: str | None = None
    candidate: str | None = None

    def row(self, path: str) -> LayerReport:
        """Return the row of the report, once both layers are built."""
        row = _row(path, self.before, self.after, self.form, self.snap, self.reason)
        return dataclasses.replace(row, candidate=self.candidate)


def replace(
    layer: SearchableLayer,
    form: str = "spectrum",
    weight_dtype: str | None = None,
    snap: float | None = None,
    tolerance: float | None = None,
) -> Replacement:
    """Return what takes the place of a searched layer."""
    if not isinstance(layer, OPERATIONS):
        inside = any(isinstance(inner, XDLayer) for inner in flatten_layers(layer))
        asked = (form, weight_dtype, snap) != ("spectrum", None, None)
        reason = f"the operations in a {type(layer).__name__} keep their spectrum"
        reason = reason if inside and asked else None
        candidate = layer.largest if isinstance(layer, CandidateShares) else None
        return Replacement(layer, layer.finalize(), "finalized", None, reason, candidate)
    found = None if snap is None else snapping.snap(layer, snap)
    if found is not None and found.layer is not None:
        return Replacement(layer, found.layer, "snapped", found)
    plain = layer.finalize(form, weight_dtype, tolerance)
    found_form, reason = _form(plain), found and found.reason
    if form == LOW_RANK != found_form:
        reason = "no ranks within the tolerance are small and fast enough"
    return Replacement(layer, plain, found_form, found, reason)


def trimmed_rows(model: keras.Model, pruned: keras.Model) -> tuple[LayerReport, ...]:
    """Return the rows of masked layers, and of others that have become smaller with them."""
    left, rows = dict(named_layers(pruned)), []
    for path, layer in named_layers(model)[1:]:
        plain, masked = left.get(path), isinstance(layer, MaskedLayer)
        shrunk = plain is not None and plain.count_params() != layer.count_params()
        if masked or (shrunk and not sublayers(layer)):
            rows.append(_trimmed_row(path, layer, plain))
    return tuple(rows)


def _trimmed_row(path, layer, plain):
    """Return the row of a layer and the smaller one, or `None`, in its place."""
    shapes = [(x.get_build_config() or {}).get("input_shape") for x in (layer, plain or layer)]
    whole = layer
    if isinstance(layer, MaskedLayer):  # which counts what the masks leave
        names = constructor_parameters(layer.keras_class)
        config = {name: value for name, value in layer.get_config().items() if name in names}
        whole = layer.keras_class.from_config(config)
    before = _count(whole, shapes[0])
    after = 0 if plain is None else _count(plain, shapes[1])
    return LayerReport(
        path,
        type(layer).__name__,
        "removed" if plain is None else type(plain).__name__,
        "trimmed",
        None,
        None,
        None,
        layer.count_params(),
        0 if plain is None else plain.count_params(),
        _bytes(layer),
        0 if plain is None else _bytes(plain),
        None if before is None else int(before),
        None if after is None else int(after),
    )


def _form(plain):
    """Return the form of what an XD-operation was finalized to."""
    for form, kind in ((LOW_RANK, StaticLowRankXD), ("kernel", StaticKernelXD)):
        if any(isinstance(inner, kind) for inner in flatten_layers(plain)):
            return form
    return "spectrum"


def _row(path, layer, plain, form, found, reason):
    shape = (layer.get_build_config() or {}).get("input_shape")
    before, after = (_count(part, shape) for part in (layer, plain))
    if form == "snapped" and after is None:
        after = 0  # poolings and the like, by the convention of `keras_xd.complexity`
    inside = flatten_layers(plain)
    kernels = [inner for inner in inside if isinstance(inner, StaticKernelXD)]
    low_ranks = [inner for inner in inside if isinstance(inner, StaticLowRankXD)]
    return LayerReport(
        path,
        type(layer).__name__,
        type(plain).__name__,
        form,
        None if found is None else found.operation,
        None if found is None else found.distance,
        reason,
        layer.count_params(),
        plain.count_params(),
        _bytes(layer),
        _bytes(plain),
        None if before is None else int(before),
        None if after is None else int(after),
        sum(inner.forming_multiply_adds() for inner in kernels),
        ranks=low_ranks[0].ranks if low_ranks else None,
        error=max((inner.error for inner in low_ranks), default=None),
        dropped=tuple(sorted(_penalties(layer) - _penalties(plain))),
    )


def _penalties(layer):
    """Return which regularizers and constraints work on the weights and outputs of a layer."""
    architecture = {id(variable) for variable in architecture_variables(layer)}
    found = set()
    for weight in layer.trainable_variables:
        if id(weight) not in architecture:
            part = "bias" if weight.name == "bias" else "kernel"
            for kind in ("regularizer", "constraint"):
                if getattr(weight, kind) is not None:
                    found.add(f"{part}_{kind}")
    if any(inner.activity_regularizer is not None for inner in flatten_layers(layer)):
        found.add("activity_regularizer")
    return found


def _count(layer, shape):
    """Return the multiply–adds of a layer, `None` where they are unknown."""
    try:
        return None if shape is None else multiply_adds(layer, shape)
    except ValueError:  # a part that no call has built
        return None


def _bytes(layer):
    """Return the bytes of the weights of a layer."""
    return sum(tensor_bytes(weight.shape, weight.dtype) for weight in layer.weights)
