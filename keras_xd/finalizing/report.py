"""The report of `finalize`."""

import dataclasses

from keras_xd.core.tables import aligned, pair
from keras_xd.graph.size_counts import LayerChange


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerReport(LayerChange):
    """One layer in a `FinalizingReport`; `…_after` is of the layer in its place.

    Attributes:
        name, kind_before, kind_after, parameters_before, parameters_after, multiply_adds_before,
            multiply_adds_after: as in `LayerChange`; a class is `"removed"` where nothing is left,
            and multiply–adds are at the sizes that the layer was built for.
        form: `"spectrum"`, `"kernel"` or `"low_rank"` of an XD-operation; `"snapped"` where a plain
            layer took its place; `"trimmed"` where masks have cut a layer; `"finalized"` for every
            other kind of search.
        operation: what the plain layer computes or, where the operation stays, the nearest one;
            `None` unless snapping was asked for.
        distance: the relative distance of the two linear maps, likewise.
        left_because: why an operation was not snapped, or why `keep` did not apply; or `None`.
        bytes_before, bytes_after: bytes of the weights.
        forming: multiply–adds of forming the spectrum from a kernel, once a call.
        candidate: what a mixture has become, by its name; `None` for every other layer.
        ranks: of the form `"low_rank"` the number of matrices of each axis (of a separable
            operation those of the depthwise one); `None` of every other.
        error: of the form `"low_rank"` the relative error of the linear map (of two operations the
            larger one).
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
    dropped: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class FinalizingReport:
    """What `finalize` leaves as `report` at its result; `str()` of it is a table.

    Attributes:
        rows: a `LayerReport` for each searched layer.
    """

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
                form = f"rank {'×'.join(map(str, row.ranks))}, error {row.error:.2g}"
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
        return "\n".join([*aligned(table), *lines])
