import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_xd.grammar import Connected, Downsamplings, Grammar, InputDependent
from keras_xd.grammar.terms import Term
from keras_xd.grammar.topologies import TOPOLOGIES

PLAIN = [name for name in TOPOLOGIES if name not in ("DARTS", "BinaryTopo")]


def paths(topology, arguments):
    """All paths from input to output by depth-first search, as lists of arguments."""

    def onwards(node):
        if node == topology.output:
            yield []
        for (source, target), argument in zip(topology.edges, arguments, strict=True):
            if source == node and argument != "zero":
                yield from ([argument, *rest] for rest in onwards(target))

    return list(onwards(min(topology.inputs)))


@settings(max_examples=100)
@given(st.sampled_from(PLAIN), st.data())
def test_connected_means_that_there_is_a_path(name, data):
    topology = TOPOLOGIES[name]
    count = len(topology.edges)
    drawn = data.draw(st.lists(st.sampled_from(["conv", "zero"]), min_size=count, max_size=count))
    constraint = Connected()
    states = tuple(constraint.state(operation, ()) for operation in drawn)
    assert constraint.state(name, states) == (True if paths(topology, drawn) else None)


@settings(max_examples=150)
@given(st.sampled_from(PLAIN), st.integers(0, 2), st.data())
def test_downsamplings_are_those_of_every_path(name, levels, data):
    topology = TOPOLOGIES[name]
    count = len(topology.edges)
    operations = st.sampled_from(["conv", "conv", "zero", "down"])
    drawn = data.draw(st.lists(operations, min_size=count, max_size=count))
    constraint = Downsamplings(levels, strided=["down"])
    states = tuple(constraint.state(operation, ()) for operation in drawn)
    found = {path.count("down") for path in paths(topology, drawn)}
    expected = "cut" if not found else found.pop() if len(found) == 1 else "wrong"
    if expected != "cut" and expected != "wrong" and expected > levels:
        expected = "wrong"
    assert constraint.state(name, states) == expected


def test_downsamplings_do_not_judge_branches_that_nothing_passes():
    """The branches on the first two edges are in vain, however many strides they have."""
    text = """
        S  -> Residual2 A OP OP
        A  -> Linear2 OP OP | Residual2 OP OP OP
        OP -> id | zero | down
    """
    grammar = Grammar(text, constraints=[Downsamplings(1, ["down"])])
    many = "(A Linear2 (OP down) (OP down))"
    different = "(A Residual2 (OP down) (OP id) (OP id))"
    for dead in (many, different):
        grammar.check(grammar.parse(f"(S Residual2 {dead} (OP down) (OP zero))"))
        for rest in ("(OP id) (OP id)", "(OP down) (OP id)", "(OP zero) (OP id)"):
            with pytest.raises(ValueError, match="violates the constraints"):
                grammar.check(grammar.parse(f"(S Residual2 {dead} {rest})"))


@settings(max_examples=100)
@given(st.sampled_from(PLAIN), st.data())
def test_input_dependent_means_a_path_without_constants(name, data):
    topology = TOPOLOGIES[name]
    count = len(topology.edges)
    drawn = data.draw(st.lists(st.sampled_from(["tanh", "zero"]), min_size=count, max_size=count))
    constraint = InputDependent(["zero"])
    states = tuple(constraint.state(operation, ()) for operation in drawn)
    assert constraint.state(name, states) == bool(paths(topology, drawn))


def test_other_operators_need_all_of_their_arguments():
    assert Connected().state("blend", (True, True)) is True
    assert Connected().state("blend", (True, False)) is None
    levels = Downsamplings(2, ["down"])
    assert levels.state("blend", (1, 1)) == 1 and levels.state("blend", (1, 0)) == "wrong"
    assert InputDependent(["one"]).state("blend", (False, True)) is True
    assert InputDependent(["one"]).state("blend", (False, False)) is False


def test_counts_and_samples_under_both():
    text = "S -> Residual2 OP OP OP \n OP -> conv | pool | zero | down"
    constraints = [Connected(), Downsamplings(1, ["down"])]
    grammar = Grammar(text, constraints=constraints)
    expected = set()
    for drawn in itertools.product(["conv", "pool", "zero", "down"], repeat=3):
        found = paths(TOPOLOGIES["Residual2"], drawn)
        if found and all(path.count("down") == 1 for path in found):
            expected.add(Term("S", "Residual2", [Term("OP", name) for name in drawn]))
    assert grammar.count(constrained=True) == len(expected)
    rng = np.random.default_rng(0)
    for uniform in (False, True):
        assert {grammar.sample(rng, uniform) for _ in range(400)} == expected
    term = grammar.sample(rng)
    for _ in range(50):
        term = grammar.crossover(grammar.mutate(term, rng), grammar.sample(rng), rng)
        assert term in expected


def test_own_constraint():
    class FewConvolutions:
        def state(self, operator, states):
            total = sum(states) + (operator == "conv")
            return total if total <= 1 else None

        def accepts(self, state):
            return True

    text = "S -> f OP OP OP \n OP -> conv | pool"
    assert Grammar(text, constraints=[FewConvolutions()]).count(constrained=True) == 4


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="`levels` must be an integer"):
        Downsamplings(-1, [])
    with pytest.raises(ValueError, match="Cell takes 6 arguments"):
        Grammar("S -> Cell a b", constraints=[Connected()]).count(constrained=True)
