"""The table that compares a model with its rewritten form."""

import dataclasses
from typing import Any

import keras
import numpy as np

from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import SearchableLayer, check_finite, flatten_layers, named_layers
from keras_xd.core.tables import aligned, pair
from keras_xd.graph.cost import multiply_adds
from keras_xd.graph.replacing import every_call
from keras_xd.graph.size_counts import LayerChange, tensor_bytes, weight_bytes
from keras_xd.layers.xd.finalized import StaticKernelXD
from keras_xd.rewriting import spaces
from keras_xd.rewriting.candidates import check_model
from keras_xd.rewriting.twins import POOLING


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerComparison(LayerChange):
    """One layer in a `Comparison`; `…_after` is of the layer in its place.

    Attributes:
        name, kind_before, kind_after, left_because, parameters_before, parameters_after,
            multiply_adds_before, multiply_adds_after: as in `LayerChange`; the kind before is
            "identity" for a layer that was put into a skip connection, and multiply–adds are
            summed over the layer's calls.
        relative_error: the largest difference of the two layers' outputs for the same inputs
            (those that the original layer gets), divided by the largest output. For a layer that
            is called several times, the largest of these.
        memory_before, memory_after: bytes of the weights, of the outputs for one sample, summed
            over the layer's calls, and, for an XD-operation that is searched or keeps its kernel,
            of the kernel's spectrum `L w` (two numbers for each frequency, input channel of a
            group, and filter).
    """

    relative_error: float
    memory_before: int
    memory_after: int


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What `compare` returns; `str()` of it is a table.

    Attributes:
        rows: a `LayerComparison` for each convolution of the original, or other layer that the
            search space could replace; where a pooling was rewritten, for each pooling too; and
            for each layer in a skip connection.
        output_error: the relative error of the whole model's outputs.
    """

    rows: tuple[LayerComparison, ...]
    output_error: float

    @property
    def worst(self) -> LayerComparison | None:
        """The `LayerComparison` of the largest relative error, `None` without rows."""
        return max(self.rows, key=lambda row: row.relative_error, default=None)

    def __str__(self) -> str:
        table = [("layer", "kind", "relative error", "parameters", "multiply–adds", "bytes")]
        for row in self.rows:
            changed = row.left_because is None
            table.append(
                (
                    row.name,
                    f"{row.kind_before} → {row.kind_after}" if changed else row.kind_before,
                    f"{row.relative_error:.1e}" if changed else f"left: {row.left_because}",
                    pair(row.parameters_before, row.parameters_after),
                    pair(row.multiply_adds_before, row.multiply_adds_after),
                    pair(row.memory_before, row.memory_after),
                )
            )
        lines = aligned(table)
        return "\n".join(
            [*lines, f"Relative error of the model's outputs: {self.output_error:.1e}"]
        )


@check_types
def compare(model: keras.Model, rewritten: keras.Model, inputs: Any) -> Comparison:
    """Compare a model with its rewritten form, layer by layer.

    Each layer in place of another is run on the very inputs that the other gets in `model`, in
    nested and shared layers too, so that errors do not add up along the network. A layer that was
    put into a skip connection is compared with the identity. This measures rounding right after
    `rewrite`, and how far a search has gone afterwards. A finalized model can be compared likewise,
    snapped layers too as long as it has its `report`.

    Args:
        model: the original model.
        rewritten: a model from `rewrite` on `model`, or a `SearchModel` of it.
        inputs: an input batch, in the structure of the model's inputs.

    Returns:
        A `Comparison`; its `worst` is the layer of the largest error.

    Example:

    >>> import keras, numpy as np
    >>> import keras_xd
    >>> model = keras.Sequential(
    ...     [keras.Input((8, 8, 1)), keras.layers.Conv2D(2, 3, name="conv")]
    ... )
    >>> images = np.random.default_rng(0).normal(size=(4, 8, 8, 1))
    >>> comparison = keras_xd.compare(model, keras_xd.rewrite(model), images)
    >>> comparison.rows[0].kind_after, comparison.worst.relative_error < 1e-5
    ('XDConv2D', True)
    """
    check_model(model)
    check_finite(model)
    check_finite(rewritten)
    inputs = keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)
    counterparts = dict(named_layers(rewritten))
    _check_order(model, rewritten, counterparts)
    known = spaces.SEARCH_SPACES.values()
    found = [spaces.space_of(layer, known) for layer in counterparts.values()]
    space = next((space for space in known if space in found), spaces.XD)
    candidates = space.candidates(model)

    def wanted(layer):
        return space.operation_of(layer) is not None

    for candidate in candidates:
        if candidate.skip is None and candidate.path not in counterparts:
            raise ValueError(
                "`rewritten` must be made from `model`, with layers of the same names. Received: "
                f"rewritten='{rewritten.name}', which has no layer '{candidate.path}'"
            )
    poolings = any(
        c.operation == "pooling" and type(c.layer) is not type(counterparts[c.path])
        for c in candidates
    )
    calls = list(every_call(model, wanted, inputs, build_time=space.build_time))
    snapped = getattr(getattr(rewritten, "report", None), "snapped", ())  # that of `finalize`
    rows = []
    for candidate in candidates:
        path, layer = candidate.path, candidate.layer
        if path not in counterparts or (candidate.operation == "pooling" and not poolings):
            continue
        if candidate.skip is None:
            called = [call.argument for call in calls if call.operation is layer]
        else:
            layer, skip = keras.layers.Identity(), candidate.skip
            additions = [call for call in calls if call.key == skip.call.key]
            called = [call.flat_arguments[skip.place] for call in additions]
        reason = candidate.reason
        if type(layer) is type(counterparts[path]) and path not in snapped:
            reason = reason or "it was not chosen"
        rows.append(_layer_comparison(path, layer, counterparts[path], reason, called))
    outputs = [keras.tree.flatten(m(inputs, training=False)) for m in (model, rewritten)]
    errors = [_relative_error(*pair) for pair in zip(*outputs, strict=True)]
    return Comparison(tuple(rows), max(errors))


def _check_order(model, rewritten, counterparts):
    """Raise `ValueError` if `model` has searchable layers where `rewritten` has others."""
    swapped = [
        path
        for path, layer in named_layers(model)
        if isinstance(layer, SearchableLayer)
        and not isinstance(counterparts.get(path), SearchableLayer)
    ]
    if swapped:
        raise ValueError(
            "`model` must be the original and `rewritten` what was made from it: give the search "
            f"space second. Received: model='{model.name}', whose layers {swapped} are searchable, "
            f"and rewritten='{rewritten.name}', where they are not"
        )


def _layer_comparison(path, layer, other, reason, arguments):
    identity = isinstance(layer, keras.layers.Identity)
    if type(layer) is not type(other):
        reason = None
    outputs = [(layer(argument), other(argument)) for argument in arguments]
    errors = [_relative_error(*both) for both in outputs]
    shapes = [(None, *argument.shape[1:]) for argument in arguments]
    counts = [layer_multiply_adds(which, shapes) for which in (layer, other)]
    memory = [
        weight_bytes(which)
        + sum(tensor_bytes(both[index].shape[1:], both[index].dtype) for both in outputs)
        for index, which in enumerate((layer, other))
    ]
    if hasattr(other, "forecast") and arguments:
        spectrum = other.forecast(arguments[0].shape)["spectrum"]
        memory[1] += tensor_bytes((spectrum,), other.compute_dtype)
    for inner in flatten_layers(other):
        if isinstance(inner, StaticKernelXD):
            memory[1] += tensor_bytes((inner.formed_numbers,), inner.compute_dtype)
    return LayerComparison(
        name=path,
        kind_before="identity" if identity else type(layer).__name__,
        kind_after=type(other).__name__,
        left_because=reason,
        relative_error=max(errors, default=0.0),
        parameters_before=layer.count_params(),
        parameters_after=other.count_params(),
        multiply_adds_before=counts[0],
        multiply_adds_after=counts[1],
        memory_before=0 if identity else memory[0],
        memory_after=memory[1],
    )


def layer_multiply_adds(layer, shapes):
    """Return the multiply–adds of a layer called at these shapes, `None` if unknown."""
    if not shapes:
        return None
    if isinstance(layer, (*POOLING, keras.layers.Identity)):
        return 0
    counts = [multiply_adds(layer, shape) for shape in shapes]
    return None if None in counts else int(sum(counts))


def _relative_error(expected, actual):
    """Return the largest difference divided by the largest value expected."""
    expected, actual = (
        keras.ops.convert_to_numpy(keras.ops.cast(value, "float32")) for value in (expected, actual)
    )
    difference = float(np.max(np.abs(actual - expected), initial=0.0))
    return difference / (float(np.max(np.abs(expected), initial=0.0)) or 1.0)
