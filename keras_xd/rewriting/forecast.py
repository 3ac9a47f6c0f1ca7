"""Cost of a rewritten model, searched and finalized, before anything is built."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import keras

from keras_xd.compressing.compression import compress
from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.searchable import named_layers
from keras_xd.core.tables import aligned, pair
from keras_xd.core.type_aliases import Radix, Selection
from keras_xd.graph.cost import complexity, uncounted_layers
from keras_xd.graph.size_counts import LayerChange, tensor_bytes, weight_bytes
from keras_xd.layers.weight_normalization import without_weight_normalization
from keras_xd.layers.xd.finalized_sizes import KEEPS
from keras_xd.rewriting.comparison import layer_multiply_adds
from keras_xd.rewriting.rewriter import planned


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerForecast(LayerChange):
    """One layer in a `Forecast`; `…_after` is of the layer that would take its place.

    Attributes:
        name, kind_before, kind_after, left_because, parameters_before, parameters_after,
            multiply_adds_before, multiply_adds_after, memory_before, memory_after: as in
            `LayerComparison`; `None` where a size is unknown.
        parameters_finalized, multiply_adds_finalized, memory_finalized: of the layer that
            `finalize` would make of that one; `None` where it depends on what the search finds.
        form: the form of that layer, `"spectrum"` or `"kernel"`; `None` if it has none.
    """

    memory_before: int
    memory_after: int
    parameters_finalized: int | None = None
    multiply_adds_finalized: int | None = None
    memory_finalized: int | None = None
    form: str | None = None


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
        parameters_finalized, multiply_adds_finalized, memory_finalized: those of the whole model
            after `finalize`, `None` if those of a row are.
    """

    rows: tuple[LayerForecast, ...]
    parameters_before: int
    parameters_after: int
    multiply_adds_before: int | None
    multiply_adds_after: int | None
    memory_before: int
    memory_after: int
    uncounted: tuple[str, ...] = ()
    parameters_finalized: int | None = None
    multiply_adds_finalized: int | None = None
    memory_finalized: int | None = None

    def __str__(self) -> str:
        table = [("layer", "kind", "parameters", "multiply–adds", "bytes")]
        for row in self.rows:
            kinds = dict.fromkeys((row.kind_before, row.kind_after))  # once if they are the same
            kind = " → ".join(kinds)
            if row.form is not None:
                kind += f" → {row.form}"
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
    form: str = "auto",
    target: Mapping[str, float] | None = None,
    **layer_options: Any,
) -> Forecast:
    """Return what `rewrite` with the same arguments would make of a model, without building it.

    Nothing but sizes is computed: no weight of the new model is made, so that the cost of a search
    on a large model is known in seconds and before any memory is asked for.

    With `target` it is what `compress` would leave of a trained model, layer by layer, by the norms
    of its filters, as no samples are given; for that a smaller copy is made. With samples
    `compress(…, epochs=0)` tells it.

    Args:
        model: a built model, as in `rewrite`.
        to, operations, depth, radix, padding, only, skip, **layer_options: as in `rewrite`.
        form: `"spectrum"` or `"kernel"`, for the sizes of the finalized model, or `"auto"`: by
            layer the smaller one, as `finalize` measures times only of what has been searched. It
            takes another form only where that is faster, at most twice as large unless this one
            takes more than 1.5 times as long.
        target: a share of the multiply–adds or parameters, as in `compress`, given alone.

    Returns:
        A `Forecast`, with the sizes of the model, of the search space and of what `finalize` would
        make of it side by side; with a `target`, of the model and of what is left of it.

    Raises:
        ValueError: as `rewrite` or `compress`; for a `target` that is not given alone, or that is a
            latency, for which `compress` has an example input.

    Warns:
        UserWarning: as `keras_xd.complexity`, for layers without a count.

    Example:

    >>> import keras
    >>> import keras_xd
    >>> model = keras.Sequential(
    ...     [keras.Input((4, 4, 1)), keras.layers.Conv2D(1, 3, name="conv")]
    ... )
    >>> forecast = keras_xd.forecast(model)
    >>> forecast.parameters_after == keras_xd.rewrite(model).count_params()
    True
    >>> print(forecast)  # backbone → search space → finalized
    layer        kind                          parameters      multiply–adds   bytes
    -----------  ----------------------------  --------------  --------------  ----------------
    conv         Conv2D → XDConv2D → spectrum  10 → 235 → 177  36 → 608 → 608  56 → 1,084 → 724
    whole model                                10 → 235 → 177  36 → 608 → 608  56 → 1,084 → 724
    """
    validation.one_of(form, KEEPS, "form")
    given = {"operations": operations, "depth": depth, "radix": radix, "padding": padding}
    options = {**layer_options, **given}
    if target is not None:
        others = {"to": to, "only": only, "skip": skip, "form": form, **options}
        return _of_target(model, target, others)
    model = without_weight_normalization(model)
    _, plan = planned(model, to, options, only, skip, no_forecast=True)
    found, chosen = plan.found, plan.chosen
    new_layers = {candidate.path: new for candidate, new in chosen}
    rows = [_row(candidate, new_layers.get(candidate.path), form) for candidate in found]
    before = {
        "parameters": model.count_params(),
        "multiply_adds": _known_complexity(model),
        "memory": weight_bytes(model)
        + sum(
            row.memory_before - weight_bytes(c.layer) for row, c in zip(rows, found, strict=True)
        ),
    }
    changed = [row for row in rows if row.left_because is None]
    after = {name: _total(name, value, changed, "after") for name, value in before.items()}
    for count, size in _shared_parameters(chosen):
        after["parameters"] -= count
        after["memory"] -= size
    finalized = {name: _total(name, value, rows, "finalized") for name, value in before.items()}
    return Forecast(
        tuple(rows),
        **{f"{name}_finalized": value for name, value in finalized.items()},
        **{f"{name}_before": value for name, value in before.items()},
        **{f"{name}_after": value for name, value in after.items()},
        uncounted=tuple(uncounted_layers(model)),
    )


