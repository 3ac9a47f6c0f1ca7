"""Terms as graphs whose nodes are operations, by the definition of the Weisfeiler-Lehman kernel."""

from keras_xd.grammar.graphs import network_graph
from keras_xd.grammar.topologies import IDENTITY


def operation_graph(term, topologies=None):
    """Return the labels of inputs, operations and output, and the nodes that each one feeds."""
    graph = network_graph(term, topologies)
    real = [edge for edge in graph.edges if edge.operation != IDENTITY]
    labels = ["input"] * len(graph.inputs) + [edge.operation for edge in real] + ["output"]
    starting = {}
    for number, edge in enumerate(real, start=len(graph.inputs)):
        starting.setdefault(edge.source, []).append(number)
    passing = {}
    for edge in graph.edges:
        if edge.operation == IDENTITY:
            passing.setdefault(edge.source, []).append(edge.target)
    fed = {}  # node of the network -> operations that it feeds, identities bypassed
    for node in reversed(graph.order()):
        found = set(starting.get(node, ()))
        found.update(*(fed[target] for target in passing.get(node, ())))
        fed[node] = found | ({len(labels) - 1} if node == graph.output else set())
    sources = [*graph.inputs, *(edge.target for edge in real)]
    return tuple(labels), (*(tuple(sorted(fed.get(node, ()))) for node in sources), ())
