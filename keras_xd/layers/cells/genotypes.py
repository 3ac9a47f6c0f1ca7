"""Discrete cells of the neural operator search: what they are, and how weights decide on one."""

import dataclasses
import itertools
import math
import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keras_xd.core.argument_types import check_types

__all__ = [
    "ALL_OPERATIONS",
    "BlockGenotype",
    "CellGenotype",
    "FEATURE_OPERATIONS",
    "Genotype",
    "NOS_OPERATIONS",
    "derive_cell",
    "random_cell",
    "random_genotype",
]

FEATURE_OPERATIONS = (
    "separable_3",
    "separable_5",
    "dilated_3",
    "dilated_5",
    "max_pooling_3",
    "average_pooling_3",
    "identity",
)
ATTENTION_OPERATIONS = ("spatial_attention", "channel_attention")
# Taps of dynamic kernels along an axis, and the distance of two of them.
KERNEL_SIZES = {"dynamic_3": 3, "dynamic_5": 5, "dynamic_dilated_3": 3, "dynamic_dilated_5": 5}
DILATION_RATES = {name: 2 if "dilated" in name else 1 for name in KERNEL_SIZES}
KERNEL_SPANS = {name: (k - 1) * DILATION_RATES[name] + 1 for name, k in KERNEL_SIZES.items()}
DYNAMIC_OPERATIONS = tuple(KERNEL_SIZES)
# The eleven operations of the paper's search. Dilated dynamic convolutions, of its table 1, and
# XD-operations are added if they are asked for.
NOS_OPERATIONS = FEATURE_OPERATIONS + ATTENTION_OPERATIONS + DYNAMIC_OPERATIONS[:2]
XD_OPERATIONS = ("xd_3", "xd_5")
ALL_OPERATIONS = NOS_OPERATIONS + DYNAMIC_OPERATIONS[2:] + XD_OPERATIONS

INPUTS = 2
BLOCKS = 4
# The source nodes of the edges of each block's first tier.
SOURCES = tuple(tuple(range(INPUTS + block)) for block in range(BLOCKS))
FIRST_TIER_EDGES = sum(map(len, SOURCES))
EDGES = FIRST_TIER_EDGES + BLOCKS


@check_types
def is_feature(operation: str) -> bool:
    """Return whether an operation makes features, not an attention map or a dynamic kernel."""
    return operation not in ATTENTION_OPERATIONS + DYNAMIC_OPERATIONS


@check_types
def largest_span(operations: Sequence[str]) -> int:
    """Return the size of the largest dynamic kernel of the operations, 1 if there is none."""
    return max((KERNEL_SPANS.get(name, 1) for name in operations), default=1)


@check_types
def first_tier_edge(block: int, source: int) -> int:
    """Return the number of the edge from a node to the surrogate node of a block."""
    return sum(map(len, SOURCES[:block])) + source


@check_types
def second_tier_edge(block: int) -> int:
    """Return the number of the edge from the surrogate node of a block to its node."""
    return FIRST_TIER_EDGES + block


@check_types
def checked_operations(operations: Sequence[str]) -> tuple[str, ...]:
    """Return two or more different names as a tuple, one of features, or raise `ValueError`."""
    names = (operations,) if isinstance(operations, str) else tuple(operations)
    known = all(isinstance(name, str) and name in ALL_OPERATIONS for name in names)
    if not known or len(set(names)) < len(names) or len(names) < 2:
        raise ValueError(
            f"`operations` must be two or more different names of {ALL_OPERATIONS}. "
            f"Received: operations={operations!r}"
        )
    if not any(map(is_feature, names)):
        raise ValueError(
            "One of the `operations` must make features, because every block needs one. "
            f"Received: operations={operations!r}"
        )
    return names


