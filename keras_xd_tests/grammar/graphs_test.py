import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_xd.grammar import Topology, parse, spaces
from keras_xd.grammar.graphs import network_digest, network_graph
from keras_xd.grammar.topologies import TOPOLOGIES
from keras_xd_tests.grammar.operation_graphs import operation_graph

SUMMING = [n for n, t in TOPOLOGIES.items() if not t.merges]
LEAVES = st.sampled_from([("a",), ("b",), ("id",), ("zero",)])
TREES = st.recursive(
    LEAVES,
    lambda inner: st.sampled_from(SUMMING).flatmap(
        lambda name: st.tuples(st.just(name), *[inner] * len(TOPOLOGIES[name].edges))
    ),
    max_leaves=8,
)


def text(tree):
    return f"(N {' '.join([tree[0], *map(text, tree[1:])])})"


def sequences(tree):
    """Sorted operations along every path from input to output, straight from the definition."""
    name, *arguments = tree
    if not arguments:
        return [] if name == "zero" else [() if name == "id" else (name,)]
    below = [sequences(argument) for argument in arguments]
    topology = TOPOLOGIES[name]

    def onwards(node):
        if node == topology.output:
            yield ()
        for (source, target), options in zip(topology.edges, below, strict=True):
            if source == node:
                options = options * topology.copies
                yield from (a + b for a, b in itertools.product(options, onwards(target)))

    return sorted(onwards(topology.inputs[0]))


def walks(successors, end, labels=None):
    """Labels along every path from node 0 to node `end`."""

    def onwards(node):
        if node == end:
            yield ()
        for target in successors[node]:
            step = () if labels is None or target == end else (labels[target],)
            yield from (step + rest for rest in onwards(target))

    return sorted(onwards(0))


@settings(max_examples=80)
@given(TREES)
def test_paths_are_those_of_the_term(tree):
    term = parse(text(tree))
    graph = network_graph(term)
    found = []

    def onwards(node, operations):
        if node == graph.output:
            found.append(operations)
        for edge in graph.edges:
            if edge.source == node:
                own = () if edge.operation == "id" else (edge.operation,)
                onwards(edge.target, operations + own)

    onwards(graph.inputs[0], ())
    expected = sequences(tree)
    assert sorted(found) == expected
    labels, successors = operation_graph(term)
    # Parallel identities and the like become one arrow, so that only different paths count.
    assert sorted(set(walks(successors, len(labels) - 1, labels))) == sorted(set(expected))
    assert labels[0] == "input" and labels[-1] == "output"
    assert "id" not in labels and "zero" not in labels


def test_dead_edges_are_left_out():
    cell = "(CELL Cell (OPS a) (OPS zero) (OPS zero) (OPS zero) (OPS zero) (OPS b))"
    assert network_graph(parse(cell)).edges == ()
    assert operation_graph(parse(cell)) == (("input", "output"), ((), ()))
    cell = "(CELL Cell (OPS a) (OPS b) (OPS zero) (OPS zero) (OPS zero) (OPS c))"
    assert [edge.operation for edge in network_graph(parse(cell)).edges] == ["b", "c"]


def test_folded_terms_show_nonterminal_and_topology():
    term = parse("(S Residual2 (C Linear2 a b) id (OP c))")
    assert operation_graph(term.fold(0))[0] == ("input", "S Residual2", "output")
    labels, successors = operation_graph(term.fold(1))
    assert labels == ("input", "C Linear2", "c", "output")
    assert successors == ((1, 3), (2,), (3,), ())


def test_terms_that_are_no_graph():
    with pytest.raises(ValueError, match="must be one of the topologies"):
        network_graph(parse("(S blend a b)"))
    with pytest.raises(ValueError, match="one argument for each edge"):
        network_graph(parse("(S Residual2 a b)"))
    cell = spaces.darts_cell().sample(np.random.default_rng(0))
    with pytest.raises(ValueError, match="must be the outermost"):
        network_graph(parse(f"(S Linear1 {cell})"))


def test_deep_terms_need_no_recursion():
    levels = 2_000
    term = parse("(S Linear2 a " * levels + "(S a)" + ")" * levels)
    assert len(network_graph(term).edges) == levels + 1
    assert len(operation_graph(term)[0]) == levels + 3
    assert network_digest(term) == network_digest(parse(f"(S Linear2 {term} id)"))


