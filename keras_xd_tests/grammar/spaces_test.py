import itertools
import math

import numpy as np
import pytest

from keras_xd.grammar import Downsamplings, expand, spaces
from keras_xd.grammar.graphs import network_graph
from keras_xd_tests.grammar.operation_graphs import operation_graph

SPACES = [
    spaces.hierarchical_nas_bench_201,
    spaces.hierarchical_nas_bench_201_fixed_macro,
    spaces.hierarchical_nas_bench_201_shared_cell,
    spaces.nas_bench_201,
    spaces.nas_bench_201_cell,
    spaces.darts_cell,
    spaces.activation_functions,
    spaces.searchable_operations,
]


def hierarchical_count(convolutions=1):
    """Number of terms of hierarchical NAS-Bench-201, by its productions one after the other.

    Args:
        convolutions: how often the production of a convolution counts.
    """
    cell = (3 + convolutions * 27) ** 6
    c = cell**2 + 2 * cell**3
    down = 2 * cell + cell**2  # Linear2, Residual2 and Linear3; resBlock is a terminal
    d0 = c**2 * cell + c**3 * cell + c**2 * cell**2
    d1 = c**2 * down + c**3 * down + c**2 * down**2
    return 2 * d1**2 * d0 + d1**2 * d0**2


def test_count_of_hierarchical_nas_bench_201():
    count = spaces.hierarchical_nas_bench_201().count()
    assert count == hierarchical_count()
    assert round(math.log10(count), 1) == 375.8
    assert round(math.log10(hierarchical_count(convolutions=2)), 1) == 446.1


def test_counts_of_the_papers():
    assert spaces.nas_bench_201_cell().count() == 5**6 == 15_625
    assert spaces.nas_bench_201().count() == 15_625
    assert spaces.darts_cell().count() == 1_037_664_180
    assert spaces.activation_functions().count() == 393_762_525
    assert spaces.hierarchical_nas_bench_201_fixed_macro().count() == 30**90
    # 189 ways to one downsampling and 45 to none, with one cell for all places.
    macros = 2 * 189**2 * 45 + 189**2 * 45**2
    assert spaces.hierarchical_nas_bench_201_shared_cell().count() == macros * 30**6


def test_count_of_the_space_of_searchable_operations():
    layer = 8 + 2 * 3 * 8
    block = layer + 2 * layer**2 + layer**4
    down = 2 * block
    d0 = block**2 + block**3 + block**4
    d1 = block * down + block**2 * down + block**2 * down**2
    count = spaces.searchable_operations().count()
    assert count == 2 * d1**2 * d0 + d1**2 * d0**2
    assert round(math.log10(count), 1) == 113.1


def test_live_cells():
    edges = [(1, 2), (1, 3), (2, 3), (1, 4), (2, 4), (3, 4)]
    live = 0
    for operations in itertools.product(range(5), repeat=6):
        reached = {1}
        for target in (2, 3, 4):
            for edge, operation in zip(edges, operations, strict=True):
                if operation and edge[1] == target and edge[0] in reached:
                    reached.add(target)
        live += 4 in reached
    assert live == spaces.nas_bench_201_cell().count(constrained=True) == 15_284


@pytest.mark.parametrize("space", SPACES)
def test_terms_of_every_space(space):
    grammar = space()
    rng = np.random.default_rng(0)
    for uniform in (False, True):
        a, b = grammar.sample(rng, uniform), grammar.sample(rng, uniform)
        for term in (a, grammar.mutate(a, rng), grammar.crossover(a, b, rng)):
            grammar.check(term)
            assert grammar.parse(str(term)) == term
            assert network_graph(term).edges
            labels, successors = operation_graph(term)
            assert len(labels) == len(successors) and labels[-1] == "output"
            assert all(len(set(targets)) == len(targets) for targets in successors)


@pytest.mark.parametrize(
    ("space", "strided"),
    [
        (spaces.hierarchical_nas_bench_201, "resBlock"),
        (spaces.hierarchical_nas_bench_201_shared_cell, "resBlock"),
        (spaces.nas_bench_201, "resBlock"),
        (spaces.searchable_operations, "down"),
    ],
)
def test_two_downsamplings_on_every_path(space, strided):
    grammar = space()
    constraint = Downsamplings(2, [strided])
    rng = np.random.default_rng(1)
    for _ in range(5):
        term = expand(grammar.sample(rng))
        states = {}
        for node in reversed(list(term.nodes())):
            below = tuple(states[id(argument)] for argument in node.arguments)
            states[id(node)] = constraint.state(node.operator, below)
        assert constraint.accepts(states[id(term)])


def test_activation_functions_depend_on_their_input():
    functions = spaces.activation_functions()
    constant = "(L1 UnaryTopo (UNARY constant))"
    relu = "(L1 UnaryTopo (UNARY relu))"
    functions.check(functions.parse(f"(L2 BinaryTopo (BINARY add) {constant} {relu} id id)"))
    for dead in (
        f"(L2 UnaryTopo {constant})",
        f"(L2 BinaryTopo (BINARY add) {constant} {constant} id id)",
        "(L2 UnaryTopo (L1 BinaryTopo (BINARY add) (UNARY constant) (UNARY constant) id id))",
    ):
        with pytest.raises(ValueError, match="violates the constraints"):
            functions.check(functions.parse(dead))
    # Of 25 unary functions one is constant; binary ones are only where both arguments are.
    inner, dead = 10 * 25**2 + 25, 10 + 1
    assert functions.count(constrained=True) == 10 * (inner**2 - dead**2) + inner - dead
