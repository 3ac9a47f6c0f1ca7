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