def _of_target(model, target, others):
    """Return the forecast of what `compress` leaves of a model."""
    defaults = inspect.signature(forecast).parameters
    for name, value in others.items():
        if name not in defaults or value != defaults[name].default:
            raise ValueError(
                "`target` tells what is cut of a model that is not rewritten: give nothing beside "
                f"it. Received: target={dict(target)!r}, {name}={value!r}"
            )
    result = compress(model, target=target, importance="magnitude", epochs=0, verbose=0)
    names = {field.name for field in dataclasses.fields(LayerForecast)}
    cuts = [vars(row) for row in result.report.rows]
    rows = [LayerForecast(**{k: v for k, v in cut.items() if k in names}) for cut in cuts]
    counts: dict[str, Any] = {}
    for when, one in (("before", model), ("after", result.model)):
        counts[f"parameters_{when}"] = one.count_params()
        counts[f"multiply_adds_{when}"] = _known_complexity(one)
        layers, held = dict(named_layers(one)), weight_bytes(one)
        for row in rows:
            held += getattr(row, f"memory_{when}") - weight_bytes(layers.get(row.name))
        counts[f"memory_{when}"] = held
    return Forecast(tuple(rows), **counts, uncounted=tuple(uncounted_layers(model)))


def _total(name, before, rows, when):
    """Return a count of the whole model with the new layers of the rows, `None` if unknown."""
    pairs = [(getattr(row, f"{name}_before"), getattr(row, f"{name}_{when}")) for row in rows]
    if before is None or any(None in pair for pair in pairs):
        return None
    return before + sum(new - own for own, new in pairs)


def _row(candidate, new, form):
    """Return the row of a candidate and the new layer in its place, if there is one."""
    layer, shapes = candidate.layer, [candidate.shape] * candidate.calls
    kind = "identity" if layer is None else type(layer).__name__
    parameters = 0 if layer is None else layer.count_params()
    multiply_adds = 0 if layer is None else layer_multiply_adds(layer, shapes)
    memory = weight_bytes(layer)
    if layer is not None:
        for shape in shapes:
            output = layer.compute_output_shape(shape)[1:]
            memory += 0 if None in output else tensor_bytes(output, layer.compute_dtype)
    counts = {"parameters": parameters, "multiply_adds": multiply_adds, "memory": memory}
    row: dict[str, Any] = {"name": candidate.path, "kind_before": kind}
    row |= {f"{name}_before": count for name, count in counts.items()}
    if new is None:
        reason = candidate.reason or "it was not chosen"
        for when in ("after", "finalized"):
            row |= {f"{name}_{when}": count for name, count in counts.items()}
        return LayerForecast(kind_after=kind, left_because=reason, **row)
    sizes = new.forecast(candidate.shape)
    output = new.compute_output_shape(candidate.shape)[1:]
    outputs = tensor_bytes(output, new.compute_dtype) * candidate.calls
    spectrum = tensor_bytes((sizes["spectrum"],), new.compute_dtype)
    weights = tensor_bytes((sizes["parameters"],), new.variable_dtype)
    row["parameters_after"] = sizes["parameters"]
    row["multiply_adds_after"] = sizes["multiply_adds"] * candidate.calls
    row["memory_after"] = weights + outputs + spectrum
    if hasattr(new, "finalized_sizes"):
        plain = new.finalized_sizes(candidate.shape, form)
        memory = tensor_bytes((plain.parameters,), new.variable_dtype) + outputs
        row["parameters_finalized"], row["form"] = plain.parameters, plain.form
        row["multiply_adds_finalized"] = plain.multiply_adds * candidate.calls
        row["memory_finalized"] = memory + (spectrum if plain.form == "kernel" else 0)
    return LayerForecast(kind_after=type(new).__name__, **row)


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


def _known_complexity(model):
    try:
        return int(complexity(model))
    except validation.UnknownSizeError:
        return None


def _cells(counts):
    """Return the last cells of a row of the table."""
    cells = []
    for name in ("parameters", "multiply_adds", "memory"):
        numbers = [getattr(counts, f"{name}_{when}") for when in ("before", "after", "finalized")]
        cells.append(pair(*numbers[: 2 if numbers[2] is None else 3]))
    return tuple(cells)
