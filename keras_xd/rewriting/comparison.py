"""The table that compares a model with its rewritten form."""

import collections
import dataclasses
from typing import Any

import keras
import numpy as np

from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import SearchableLayer, check_finite, flatten_layers, named_layers
from keras_xd.core.tables import aligned
from keras_xd.graph import skips
from keras_xd.graph.cost import multiply_adds
from keras_xd.graph.replacing import every_call
from keras_xd.graph.size_counts import tensor_bytes, weight_bytes
from keras_xd.layers.xd.finalized import StaticKernelXD
from keras_xd.rewriting import spaces
from keras_xd.rewriting.candidates import check_model
from keras_xd.rewriting.twins import POOLING


@dataclasses.dataclass(frozen=True)
class LayerComparison:
    """One layer in a `Comparison`; `…_after` is of the layer in its place.

    Attributes:
        name: the layer's path: its name, after those of the nested models around it.
        kind_before, kind_after: names of the classes; before is "identity" for a layer that was
            put into a skip connection.
        left_because: why it was left as it is, or `None` where another layer took its place.
        relative_error: the largest difference of the two layers' outputs for the same inputs
            (those that the original layer gets), divided by the largest output. For a layer that
            is called several times, the largest of these.
        parameters_before, parameters_after: number of weights.
        multiply_adds_before, multiply_adds_after: of one sample, summed over the layer's calls;
            `None` if unknown.
        memory_before, memory_after: bytes of the weights, of the outputs for one sample, summed
            over the layer's calls, and, for an XD-operation that is searched or keeps its kernel,
            of the kernel's spectrum `L w` (two numbers for each frequency, input channel of a
            group, and filter).
    """

    name: str
    kind_before: str
    kind_after: str
    left_because: str | None
    relative_error: float
    parameters_before: int
    parameters_after: int
    multiply_adds_before: int | None
    multiply_adds_after: int | None
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

    Raises:
        ValueError: if `rewritten` lacks a layer of `model`, or weights are NaN or infinite.

    Example:

    >>> import keras, numpy as np
    >>> import keras_xd
    >>> model = keras.Sequential([
    ...     keras.Input((8, 8, 1)), keras.layers.Conv2D(2, 3, name="conv")
    ... ])
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
    skipped = {
        c.path: keras.layers.Identity(name=c.skip.name)
        for c in candidates
        if c.skip is not None and c.path in counterparts
    }
    insert = skips.inserting([(c.skip, skipped[c.path]) for c in candidates if c.path in skipped])
    arguments = collections.defaultdict(list)

    def wanted(layer):
        return space.operation_of(layer) is not None

    for layer, argument in every_call(model, wanted, inputs, insert, build_time=space.build_time):
        arguments[id(layer)].append(argument)
    snapped = getattr(getattr(rewritten, "report", None), "snapped", ())  # that of `finalize`
    rows = []
    for candidate in candidates:
        path, layer = candidate.path, candidate.layer or skipped.get(candidate.path)
        if layer is None or (candidate.operation == "pooling" and not poolings):
            continue
        called = arguments[id(layer)]
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


def pair(before, after, finalized=None):
    """Return the text of a number before and after, and finalized where that is known."""
    numbers = (before, after) if finalized is None else (before, after, finalized)
    return " → ".join("?" if value is None else f"{value:,}" for value in numbers)


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
        path,
        "identity" if identity else type(layer).__name__,
        type(other).__name__,
        reason,
        max(errors, default=0.0),
        layer.count_params(),
        other.count_params(),
        counts[0],
        counts[1],
        0 if identity else memory[0],
        memory[1],
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
