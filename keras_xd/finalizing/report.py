"""The reports of `finalize` and of `search`."""

import dataclasses
from typing import Any

from keras_xd.core.tables import aligned, pair
from keras_xd.graph.size_counts import LayerChange
from keras_xd.layers.xd.finalized_sizes import LOW_RANK, FormCost


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerReport(LayerChange):
    """One layer in a `FinalizingReport`; `…_after` is of the layer in its place.

    Attributes:
        name, kind_before, kind_after, parameters_before, parameters_after, multiply_adds_before,
            multiply_adds_after: as in `LayerChange`; a class is `"removed"` where nothing is left,
            and multiply–adds are at the sizes that the layer was built for.
        form: `"spectrum"`, `"frequencies"` (the spectrum where it carries something), `"kernel"` or
            `"low_rank"` of an XD-operation; `"snapped"` where a plain layer took its place;
            `"trimmed"` where masks have cut a layer; `"finalized"` for every other kind of search.
        operation: what the plain layer computes or, where the operation stays and snapping was
            asked for, the nearest one; else `None`.
        distance: the relative distance of the two linear maps, likewise.
        left_because: why an operation was not snapped, or why `form` did not apply; or `None`.
        bytes_before, bytes_after: bytes of the weights.
        forming: multiply–adds of forming the spectrum from a kernel, once a call.
        candidate: what a mixture has become, by its name; `None` for every other layer.
        ranks: of the form `"low_rank"` the number of matrices of each axis, of `"frequencies"`
            that of the frequencies (of a separable operation those of the depthwise one); `None` of
            every other.
        error: of these forms the relative error of the linear map (of two operations the larger
            one).
        costs: parameters and milliseconds, for 32 samples, of each exact form of which
            `form="auto"` chose (of a separable operation those of the depthwise one).
        dropped: the regularizers and constraints that the plain layer has not, such as
            `("kernel_regularizer",)` where no kernel is left.
    """

    form: str
    bytes_before: int
    bytes_after: int
    operation: str | None = None
    distance: float | None = None
    forming: int = 0
    candidate: str | None = None
    ranks: tuple[int, ...] | None = None
    error: float | None = None
    costs: tuple[FormCost, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class FinalizingReport:
    """What `finalize` leaves as `report` at its result; `str()` of it is a table."""

    rows: tuple[LayerReport, ...]

    @property
    def snapped(self) -> tuple[str, ...]:
        """The names of the layers that became plain ones."""
        return tuple(row.name for row in self.rows if row.form == "snapped")

    def __str__(self) -> str:
        table = [("layer", "kind", "form", "distance", "parameters", "multiply–adds", "bytes")]
        for row in self.rows:
            distance = "" if row.operation is None else f"{row.distance:.2g} from {row.operation}"
            if row.left_because is not None:
                distance = f"{distance}; {row.left_because}" if distance else row.left_because
            kind = row.kind_after + (f" ({row.candidate})" if row.candidate else "")
            multiply_adds = pair(row.multiply_adds_before, row.multiply_adds_after)
            if row.forming:
                multiply_adds += f" + {row.forming:,} a call"
            form = row.form
            if row.ranks is not None:
                word = "rank" if row.form == LOW_RANK else row.form
                form = f"{word} {'×'.join(map(str, row.ranks))}, error {row.error:.2g}"
            table.append(
                (
                    row.name,
                    f"{row.kind_before} → {kind}",
                    form,
                    distance,
                    pair(row.parameters_before, row.parameters_after),
                    multiply_adds,
                    pair(row.bytes_before, row.bytes_after),
                )
            )
        dropped = sorted({name for row in self.rows for name in row.dropped})
        lines = [
            f"without {name}: " + ", ".join(row.name for row in self.rows if name in row.dropped)
            for name in dropped
        ]
        costs = [("exact form", "parameters", "ms, 32 samples", "layers")]
        for all_forms in dict.fromkeys(row.costs for row in self.rows):
            names = ", ".join(row.name for row in self.rows if row.costs == all_forms)
            for cost in all_forms:
                numbers = f"{cost.parameters:,}", f"{cost.milliseconds:.2f}"
                costs.append((cost.form, *numbers, names))
        forms = ["", *aligned(costs)] if len(costs) > 1 else []
        return "\n".join([*aligned(table), *lines, *forms])


# Times as many parameters as the backbone, from which on a report says so.
GROWTH = 4


@dataclasses.dataclass(frozen=True)
class SearchReportRow:
    """One model in a `SearchReport`: `keras_xd.search` says what it has."""

    model: str
    parameters: int
    multiply_adds: int | None
    metrics: dict[str, float]
    standard_errors: dict[str, float] = dataclasses.field(default_factory=dict)
    epochs: int | None = None
    seeds: int | None = None
    seconds: float | None = None
    milliseconds: float | None = None
    failed: str | None = None


@dataclasses.dataclass(frozen=True)
class SearchReport:
    """What a search in one call came to; `str()` of it is a table. See `keras_xd.search`."""

    rows: tuple[SearchReportRow, ...]
    kept: str | None = None
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return `{"rows": [{…}, …], "kept": …, "reason": …}`, of plain Python values."""
        return dataclasses.asdict(self) | {"rows": [dataclasses.asdict(r) for r in self.rows]}

    def __str__(self) -> str:
        names = list(dict.fromkeys(name for row in self.rows for name in row.metrics))
        head = ("model", "parameters", "multiply–adds", *(f"val_{name}" for name in names))
        own = ("epochs", "seeds", "seconds", "milliseconds")
        more = tuple(name for name in own if any(getattr(row, name) for row in self.rows))
        table = [(*head, *more)]
        for row in self.rows:
            counts = ["?" if c is None else f"{c:,}" for c in (row.parameters, row.multiply_adds)]
            values = [_with_error(row, name) for name in names]
            others = [_short(getattr(row, name)) for name in more]
            table.append((row.model, *counts, *values, *others))
        failed = [f"{row.model} failed: {row.failed}" for row in self.rows if row.failed]
        return "\n".join([*aligned(table), *failed, *filter(None, (self.reason, self._growth()))])

    def _growth(self):
        """Return a sentence on a finalized model that is much larger than the backbone."""
        first, last = self.rows[0], self.rows[-1]
        if self.kept is not None:
            last = next(row for row in self.rows if row.model == self.kept)
        factor = last.parameters / max(1, first.parameters)
        if last.model == "search" or factor <= GROWTH:
            return None
        return (
            f"The finalized model has {factor:.1f} times the parameters of the backbone; "
            'finalize_options={"form": "low_rank"} approximates XD-operations by fewer.'
        )


def _short(value):
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def _with_error(row, name):
    """Return the text of a metric and its standard error."""
    value, error = row.metrics.get(name), row.standard_errors.get(name)
    text = "" if value is None else f"{value:.4g}"
    return text if error is None else f"{text} ± {error:.2g}"
