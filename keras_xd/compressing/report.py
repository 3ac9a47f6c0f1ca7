"""What a compression has cut, and what that came to."""

import dataclasses
from typing import Any

from keras_xd.core.tables import aligned, pair
from keras_xd.finalizing.report import SearchReport
from keras_xd.graph.size_counts import LayerChange


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerCut(LayerChange):
    """One layer in a `CompressionReport`; `…_after` is of what is left of it.

    Attributes:
        name, kind_before, kind_after, left_because, parameters_before, parameters_after,
            multiply_adds_before, multiply_adds_after: as in `LayerChange`; the class is `"removed"`
            where nothing is left.
        channels_before, channels_after: numbers of output channels.
        heads_before, heads_after: numbers of heads of attention.
        memory_before, memory_after: bytes of weights and outputs.
        milliseconds_before, milliseconds_after: of the layer by itself, if the target is a latency.
    """

    channels_before: int
    channels_after: int
    memory_before: int
    memory_after: int
    heads_before: int | None = None
    heads_after: int | None = None
    milliseconds_before: float | None = None
    milliseconds_after: float | None = None


@dataclasses.dataclass(frozen=True)
class CompressionReport:
    """What `keras_xd.compress` did; `str()` of it is a table. See its docstring."""

    models: SearchReport
    rows: tuple[LayerCut, ...]
    removed_blocks: tuple[str, ...]
    measure: str
    target: float
    reached: float

    @property
    def left(self) -> dict[str, str]:
        """The layers whose channels stayed, and why, by their paths."""
        return {row.name: row.left_because for row in self.rows if row.left_because is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain Python values."""
        return dataclasses.asdict(self) | {"models": self.models.to_dict()}

    def __str__(self) -> str:
        timed = any(row.milliseconds_before is not None for row in self.rows)
        head = ("layer", "kind", "channels", "parameters", "multiply–adds")
        table = [(*head, "milliseconds") if timed else head]
        for row in self.rows:
            kind = f"{row.kind_before}, removed" if row.kind_after == "removed" else row.kind_before
            if row.heads_before is not None:
                kind += f", {row.heads_before} → {row.heads_after} heads"
            if row.left_because is not None:
                kind += f", left: {row.left_because}"
            cells = [
                pair(getattr(row, f"{name}_before"), getattr(row, f"{name}_after"))
                for name in ("channels", "parameters", "multiply_adds")
            ]
            if timed:
                both = (row.milliseconds_before, row.milliseconds_after)
                cells.append(" → ".join("?" if v is None else f"{v:.3g}" for v in both))
            table.append((row.name, kind, *cells))
        lines = [*aligned(table), "", str(self.models)]
        if self.removed_blocks:
            lines.append(f"Removed residual blocks: {', '.join(self.removed_blocks)}")
        measure = self.measure.replace("multiply_adds", "multiply–adds")
        lines.append(f"Share of the {measure}: {self.reached:.3f}, target {self.target:g}")
        return "\n".join(lines)
