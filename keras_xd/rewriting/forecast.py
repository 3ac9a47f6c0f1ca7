"""What a rewritten model will cost, before anything is built."""

import dataclasses
from typing import Any

import keras

from keras_xd.core.argument_types import check_types
from keras_xd.core.tables import aligned
from keras_xd.core.type_aliases import Radix, Selection
from keras_xd.graph.cost import complexity, uncounted_layers
from keras_xd.rewriting.comparison import layer_multiply_adds, pair, tensor_bytes
from keras_xd.rewriting.rewriter import plan


@dataclasses.dataclass(frozen=True)
class LayerForecast:
    """One layer in a `Forecast`; `…_after` is of the layer that would take its place.

    Attributes:
        name, kind_before, kind_after, left_because, parameters_before, parameters_after,
            multiply_adds_before, multiply_adds_after, memory_before, memory_after: as in
            `LayerComparison`; `None` where a size is unknown.
    """

    name: str
    kind_before: str
    kind_after: str
    left_because: str | None
    parameters_before: int
    parameters_after: int
    multiply_adds_before: int | None
    multiply_adds_after: int | None
    memory_before: int
    memory_after: int


@dataclasses.dataclass(frozen=True)
class Forecast:
    """What `forecast` returns; `str()` of it is a table.

    Attributes:
        rows: a `LayerForecast` for each layer of the kinds to rewrite.
        parameters_before, parameters_after: numbers of weights of the whole model; what layers
            share counts once.
        multiply_adds_before, multiply_adds_after: those of the whole model for one sample, as by
            `keras_xd.complexity`; `None` if a size is unknown.
        memory_before, memory_after: bytes of all weights, and of the outputs and spectra in the
            rows.
        uncounted: paths of the layers that the multiply–adds leave out, because no formula is known
            for them.
    """

    rows: tuple[LayerForecast, ...]
    parameters_before: int
    parameters_after: int
    multiply_adds_before: int | None
    multiply_adds_after: int | None
    memory_before: int
    memory_after: int
    uncounted: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as plain Python values, `rows` as a list of dictionaries."""
        return {**dataclasses.asdict(self), "rows": [dataclasses.asdict(row) for row in self.rows]}

    def __str__(self) -> str:
        table = [("layer", "kind", "parameters", "multiply–adds", "bytes")]
        for row in self.rows:
            kind = f"{row.kind_before} → {row.kind_after}"
            if row.left_because is not None:
                kind = f"{row.kind_before}, left: {row.left_because}"
            table.append((row.name, kind, *_cells(row)))
        table.append(("whole model", "", *_cells(self)))
        lines = aligned(table)
        if self.uncounted:
            lines.append(f"Multiply–adds without those of: {', '.join(self.uncounted)}")
        return "\n".join(lines)


@check_types
def forecast(
    model: keras.Model,
    to: str = "xd",
    *,
    operations: str | tuple[str, ...] = ("convolution",),
    depth: int | tuple[int, int, int] | None = None,
    radix: Radix = None,
    padding: str = "exact",
    only: Selection = None,
    skip: Selection = None,
    **layer_options: Any,
) -> Forecast:
    """Return what `rewrite` with the same arguments would make of a model, without building it.

    Nothing but sizes is computed: no weight of the new model is made, so that the cost of a search
    on a large model is known in seconds and before any memory is asked for.

    Args:
        model: a built model, as in `rewrite`.
        to, operations, depth, radix, padding, only, skip, **layer_options: as in `rewrite`.

    Returns:
        A `Forecast`.

    Raises:
        ValueError: as `rewrite`.

    Warns:
        UserWarning: as `keras_xd.complexity`, for layers without a count.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(2, 3, name="conv")])
    >>> forecast = keras_xd.forecast(model, depth=3)
    >>> forecast.parameters_after == keras_xd.rewrite(model, depth=3).count_params()
    True
    >>> print(forecast)
    layer        kind               parameters  multiply–adds  bytes
    -----------  -----------------  ----------  -------------  -----------
    conv         Conv2D → XDConv2D  20 → 1,748  648 → 7,808    368 → 8,304
    whole model                     20 → 1,748  648 → 7,808    368 → 8,304
    """
    options = {"depth": depth, "radix": radix, **layer_options}
    found, chosen = plan(model, to, operations, options, padding, only, skip)
    new_layers = {candidate.path: new for candidate, new in chosen}
    rows = [_row(candidate, new_layers.get(candidate.path)) for candidate in found]
    before = {
        "parameters": model.count_params(),
        "multiply_adds": _known_complexity(model),
        "memory": sum(tensor_bytes(v.shape, v.dtype) for v in model.weights)
        + sum(
            row.memory_before - _weight_bytes(c.layer) for row, c in zip(rows, found, strict=True)
        ),
    }
    shared = _shared_parameters(chosen)
    after = {
        "parameters": before["parameters"]
        + sum(row.parameters_after - row.parameters_before for row in rows)
        - sum(count for count, _ in shared),
        "multiply_adds": before["multiply_adds"],
        "memory": before["memory"]
        + sum(row.memory_after - row.memory_before for row in rows)
        - sum(size for _, size in shared),
    }
    if before["multiply_adds"] is not None:
        changed = [row for row in rows if row.left_because is None]
        after["multiply_adds"] += sum(
            row.multiply_adds_after - row.multiply_adds_before for row in changed
        )
    return Forecast(
        tuple(rows),
        **{f"{name}_before": value for name, value in before.items()},
        **{f"{name}_after": value for name, value in after.items()},
        uncounted=tuple(uncounted_layers(model)),
    )


def _row(candidate, new):
    """Return the row of a candidate and the new layer in its place, if there is one."""
    layer, shapes = candidate.layer, [candidate.shape] * candidate.calls
    kind = "identity" if layer is None else type(layer).__name__
    parameters = 0 if layer is None else layer.count_params()
    multiply_adds = 0 if layer is None else layer_multiply_adds(layer, shapes)
    memory = _weight_bytes(layer)
    if layer is not None:
        for shape in shapes:
            output = layer.compute_output_shape(shape)[1:]
            memory += 0 if None in output else tensor_bytes(output, layer.compute_dtype)
    numbers = [parameters] * 2 + [multiply_adds] * 2 + [memory] * 2
    if new is None:
        reason = candidate.reason or "it was not chosen"
        return LayerForecast(candidate.path, kind, kind, reason, *numbers)
    sizes = new.forecast(candidate.shape)
    output = new.compute_output_shape(candidate.shape)[1:]
    numbers[1] = sizes["parameters"]
    numbers[3] = sizes["multiply_adds"] * candidate.calls
    numbers[5] = (
        tensor_bytes((sizes["parameters"],), new.variable_dtype)
        + tensor_bytes(output, new.compute_dtype) * candidate.calls
        + tensor_bytes((sizes["spectrum"],), new.compute_dtype)
    )
    return LayerForecast(candidate.path, kind, type(new).__name__, None, *numbers)


def _shared_parameters(chosen):
    """Return `(number, bytes)` of matrices that are counted again in further layers' rows."""
    seen, again = set(), []
    for candidate, new in chosen:
        operation = getattr(new, "operation", None)
        if operation is not None and id(operation) in seen:
            count = new.forecast(candidate.shape)["matrix_parameters"]
            again.append((count, tensor_bytes((count,), new.variable_dtype)))
        seen.add(id(operation))
    return again


def _weight_bytes(layer):
    weights = [] if layer is None else layer.weights
    return sum(tensor_bytes(weight.shape, weight.dtype) for weight in weights)


def _known_complexity(model):
    try:
        return int(complexity(model))
    except ValueError:  # a size is unknown
        return None


def _cells(counts):
    """Return the last cells of a row of the table."""
    return (
        pair(counts.parameters_before, counts.parameters_after),
        pair(counts.multiply_adds_before, counts.multiply_adds_after),
        pair(counts.memory_before, counts.memory_after),
    )
