"""Terms as graphs: what a term computes, and what the Weisfeiler-Lehman kernel compares."""

import dataclasses
import functools
import hashlib
from collections.abc import Mapping

from keras_xd.core.argument_types import check_types
from keras_xd.core.validation import LARGEST_NETWORK
from keras_xd.grammar.motifs import expand
from keras_xd.grammar.rules import reachable
from keras_xd.grammar.terms import Term
from keras_xd.grammar.topologies import (
    IDENTITY,
    TOPOLOGIES,
    ZERO,
    Topology,
    topology_of,
)


@dataclasses.dataclass(frozen=True)
class Edge:
    """An operation between two nodes of a `NetworkGraph`."""

    source: int
    target: int
    term: Term
    operation: str


@dataclasses.dataclass(frozen=True)
class NetworkGraph:
    """A term without its hierarchy: nodes that add up what arrives, operations on the edges."""

    inputs: tuple[int, ...]
    output: int
    edges: tuple[Edge, ...]
    merges: dict[int, str]

    def order(self) -> list[int]:
        """Return the nodes in an order in which every edge goes forward."""
        waiting, leaving = {}, {}
        for edge in self.edges:
            waiting[edge.target] = waiting.get(edge.target, 0) + 1
            leaving.setdefault(edge.source, []).append(edge.target)
        ready = [node for node in {**dict.fromkeys(self.inputs), **leaving} if node not in waiting]
        order = []
        while ready:
            node = ready.pop()
            order.append(node)
            for target in leaving.get(node, ()):
                waiting[target] -= 1
                if not waiting[target]:
                    ready.append(target)
        return order


@check_types
def network_graph(term: Term, topologies: Mapping[str, Topology] | None = None) -> NetworkGraph:
    """Return the graph of a term: nested topologies inserted, dead edges left out.

    A topology within a term replaces its edge. Edges that carry `zero`, and those on no path from
    an input to the output, are dead.
    """
    topologies = TOPOLOGIES if topologies is None else topologies
    term = expand(term)
    outer = topologies.get(term.operator) if term.arguments else None
    inputs = tuple(range(len(outer.inputs))) if outer else (0,)
    output, created = len(inputs), len(inputs) + 1
    edges, merges = [], {}
    stack = [(inputs, output, term)]
    while stack:
        if len(stack) + len(edges) > LARGEST_NETWORK:  # a short term may repeat its parts
            raise ValueError(
                f"The network of a term must have at most {LARGEST_NETWORK:,} operations. "
                f"Received: {str(term.fold(0))[:80]} of depth {term.depth}"
            )
        sources, target, part = stack.pop()
        if not part.arguments:
            if part.operator != ZERO:
                folded = part.nonterminal is not None and part.operator in topologies
                name = f"{part.nonterminal} {part.operator}" if folded else part.operator
                edges.append(Edge(*sources, target, part, name))
            continue
        topology = _topology(part, topologies, len(sources))
        places = dict(zip(topology.inputs, sources, strict=True))
        merged, end = dict(topology.merges), topology.output
        inserted = []
        for a, b, argument in topology.expand(part.arguments):
            for node in (a, b):
                if node not in places:
                    # An output that does not add up is not the node that the edge leads to.
                    if node == end and node not in merged:
                        places[node] = target
                    else:
                        places[node] = created
                        created += 1
                    if node in merged:
                        merges[places[node]] = merged[node]
            inserted.append(((places[a],), places[b], argument))
        if end in merged:
            inserted.append(((places[end],), target, Term(None, IDENTITY)))
        stack.extend(reversed(inserted))
    edges = _alive(edges, inputs, output)
    left = {edge.target for edge in edges}
    merges = {node: how for node, how in merges.items() if node in left}
    return NetworkGraph(inputs, output, tuple(edges), merges)


def _topology(part, topologies, inputs):
    topology = topology_of(part, topologies)
    if len(topology.inputs) != inputs:
        raise ValueError(
            "A topology with several inputs must be the outermost one. "
            f"Received: {str(part.fold(0))[:80]}"
        )
    return topology


def _alive(edges, inputs, output):
    """Edges on a path from an input to the output, in their order."""
    leaving, arriving = {}, {}
    for edge in edges:
        leaving.setdefault(edge.source, []).append(edge.target)
        arriving.setdefault(edge.target, []).append(edge.source)
    forward, backward = reachable(leaving, inputs), reachable(arriving, (output,))
    return [edge for edge in edges if edge.source in forward and edge.target in backward]


@check_types
def network_digest(term: Term, topologies: Mapping[str, Topology] | None = None) -> str:
    """Return 16 hexadecimal digits, equal for terms that build the same network.

    Dead edges, identities, the hierarchy and the order in which a node adds up do not count; how
    often an operation is added does, and the order in which a node stacks or concatenates. Nodes
    are told apart by colour refinement along both directions of the edges.
    """
    labels, sources = _producers(network_graph(term, topologies))
    targets = [[] for _ in labels]
    for number, arguments in enumerate(sources):
        for place, added in enumerate(arguments):
            for source, times in added.items():
                targets[source].append((number, place, times))
    colours, distinct = [_number_of(label) for label in labels], 0
    # Once along the edges and once against them; then few further rounds tell all nodes apart.
    for number, arguments in enumerate(sources):
        colours[number] = hash((colours[number], _colours_before(colours, arguments)))
    for number in range(len(labels) - 1, -1, -1):
        colours[number] = hash((colours[number], _colours_after(colours, targets[number])))
    while len(set(colours)) > distinct:
        distinct = len(set(colours))
        colours = [
            hash((colour, _colours_before(colours, before), _colours_after(colours, after)))
            for colour, before, after in zip(colours, sources, targets, strict=True)
        ]
    return hashlib.blake2b(repr(sorted(colours)).encode(), digest_size=8).hexdigest()


def _colours_before(colours, arguments):
    return tuple(
        [tuple(sorted([(colours[n], times) for n, times in a.items()])) for a in arguments]
    )


def _colours_after(colours, targets):
    return tuple(sorted([(colours[number], place, times) for number, place, times in targets]))


def _producers(graph):
    """Labels of all inputs, operations and ordered nodes, and what each one adds up."""
    labels = [f"input {number}" for number in range(len(graph.inputs))]
    sources = [[] for _ in labels]
    arriving = {}
    for edge in graph.edges:
        arriving.setdefault(edge.target, []).append(edge)
    values = {node: {number: 1} for number, node in enumerate(graph.inputs)}
    for node in graph.order():
        if node in values:
            continue
        arguments = []
        for edge in arriving[node]:
            if edge.operation == IDENTITY:
                arguments.append(values[edge.source])
            else:
                arguments.append({len(labels): 1})
                labels.append(f"operation {edge.operation}")
                sources.append([values[edge.source]])
        if node in graph.merges:
            values[node] = {len(labels): 1}
            labels.append(f"node {graph.merges[node]}")
            sources.append(arguments)
        elif len(arguments) == 1:
            values[node] = arguments[0]
        else:
            values[node] = {}
            for added in arguments:
                for source, times in added.items():
                    values[node][source] = values[node].get(source, 0) + times
    labels.append("output")
    sources.append([values.get(graph.output, {})])
    return labels, sources


@functools.lru_cache(maxsize=4096)
def _number_of(label):
    """A number for a label, the same in every process."""
    return int.from_bytes(hashlib.blake2b(label.encode(), digest_size=7).digest(), "big")
