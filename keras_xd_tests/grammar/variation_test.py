import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from keras_xd.grammar import Connected, Grammar, parse, spaces
from keras_xd.grammar.terms import Term
from keras_xd_tests.grammar import random_grammars

CELLS = spaces.nas_bench_201_cell()


def operations(cell):
    return [argument.operator for argument in cell.arguments]


def parts(term):
    return {node for node in term.nodes() if node.nonterminal is not None}


@settings(max_examples=25)
@given(random_grammars.productions(), st.integers(1, 3), st.integers(0, 99))
def test_variations_are_terms_within_the_bound(drawn, depth, seed):
    terms = random_grammars.terms(drawn, "A", depth)
    assume(len(terms) < 3000)
    grammar = Grammar(random_grammars.text(drawn), max_depth=depth)
    rng = np.random.default_rng(seed)
    a, b = grammar.sample(rng), grammar.sample(rng)
    for _ in range(4):
        a, b = grammar.mutate(a, rng), grammar.crossover(b, a, rng)
        b = grammar.self_crossover(b, rng)
        assert str(a) in terms and str(b) in terms
        grammar.check(a)


def test_mutation_changes_the_term_and_reaches_every_term():
    grammar = Grammar("S -> f A A | g A \n A -> x | y")
    rng = np.random.default_rng(0)
    term = grammar.sample(rng)
    seen = set()
    for _ in range(100):
        other = grammar.mutate(term, rng)
        assert other != term
        seen.add(term := other)
    assert len(seen) == grammar.count() == 6


def test_each_position_mutates_with_probability_one_by_their_number():
    # Six positions, one in five regrowths the same: a mutation is repeated until one differs.
    grammar = Grammar("CELL -> f OP OP OP OP OP OP \n OP -> a | b | c | d | e")
    rng = np.random.default_rng(0)
    term = grammar.sample(rng)
    draws = 1500
    before = np.array(operations(term))
    mutated = [operations(grammar.mutate(term, rng)) for _ in range(draws)]
    changes = np.array(mutated) != before
    chance = 1 / 6 * 4 / 5
    expected = chance / (1 - (1 - chance) ** 6)
    deviation = (expected * (1 - expected) / draws) ** 0.5
    assert np.all(abs(changes.mean(axis=0) - expected) < 5 * deviation)


def test_crossover_replaces_one_part_by_one_of_the_other():
    grammar = Grammar("S -> f A B | g B A \n A -> x | y | h B \n B -> u | v | w")
    rng = np.random.default_rng(0)
    for _ in range(100):
        a, b = grammar.sample(rng), grammar.sample(rng)
        child = grammar.crossover(a, b, rng)
        replaced = [
            new for new in parts(child) if new in parts(b) and _differs_only_in(a, child, new)
        ]
        assert replaced or child == a


def _differs_only_in(a, child, new):
    """Whether `child` is `a` with one part of the same nonterminal replaced by `new`."""
    if child == new:
        return a.nonterminal == new.nonterminal
    if a.operator != child.operator or len(a.arguments) != len(child.arguments):
        return False
    different = [(x, y) for x, y in zip(a.arguments, child.arguments, strict=True) if x != y]
    return len(different) == 1 and _differs_only_in(*different[0], new)


def test_self_crossover_uses_parts_of_the_term():
    grammar = Grammar("S -> f A A A \n A -> x | y | z")
    term = grammar.parse("(S f (A x) (A y) (A x))")
    rng = np.random.default_rng(0)
    seen = {grammar.self_crossover(term, rng).formula() for _ in range(100)}
    assert seen == {"f(y, y, x)", "f(x, x, x)", "f(x, y, y)"}


def test_variations_obey_the_constraint():
    rng = np.random.default_rng(0)
    term = CELLS.parse("(CELL Cell" + " (OPS zero)" * 3 + " (OPS id)" + " (OPS zero)" * 2 + ")")
    zeros = 0
    for _ in range(300):
        term = CELLS.mutate(CELLS.crossover(term, CELLS.sample(rng), rng), rng)
        state = Connected().state("Cell", tuple(name != "zero" for name in operations(term)))
        assert state is True
        zeros += operations(term).count("zero")
    assert zeros > 150


@pytest.mark.parametrize(
    ("term", "rule"),
    [
        ("(CELL Cell)", "A term is needed"),
        (parse("(OPS id)"), "must begin with CELL"),
        (parse("(CELL Cell (OPS id))"), "one of the grammar's"),
        (Term("CELL", "Cell", [Term("OPS", "convolution")] * 6), "one of the grammar's"),
        (Term("CELL", "Cell", [Term("OPS", "zero")] * 6), "violates the constraints"),
    ],
)
def test_other_terms_are_refused(term, rule):
    rng = np.random.default_rng(0)
    for vary in (CELLS.check, lambda term: CELLS.mutate(term, rng)):
        with pytest.raises(ValueError, match=rule):
            vary(term)
    with pytest.raises(ValueError, match=rule):
        CELLS.crossover(CELLS.sample(rng), term, rng)


class Chosen:
    """A generator that mutates these positions, and draws the rest at random."""

    def __init__(self, positions, seed):
        self.positions, self.rng = positions, np.random.default_rng(seed)
        self.integers, self.bytes = self.rng.integers, self.rng.bytes

    def random(self, size=None):
        if size is None:
            return self.rng.random()
        drawn = np.ones(size)
        drawn[list(self.positions)] = 0.0
        return drawn


def test_all_positions_of_a_mutation_are_those_of_the_term():
    """A part that grows moves the positions behind it, which are mutated before."""
    grammar = Grammar("S -> Linear2 A A \n A -> Linear1 B | Linear2 B B \n B -> a | b | c")
    term = grammar.parse("(S Linear2 (A Linear1 (B a)) (A Linear1 (B b)))")
    firsts, lasts = set(), set()
    for seed in range(40):
        first, second = grammar.mutate(term, Chosen((0, 3), seed)).arguments
        assert second.operator == "Linear1"
        firsts.add(first.operator)
        lasts.add(second.arguments[0].operator)
    assert firsts == {"Linear1", "Linear2"} and lasts == {"a", "b", "c"}
