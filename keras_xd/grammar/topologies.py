"""Topologies: operators of terms that connect their arguments to a network. Pure Python."""

import dataclasses
import functools
import itertools
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence

from keras_xd.core.argument_types import check_types
from keras_xd.grammar.motifs import SHARE
from keras_xd.grammar.rules import Rules
from keras_xd.grammar.terms import Term

ZERO, IDENTITY = "zero", "id"  # the primitives that cut an edge and that pass their input on
_DARTS_INPUTS = re.compile(r"inputs_(\d+)_(\d+)")


class UnknownOperatorError(ValueError):
    """A term or grammar has an operator that is neither a topology nor a primitive."""


@check_types
@dataclasses.dataclass(frozen=True)
class Topology:
    """A directed acyclic graph whose edges carry the arguments of a term.

    Edge `i` carries argument `i`. Nodes add up what arrives, unless `merges` says otherwise. The
    lowest node is the input and the highest the output.

    Attributes:
        edges: pairs `(from, to)` of node numbers, `from < to`.
        inputs: the nodes that get the inputs.
        merges: pairs `(node, how)` with `how` "stack" (the operation after the node gets all
            arriving values as a list, in the order of the edges) or "concatenate" (channels).

    Example:

    >>> from keras_xd.grammar import Topology
    >>> dense = Topology(((1, 2), (1, 3), (2, 3)))
    >>> dense.inputs, dense.output
    ((1,), 3)
    """

    edges: tuple[tuple[int, int], ...]
    inputs: tuple[int, ...] | None = None
    merges: tuple[tuple[int, str], ...] = ()

    def __post_init__(self) -> None:
        edges = tuple(tuple(edge) for edge in self.edges)
        if not edges or not all(len(edge) == 2 and edge[0] < edge[1] for edge in edges):
            raise ValueError(
                "Edges must be pairs of node numbers in ascending order, at least one. "
                f"Received: edges={self.edges!r}"
            )
        if any(how not in ("stack", "concatenate") for _, how in self.merges):
            raise ValueError(
                "A node merges by 'stack' or 'concatenate' (or adds, if it is not named). "
                f"Received: merges={self.merges!r}"
            )
        object.__setattr__(self, "edges", edges)
        if self.inputs is None:
            object.__setattr__(self, "inputs", (min(edge[0] for edge in edges),))

    @functools.cached_property
    def output(self) -> int:
        """Number of the node that gives the output."""
        return max(edge[1] for edge in self.edges)

    @property
    def copies(self) -> int:
        """On how many edges each argument stands."""
        return 1

    @property
    def primitives(self) -> tuple[str, ...]:
        """Names of the primitives that the topology adds to its arguments."""
        return ()

    def expand(self, arguments: Sequence[Term]) -> list[tuple[int, int, Term]]:
        """Return `(from, to, term)` of every edge of a term with these arguments."""
        if len(arguments) != len(self.edges):
            raise ValueError(
                "A topology has one argument for each edge. "
                f"Received: {len(arguments)} arguments for the edges {reprlib.repr(self.edges)}"
            )
        return [(*edge, term) for edge, term in zip(self.edges, arguments, strict=True)]


@dataclasses.dataclass(frozen=True)
class DartsTopology(Topology):
    """The cell of DARTS: nodes with two inputs each, chosen among all earlier nodes."""

    def expand(self, arguments: Sequence[Term]) -> list[tuple[int, int, Term]]:
        """Return `(from, to, term)`; a node that was folded stands on both of its edges."""
        first = len(self.inputs)
        edges = []
        for node, term in enumerate(arguments, start=first):
            match = _DARTS_INPUTS.fullmatch(term.operator)
            sources = tuple(int(number) for number in match.groups()) if match else ()
            if not match or max(sources) >= node:
                raise ValueError(
                    f"Argument {node - first} of the cell must have an operator inputs_i_j with "
                    f"i and j under {node}. Received: {term.operator[:40]}"
                )
            folded = Term(None, f"{term.nonterminal} {term.operator}")
            edges += zip(sources, (node, node), term.arguments or (folded, folded), strict=True)
        identity = Term(None, IDENTITY)
        return edges + [(node, self.output, identity) for node in range(first, self.output)]


@dataclasses.dataclass(frozen=True)
class BranchTopology(Topology):
    """Branches that begin at one tensor and are joined again."""

    branches: int = 2
    split: bool = False
    join: str = "add"
    then: str | None = None

    @property
    def copies(self) -> int:
        """On how many edges each argument stands."""
        return self.branches // len(self.edges)

    @property
    def primitives(self) -> tuple[str, ...]:
        """Names of the primitives that split the channels, and of the one behind the branches."""
        parts = [f"part{number}of{self.branches}" for number in range(1, self.branches + 1)]
        return (*(parts if self.split else ()), *([self.then] if self.then else ()))

    def expand(self, arguments: Sequence[Term]) -> list[tuple[int, int, Term]]:
        """Return `(from, to, term)` of every edge: parts, branches, and what joins them."""
        if len(arguments) != len(self.edges):
            raise ValueError(
                f"A topology of {self.branches} branches has {len(self.edges)} arguments. "
                f"Received: {len(arguments)}"
            )
        edges, identity = [], Term(None, IDENTITY)
        joined = self.output - 1 if self.then else self.output
        for number, term in enumerate(list(arguments) * self.copies, start=1):
            part, end = 1 + number, 1 + self.branches + number
            if self.split:
                edges.append((1, part, Term(None, f"part{number}of{self.branches}")))
            # What joins in order must get one value of each branch, also of one that adds up.
            edges += [(part if self.split else 1, end, term), (end, joined, identity)]
        if self.then:
            edges.append((joined, self.output, Term(None, self.then)))
        return edges


