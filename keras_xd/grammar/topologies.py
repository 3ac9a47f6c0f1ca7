"""Topologies: operators of terms that connect their arguments to a network. Pure Python."""

import dataclasses
import re
from collections.abc import Sequence

from keras_xd.core.argument_types import check_types
from keras_xd.grammar.terms import Term


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

    @property
    def output(self) -> int:
        """Number of the node that gives the output."""
        return max(edge[1] for edge in self.edges)

    def expand(self, arguments: Sequence[Term]) -> list[tuple[int, int, Term]]:
        """Return `(from, to, term)` of every edge of a term with these arguments.

        Raises:
            ValueError: the number of arguments is not that of the edges.
        """
        if len(arguments) != len(self.edges):
            raise ValueError(
                "A topology has one argument for each edge. "
                f"Received: {len(arguments)} arguments for the edges {self.edges}"
            )
        return [(*edge, term) for edge, term in zip(self.edges, arguments, strict=True)]


@dataclasses.dataclass(frozen=True)
class DartsTopology(Topology):
    """The cell of DARTS: nodes with two inputs each, chosen among all earlier nodes.

    The arguments are not the edges' operations but one term a node, `(NODE inputs_i_j a b)`: the
    sum of operation `a` on node `i` and operation `b` on node `j`. The output concatenates the
    inner nodes. `edges` shows them as parallel, which is what constraints look at.

    Reference:
        Liu et al., "DARTS: Differentiable architecture search", ICLR 2019, section 2.1.
    """

    def expand(self, arguments: Sequence[Term]) -> list[tuple[int, int, Term]]:
        """Return `(from, to, term)`; a node that was folded stands on both of its edges."""
        first = len(self.inputs)
        edges = []
        for node, term in enumerate(arguments, start=first):
            match = re.fullmatch(r"inputs_(\d+)_(\d+)", term.operator)
            sources = tuple(int(number) for number in match.groups()) if match else ()
            if not match or max(sources) >= node:
                raise ValueError(
                    f"Argument {node - first} of the cell must have an operator inputs_i_j with "
                    f"i and j under {node}. Received: {term.operator[:40]}"
                )
            folded = Term(None, f"{term.nonterminal} {term.operator}")
            edges += zip(sources, (node, node), term.arguments or (folded, folded), strict=True)
        return edges + [(node, self.output, Term(None, "id")) for node in range(first, self.output)]


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
}