def numbered_network(term):
    """Operations of a term and how often each adds to each, from the edges of its network."""
    graph = network_graph(term)
    real = [edge for edge in graph.edges if edge.operation != "id"]

    def ways(source, target):
        """Number of paths from node to node over identities alone."""
        if source == target:
            return 1
        onwards = [e.target for e in graph.edges if e.source == source and e.operation == "id"]
        return sum(ways(node, target) for node in onwards)

    labels = ["input", *(edge.operation for edge in real), "output"]
    ends = [graph.inputs[0], *(edge.target for edge in real), None]
    starts = [None, *(edge.source for edge in real), graph.output]
    matrix = [[0 if None in (a, b) else ways(a, b) for b in starts] for a in ends]
    return labels, np.array(matrix)


def are_isomorphic(a, b):
    (labels, left), (others, right) = a, b
    if sorted(labels) != sorted(others) or left.sum() != right.sum():
        return False
    inner = range(1, len(labels) - 1)
    for order in itertools.permutations(inner):
        order = [0, *order, len(labels) - 1]
        if [others[i] for i in order] == labels and (right[np.ix_(order, order)] == left).all():
            return True
    return False


def test_digests_are_equal_where_networks_are_isomorphic():
    space, rng = spaces.nas_bench_201_cell(), np.random.default_rng(0)
    terms = list(dict.fromkeys(space.sample(rng, uniform=True) for _ in range(260)))
    digests = [network_digest(term) for term in terms]
    networks = [numbered_network(term) for term in terms]
    equal = 0
    for i, j in itertools.combinations(range(len(terms)), 2):
        same = are_isomorphic(networks[i], networks[j])
        assert same == (digests[i] == digests[j]), (str(terms[i]), str(terms[j]))
        equal += same
    assert equal > 50


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        # Two convolutions added are not one that is added twice.
        ("(S Diamond2 conv conv id id)", "(S Linear2 conv (A Diamond2 id id id id))", False),
        ("(S Diamond2 conv pool id id)", "(S Diamond2 pool conv id id)", True),
        ("(S Linear2 conv id)", "(S Linear1 conv)", True),
        ("(S Linear2 conv pool)", "(S Linear2 pool conv)", False),
        ("(S Residual2 zero conv conv)", "(S Linear1 conv)", True),
        # A function of two inputs takes them in their order.
        ("(S BinaryTopo sub relu id id id)", "(S BinaryTopo sub id relu id id)", False),
        ("(S BinaryTopo sub relu id id id)", "(S BinaryTopo sub id id relu id)", True),
        ("(S BinaryTopo sub relu relu id id)", "(S UnaryTopo sub)", False),
        (
            "(SHARED share:op (S Linear2 op op) (OP conv))",
            "(S Linear2 (OP conv) (A Linear1 conv))",
            True,
        ),
    ],
)
def test_digests_of_networks(left, right, same):
    assert (network_digest(parse(left)) == network_digest(parse(right))) == same


def test_digests_are_the_same_in_every_process():
    assert network_digest(parse("(S Residual2 (OP conv) (OP id) (OP pool))")) == "2842f757426895c2"


def test_merges_of_dead_nodes_are_left_out():
    function = "(B BinaryTopo subtract id id (OP a) (OP b))"
    assert network_graph(parse(f"(S Residual2 {function} c (OP zero))")).merges == {}
    assert list(network_graph(parse(f"(S Linear1 {function})")).merges.values()) == ["stack"]


def test_digests_tell_two_nodes_that_stack_alike_from_two_that_do_not():
    edges = ((1, 2), (1, 3), (2, 4), (3, 4), (2, 5), (3, 5), (4, 6), (5, 6))
    crossed = (*edges[:4], edges[5], edges[4], *edges[6:])
    term = parse("(S Both conv conv id id id id f f)")
    digests = [
        network_digest(term, {"Both": Topology(these, merges=((4, "stack"), (5, "stack")))})
        for these in (edges, crossed)
    ]
    assert digests[0] != digests[1]


def test_branches_are_multiplied_behind_their_ends():
    term = parse("(S clone2_matmul a b)")
    assert list(network_graph(term).merges.values()) == ["stack"]
    labels, successors = operation_graph(term)
    assert labels == ("input", "a", "b", "matmul", "output")
    assert successors == ((1, 2), (3,), (3,), (4,), ())