def branch(
    branches: int, arguments: int, split: bool, join: str, then: str | None = None
) -> BranchTopology:
    """Return the topology of branches with as many arguments, 1 or one for each branch."""
    joined = 2 * branches + 2
    return BranchTopology(
        ((1, joined + 1 if then else joined),) * arguments,
        merges=() if join == "add" else ((joined, join),),
        branches=branches,
        split=split,
        join=join,
        then=then,
    )


def linear(length: int) -> Topology:
    """Return the topology of `length` edges in a row."""
    return Topology(tuple((node, node + 1) for node in range(1, length + 1)))


def darts(nodes: int) -> DartsTopology:
    """Return the topology of a DARTS cell with two inputs and `nodes` inner nodes."""
    return DartsTopology(
        ((0, nodes + 2),) * nodes,
        inputs=(0, 1),
        merges=((nodes + 2, "concatenate"),),
    )


TOPOLOGIES = {
    **{f"Linear{length}": linear(length) for length in range(1, 9)},
    "Residual2": Topology(((1, 2), (1, 3), (2, 3))),
    "Residual3": Topology(((1, 2), (2, 3), (1, 4), (3, 4))),
    "Diamond2": Topology(((1, 2), (1, 3), (2, 4), (3, 4))),
    "Diamond3": Topology(((1, 2), (1, 3), (2, 4), (3, 5), (4, 6), (5, 6))),
    "Cell": Topology(((1, 2), (1, 3), (2, 3), (1, 4), (2, 4), (3, 4))),
    "UnaryTopo": linear(1),
    "BinaryTopo": Topology(
        ((4, 5), (1, 2), (1, 3), (2, 4), (3, 4)), inputs=(1,), merges=((4, "stack"),)
    ),
    "DARTS": darts(4),
    "clone2_add": branch(2, 2, False, "add"),
    "clone4_add": branch(4, 1, False, "add"),
    "clone8_add": branch(8, 1, False, "add"),
    "group2_concat": branch(2, 2, True, "concatenate"),
    "group4_concat": branch(4, 1, True, "concatenate"),
    "group8_concat": branch(8, 1, True, "concatenate"),
    # The concatenation of whole tensors is mapped back to the width of one.
    "clone2_concat": branch(2, 2, False, "concatenate", "linear2to1"),
    "clone4_concat": branch(4, 1, False, "concatenate", "linear4to1"),
    "clone8_concat": branch(8, 1, False, "concatenate", "linear8to1"),
    "clone2_matmul": branch(2, 2, False, "stack", "matmul"),
    "clone2_scaled_matmul": branch(2, 2, False, "stack", "scaled_matmul"),
}


def topology_of(part: Term, topologies: Mapping[str, Topology]) -> Topology:
    """Return the topology of a part of a term, or raise `UnknownOperatorError`."""
    if part.operator not in topologies:
        raise UnknownOperatorError(
            "An operator with arguments must be one of the topologies. "
            f"Received: {str(part.fold(0))[:80]} with {len(part.arguments)} arguments"
        )
    return topologies[part.operator]


def check_operators(
    rules: Rules,
    topologies: Mapping[str, Topology] | None = None,
    primitives: Iterable[str] | None = None,
) -> None:
    """Refuse a grammar with an operator that is no topology, or with an unknown primitive.

    Args:
        rules: the grammar's `Rules`.
        topologies: dictionary from operators to `Topology`; `None` for `TOPOLOGIES`.
        primitives: the names of all primitives, or `None` if they are not known yet.
    """
    topologies = TOPOLOGIES if topologies is None else topologies
    needed, motifs = {}, set()
    for production in itertools.chain(*rules.productions.values()):
        operator, arguments = production.operator, production.arguments
        found = [symbol for symbol in arguments if symbol not in rules.productions]
        if not arguments:
            found.append(operator)
        elif operator.startswith(SHARE):
            motifs |= {*operator[len(SHARE) :].split(":")}
        elif operator in topologies:
            found += topologies[operator].primitives
        elif not _DARTS_INPUTS.fullmatch(operator):
            raise UnknownOperatorError(
                "An operator with arguments must be one of the `topologies`. Received: "
                f"{production.nonterminal} -> {production}, topologies {list(topologies)}"
            )
        for symbol in found:
            needed.setdefault(symbol, production)
    for symbol in () if primitives is None else sorted({*needed} - {*primitives} - motifs):
        production = needed[symbol]
        raise UnknownOperatorError(
            "`primitives` must have every primitive of the grammar. Received: no "
            f"{symbol[:80]} of {production.nonterminal} -> {str(production)[:80]}, only "
            f"{', '.join(sorted(primitives))[:400]}"
        )
