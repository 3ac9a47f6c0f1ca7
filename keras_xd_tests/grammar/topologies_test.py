import pytest

from keras_xd.grammar import Topology, parse
from keras_xd.grammar.topologies import TOPOLOGIES, darts


def test_edges_of_the_papers():
    edges = {name: topology.edges for name, topology in TOPOLOGIES.items()}
    assert edges["Linear1"] == ((1, 2),)
    assert edges["Linear4"] == ((1, 2), (2, 3), (3, 4), (4, 5))
    assert edges["Residual2"] == ((1, 2), (1, 3), (2, 3))
    assert edges["Residual3"] == ((1, 2), (2, 3), (1, 4), (3, 4))
    assert edges["Diamond2"] == ((1, 2), (1, 3), (2, 4), (3, 4))
    assert edges["Diamond3"] == ((1, 2), (1, 3), (2, 4), (3, 5), (4, 6), (5, 6))
    assert edges["Cell"] == ((1, 2), (1, 3), (2, 3), (1, 4), (2, 4), (3, 4))
    assert edges["BinaryTopo"] == ((4, 5), (1, 2), (1, 3), (2, 4), (3, 4))
    assert TOPOLOGIES["BinaryTopo"].merges == ((4, "stack"),)


def test_darts_nodes():
    cell = parse("(CELL DARTS (NODE2 inputs_0_1 a b) (NODE3 inputs_1_2 c d))")
    edges = darts(2).expand(cell.arguments)
    expected = [(0, 2, "a"), (1, 2, "b"), (1, 3, "c"), (2, 3, "d"), (2, 4, "id"), (3, 4, "id")]
    assert [(i, j, term.operator) for i, j, term in edges] == expected
    folded = darts(2).expand(cell.fold(1).arguments)
    assert [term.operator for _, _, term in folded[:2]] == ["NODE2 inputs_0_1"] * 2


@pytest.mark.parametrize("operator", ["inputs_0_2", "inputs_0", "sum"])
def test_darts_inputs_are_checked(operator):
    cell = parse(f"(CELL DARTS (NODE2 {operator} a b))")
    with pytest.raises(ValueError, match="must have an operator inputs_i_j"):
        darts(1).expand(cell.arguments)


@pytest.mark.parametrize("edges", [(), ((2, 1),), ((1, 1),), ((1, 2, 3),)])
def test_edges_are_checked(edges):
    with pytest.raises(ValueError, match="Edges must be pairs|each item a tuple of 2.*Received"):
        Topology(edges)


def test_merges_are_checked():
    with pytest.raises(ValueError, match="A node merges by"):
        Topology(((1, 2),), merges=((2, "multiply"),))
