"""The table that compares a model with its rewritten form."""

import dataclasses
import math
import re

import keras
import numpy as np

from keras_xd import layers
from keras_xd.layers import cloning
from keras_xd.layers.complexity import multiply_adds
from keras_xd.layers.searchable import is_graph, named_layers
from keras_xd.rewriting.convolutions import ANY_CONVOLUTION, check_graph, convolutions


@dataclasses.dataclass(frozen=True)
class LayerComparison:
    """One convolution in a `Comparison`; `…_after` is of the layer in its place.

    Attributes:
        name: the layer's path: its name, after those of the nested models around it.
        kind_before, kind_after: names of the classes.
        left_because: why it was left as it is, or `None` where another layer took its place.
        relative_error: the largest difference of the two layers' outputs for the same inputs
            (those that the original layer gets), divided by the largest output. For a layer that
            is called several times, the largest of these.
        parameters_before, parameters_after: number of weights.
        multiply_adds_before, multiply_adds_after: of one sample, summed over the layer's calls;
            `None` if unknown.
        memory_before, memory_after: bytes of the weights, of the outputs for one sample, summed
            over the layer's calls, and, for an XD-operation, of the kernel's spectrum `L w` (two
            numbers for each frequency, input channel of a group, and filter).
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
        rows: a `LayerComparison` for each convolution of the original, in the order of the graph.
        output_error: the relative error of the whole model's outputs.
    """

    rows: tuple[LayerComparison, ...]
    output_error: float

    def to_dict(self):
        """Return `{"rows": [{…}, …], "output_error": …}`, of plain Python values."""
        rows = [dataclasses.asdict(row) for row in self.rows]
        return {"rows": rows, "output_error": self.output_error}

    def __str__(self):
        def pair(before, after):
            return " → ".join("?" if value is None else f"{value:,}" for value in (before, after))

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
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in table
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join(
            [*lines, f"Relative error of the model's outputs: {self.output_error:.1e}"]
        )


def compare(model, rewritten, inputs):
    """Compare a model with its rewritten form, convolution by convolution.

    Each layer in place of a convolution is run on the very inputs that the convolution gets in
    `model`, in nested and shared layers too, so that errors do not add up along the network. This
    measures rounding right after `rewrite`, and how far a search has gone afterwards. A finalized
    model can be compared likewise.

    Args:
        model: the original model.
        rewritten: a model from `rewrite` on `model`, or a `SearchModel` of it.
        inputs: an input batch, in the structure of the model's inputs.

    Returns:
        A `Comparison`.

    Raises:
        ValueError: if `rewritten` lacks a layer of `model`.

    Example:

    >>> import keras, numpy as np
    >>> import keras_xd
    >>> model = keras.Sequential([
    ...     keras.Input((8, 8, 1)), keras.layers.Conv2D(2, 3, name="conv")
    ... ])
    >>> images = np.random.default_rng(0).normal(size=(4, 8, 8, 1))
    >>> comparison = keras_xd.compare(model, keras_xd.rewrite(model), images)
    >>> comparison.rows[0].kind_after, comparison.rows[0].relative_error < 1e-5
    ('XDConv2D', True)
    """
    check_graph(model)
    inputs = keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)
    arguments = {}

    def note_calls(graph, graph_inputs):
        for layer, argument in cloning.layer_calls(graph, inputs=graph_inputs):
            if is_graph(layer):
                note_calls(layer, argument)
            elif isinstance(layer, ANY_CONVOLUTION):
                arguments.setdefault(id(layer), []).append(argument)

    note_calls(model, inputs)
    counterparts = dict(named_layers(rewritten))
    rows = []
    for path, layer, _, reason in convolutions(model):
        if path not in counterparts:
            raise ValueError(
                "`rewritten` must be made from `model`, with layers of the same names. Received: "
                f"rewritten='{rewritten.name}', which has no layer '{path}'"
            )
        other = counterparts[path]
        rows.append(_layer_comparison(path, layer, other, reason, arguments.get(id(layer), [])))
    outputs = [keras.tree.flatten(m(inputs, training=False)) for m in (model, rewritten)]
    errors = [_relative_error(*pair) for pair in zip(*outputs, strict=True)]
    return Comparison(tuple(rows), max(errors))


def _layer_comparison(path, layer, other, reason, arguments):
    if type(layer) is type(other):
        reason = reason or "it was not chosen"
    else:
        reason = None
    outputs = [(layer(argument), other(argument)) for argument in arguments]
    errors = [_relative_error(*pair) for pair in outputs]
    counts = [
        [multiply_adds(which, (None, *argument.shape[1:])) for argument in arguments]
        for which in (layer, other)
    ]
    counts = [int(sum(count)) if count and None not in count else None for count in counts]
    memory = [
        sum(_bytes(weight.shape, weight.dtype) for weight in which.weights)
        + sum(_bytes(pair[index].shape[1:], pair[index].dtype) for pair in outputs)
        for index, which in enumerate((layer, other))
    ]
    if isinstance(other, layers.XDConv):
        frequencies = math.prod(plan.n for plan in other.plans)
        memory[1] += _bytes((frequencies, 2, *other.kernel.shape[-2:]), other.compute_dtype)
    return LayerComparison(
        path,
        type(layer).__name__,
        type(other).__name__,
        reason,
        max(errors, default=0.0),
        layer.count_params(),
        other.count_params(),
        *counts,
        *memory,
    )


def _relative_error(expected, actual):
    """Return the largest difference divided by the largest value expected."""
    expected, actual = (
        keras.ops.convert_to_numpy(keras.ops.cast(value, "float32")) for value in (expected, actual)
    )
    difference = float(np.max(np.abs(actual - expected), initial=0.0))
    return difference / (float(np.max(np.abs(expected), initial=0.0)) or 1.0)


def _bytes(shape, dtype):
    """Return the memory of a tensor."""
    bits = re.search(r"\d+", keras.backend.standardize_dtype(dtype)).group()
    return math.prod(shape) * int(bits) // 8
