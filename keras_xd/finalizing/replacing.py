"""Replacement of one searched layer, with its row of the report."""

import dataclasses

import keras

from keras_xd.core.configured import config_with_functions
from keras_xd.core.mixtures import CandidateMixture
from keras_xd.core.searchable import (
    SearchableLayer,
    architecture_variables,
    flatten_layers,
    named_layers,
    sublayers,
)
from keras_xd.core.validation import UnknownSizeError
from keras_xd.finalizing import snapping
from keras_xd.finalizing.report import LayerReport
from keras_xd.graph.cloning import from_config
from keras_xd.graph.cost import multiply_adds
from keras_xd.graph.size_counts import weight_bytes
from keras_xd.layers import StaticKernelXD, StaticLowRankXD
from keras_xd.layers.masked.base import MaskedLayer
from keras_xd.layers.xd.base import XDLayer
from keras_xd.layers.xd.distances import OPERATIONS
from keras_xd.layers.xd.finalized import StaticOperation
from keras_xd.layers.xd.finalized_sizes import FREQUENCIES, LOW_RANK

# Why an operation is of an exact form where one of low ranks was asked for.
NO_RANKS = "no ranks or frequencies within the tolerance are small and fast enough"


@dataclasses.dataclass(frozen=True)
class Replacement:
    """A layer in place of a searched one."""

    before: SearchableLayer
    after: keras.layers.Layer
    form: str
    snap: snapping.Snap = snapping.Snap()
    reason: str | None = None
    candidate: str | None = None

    def row(self, path: str) -> LayerReport:
        """Return the row of the report, once both layers are built."""
        shape = (self.before.get_build_config() or {}).get("input_shape")
        counts = [_count(layer, shape) for layer in (self.before, self.after)]
        if self.form == "snapped" and counts[1] is None:
            counts[1] = 0  # poolings and the like, by the convention of `keras_xd.complexity`
        inside = flatten_layers(self.after)
        kernels = [inner for inner in inside if isinstance(inner, StaticKernelXD)]
        static = [inner for inner in inside if isinstance(inner, StaticOperation)]
        shorter = [inner for inner in static if inner.kept]
        return _row(
            path,
            self.before,
            self.after,
            counts,
            form=self.form,
            operation=self.snap.operation,
            distance=self.snap.distance,
            left_because=self.reason,
            forming=sum(inner.forming_multiply_adds() for inner in kernels),
            candidate=self.candidate,
            ranks=shorter[0].kept if shorter else None,
            error=max(inner.error or 0.0 for inner in shorter) if shorter else None,
            costs=static[0].costs if static else (),
            dropped=tuple(sorted(_penalties(self.before) - _penalties(self.after))),
        )


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
        asked = form not in ("auto", "spectrum") or weight_dtype or snap
        kept = f"the operations in a {type(layer).__name__} keep their spectrum"
        reason = kept if inside and asked else None
        candidate = layer.largest if isinstance(layer, CandidateMixture) else None
        plain = layer.finalize()
        return Replacement(layer, plain, "finalized", reason=reason, candidate=candidate)
    found = snapping.Snap() if snap is None else snapping.snap(layer, snap)
    if found.layer is None and (form, weight_dtype) == ("auto", None):
        still = snapping.unmoved(layer)
        found = found if still.layer is None else still
    if found.layer is not None:
        return Replacement(layer, found.layer, "snapped", found)
    plain = layer.finalize(form, weight_dtype, tolerance)
    found_form, reason = _form(plain), found.reason
    if form == LOW_RANK and found_form not in (LOW_RANK, FREQUENCIES):
        reason = NO_RANKS
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
        whole, _ = from_config(layer.keras_class, config_with_functions(layer))
    counts = [_count(whole, shapes[0]), 0 if plain is None else _count(plain, shapes[1])]
    return _row(path, layer, plain, counts, form="trimmed")


def _form(plain):
    """Return the form of what an XD-operation was finalized to."""
    inside = flatten_layers(plain)
    for form, kind in ((LOW_RANK, StaticLowRankXD), ("kernel", StaticKernelXD)):
        if any(isinstance(inner, kind) for inner in inside):
            return form
    return FREQUENCIES if any(getattr(inner, "kept", None) for inner in inside) else "spectrum"


def _row(path, layer, plain, multiply_adds, **found):
    """Return the row of a layer and what took its place, `None` if nothing is left of it."""
    before, after = (None if count is None else int(count) for count in multiply_adds)
    return LayerReport(
        name=path,
        kind_before=type(layer).__name__,
        kind_after="removed" if plain is None else type(plain).__name__,
        parameters_before=layer.count_params(),
        parameters_after=0 if plain is None else plain.count_params(),
        bytes_before=weight_bytes(layer),
        bytes_after=weight_bytes(plain),
        multiply_adds_before=before,
        multiply_adds_after=after,
        **found,
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
    except UnknownSizeError:  # of a part that no call has built
        return None