@dataclasses.dataclass(frozen=True, order=True)
class BlockGenotype:
    """A block: two operations on different nodes, and the one on what they make.

    Args:
        first: two pairs `(operation, source node)`; they are kept in the order of the sources.
        second: the operation of the second tier.
    """

    first: tuple[tuple[str, int], tuple[str, int]]
    second: str

    def __post_init__(self) -> None:
        try:
            pairs = tuple((operation, source) for operation, source in self.first[: INPUTS + 1])
            sources = [source for _, source in pairs]
            fits = (
                len(pairs) == 2
                and all(type(source) is int and source >= 0 for source in sources)
                and len(set(sources)) == 2
                and {self.second, *(operation for operation, _ in pairs)} <= set(ALL_OPERATIONS)
                and any(is_feature(operation) for operation, _ in pairs)
            )
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise ValueError(
                "A block needs two operations on two different nodes in its first tier, one of "
                "which makes features, and one operation in its second tier, all of "
                f"{ALL_OPERATIONS}. Received: first={reprlib.repr(self.first)}, "
                f"second={reprlib.repr(self.second)}"
            )
        object.__setattr__(self, "first", tuple(sorted(pairs, key=lambda pair: pair[1])))

    def __str__(self) -> str:
        first = " + ".join(f"{operation}({source})" for operation, source in self.first)
        return f"{self.second}[{first}]"

    def to_dict(self) -> dict[str, Any]:
        """Return the block as lists, texts and numbers."""
        return {"first": [list(pair) for pair in self.first], "second": self.second}


@dataclasses.dataclass(frozen=True, order=True)
class CellGenotype:
    """A cell: its four blocks, which make the nodes 2 to 5.

    Args:
        blocks: four `BlockGenotype`.
    """

    blocks: tuple[BlockGenotype, ...]

    def __post_init__(self) -> None:
        blocks = tuple(self.blocks)
        sources = [[source for _, source in getattr(block, "first", ())] for block in blocks]
        if (
            len(blocks) != BLOCKS
            or not all(isinstance(block, BlockGenotype) for block in blocks)
            or any(max(used) >= INPUTS + block for block, used in enumerate(sources))
        ):
            raise ValueError(
                f"A cell needs {BLOCKS} blocks, each with sources among the {INPUTS} inputs and "
                f"the nodes of the blocks before it. Received: blocks={reprlib.repr(blocks)}"
            )
        object.__setattr__(self, "blocks", blocks)

    def __str__(self) -> str:
        nodes = enumerate(self.blocks, start=INPUTS)
        return "; ".join(f"{node} = {block}" for node, block in nodes)

    @property
    def operations(self) -> tuple[str, ...]:
        """The operations of the cell, each once, in alphabetical order."""
        names = {block.second for block in self.blocks}
        return tuple(sorted(names | {o for block in self.blocks for o, _ in block.first}))

    def to_dict(self) -> dict[str, Any]:
        """Return the cell as lists, texts and numbers, for JSON."""
        return {"blocks": [block.to_dict() for block in self.blocks]}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "CellGenotype":
        """Return the cell of a dictionary made by `to_dict`."""
        try:
            blocks = [
                BlockGenotype(tuple(map(tuple, block["first"])), block["second"])
                for block in content["blocks"][: BLOCKS + 1]
            ]
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"A cell is read from what `to_dict` returns. Received: {reprlib.repr(content)}"
            ) from error
        return cls(tuple(blocks))


@dataclasses.dataclass(frozen=True, order=True)
class Genotype:
    """What a search has found: a normal and a reduction cell.

    Args:
        normal: the `CellGenotype` of cells that keep the size of their inputs.
        reduction: the `CellGenotype` of cells that halve it.

    Reference:
        "Neural Operator Search", 2020, section 3.3 and figure 4.
    """

    normal: CellGenotype
    reduction: CellGenotype

    def __post_init__(self) -> None:
        if not all(isinstance(cell, CellGenotype) for cell in (self.normal, self.reduction)):
            raise ValueError(
                "A genotype needs two CellGenotype. "
                f"Received: normal={self.normal!r}, reduction={self.reduction!r}"
            )

    def __str__(self) -> str:
        return f"normal: {self.normal}\nreduction: {self.reduction}"

    def to_dict(self) -> dict[str, Any]:
        """Return the genotype as dictionaries, lists, texts and numbers, for JSON."""
        return {"normal": self.normal.to_dict(), "reduction": self.reduction.to_dict()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Genotype":
        """Return the genotype of a dictionary made by `to_dict`."""
        try:
            cells = content["normal"], content["reduction"]
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"A genotype is read from what `to_dict` returns. Received: {reprlib.repr(content)}"
            ) from error
        return cls(*map(CellGenotype.from_dict, cells))


@check_types
def derive_cell(logits: ArrayLike, operations: Sequence[str] = NOS_OPERATIONS) -> CellGenotype:
    """Return the cell that the weights of a relaxed one decide on.

    Weights are the softmax of the logits of each edge. The first tier of each block is the pair
    of operations on two different nodes, one of which at least makes features, with the largest
    sum of weights of all such pairs. The second tier is the operation of the largest weight. Of
    equal ones the first is taken: of the lower nodes, then of the earlier operations.

    Args:
        logits: an array or lists, one row for each of the 18 edges and one column an operation.
        operations: the names of the operations.

    Reference:
        "Neural Operator Search", 2020, section 3.3: two operations with at least one that
        transforms features, then one.
    """
    operations = checked_operations(operations)
    rows = [[float(value) for value in row] for row in logits]
    if len(rows) != EDGES or any(len(row) != len(operations) for row in rows):
        raise ValueError(
            f"Logits must be {EDGES} rows of {len(operations)} numbers, one for each operation. "
            f"Received: {len(rows)} rows of {sorted({len(row) for row in rows})}"
        )
    if not all(math.isfinite(value) for row in rows for value in row):
        raise ValueError(f"Logits must be finite. Received: logits={rows}")
    return cell_of_weights(list(map(_softmax, rows)), operations)


@check_types
def cell_of_weights(weights: ArrayLike, operations: Sequence[str] = NOS_OPERATIONS) -> CellGenotype:
    """Return the cell that weights of operations decide on, by the rule of `derive_cell`."""
    weights = [[float(value) for value in row] for row in weights]
    blocks = []
    for block, sources in enumerate(SOURCES):
        best, first = -1.0, None
        for one, other in itertools.combinations(sources, 2):
            edges = (weights[first_tier_edge(block, source)] for source in (one, other))
            pairs = itertools.product(*(zip(operations, edge, strict=True) for edge in edges))
            for (a, weight_a), (b, weight_b) in pairs:
                if weight_a + weight_b > best and (is_feature(a) or is_feature(b)):
                    best, first = weight_a + weight_b, ((a, one), (b, other))
        last = weights[second_tier_edge(block)]
        blocks.append(BlockGenotype(first, operations[last.index(max(last))]))
    return CellGenotype(tuple(blocks))


@check_types
def random_cell(
    generator: np.random.Generator, operations: Sequence[str] = NOS_OPERATIONS
) -> CellGenotype:
    """Return a cell drawn evenly from all that could be derived."""
    operations = checked_operations(operations)

    def draw():
        return operations[int(generator.integers(len(operations)))]

    blocks = []
    for sources in SOURCES:
        pairs = list(itertools.combinations(sources, 2))
        one, other = pairs[int(generator.integers(len(pairs)))]
        a, b = draw(), draw()
        while not (is_feature(a) or is_feature(b)):
            a, b = draw(), draw()
        blocks.append(BlockGenotype(((a, one), (b, other)), draw()))
    return CellGenotype(tuple(blocks))


@check_types
def random_genotype(
    generator: np.random.Generator, operations: Sequence[str] = NOS_OPERATIONS
) -> Genotype:
    """Return two cells drawn evenly from all that could be derived: the control of a search.

    Example:

    >>> import numpy as np
    >>> from keras_xd.layers.cells.genotypes import random_genotype
    >>> random_genotype(np.random.default_rng(0)) == random_genotype(
    ...     np.random.default_rng(0)
    ... )
    True
    """
    normal = random_cell(generator, operations)
    return Genotype(normal, random_cell(generator, operations))


def _softmax(row):
    powers = [math.exp(value - max(row)) for value in row]
    return [power / math.fsum(powers) for power in powers]
