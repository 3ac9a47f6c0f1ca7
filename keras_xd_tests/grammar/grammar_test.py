import math
import random

import numpy as np
import pytest
from hypothesis import given, settings

from keras_xd.grammar import Connected, Grammar
from keras_xd_tests.grammar import random_grammars

TEXT = "S -> f A A | g A \n A -> x | y"


@settings(max_examples=25)
@given(random_grammars.productions())
def test_a_grammar_is_its_text(drawn):
    grammar = Grammar(random_grammars.text(drawn), max_depth=2)
    again = Grammar(str(grammar), start=grammar.start, max_depth=2)
    assert str(again) == str(grammar) and again.count() == grammar.count()
    assert grammar.nonterminals == tuple(drawn)
    for text in random_grammars.terms(drawn, "A", 2):
        assert str(again.parse(text)) == text


def test_recursive_grammars_parse_without_bound_and_no_more():
    grammar = Grammar("S -> f S | x")
    assert grammar.max_depth == math.inf
    term = grammar.parse("(S f (S f (S x)))")
    rng = np.random.default_rng(0)
    for use in (
        grammar.count,
        lambda: grammar.sample(rng),
        lambda: grammar.sample(rng, uniform=True),
        lambda: grammar.mutate(term, rng),
        lambda: grammar.crossover(term, term, rng),
        lambda: grammar.check(term),
        grammar.first,
    ):
        with pytest.raises(ValueError, match="needs a bound of the depth"):
            use()
    with pytest.raises(ValueError, match="depth must be at most 2"):
        Grammar("S -> f S | x", max_depth=2).parse(str(term))


@pytest.mark.parametrize("rng", [None, 0, random.Random(0), np.random.RandomState(0), np.random])
def test_random_generators_are_checked(rng):
    grammar = Grammar(TEXT)
    term = grammar.parse("(S g (A x))")
    for use in (
        lambda: grammar.sample(rng),
        lambda: grammar.mutate(term, rng),
        lambda: grammar.crossover(term, term, rng),
    ):
        with pytest.raises(ValueError, match=r"must be a numpy.random.Generator"):
            use()


def test_impossible_constraints():
    grammar = Grammar("S -> Linear1 OP \n OP -> zero", constraints=[Connected()])
    assert grammar.count() == 1 and grammar.count(constrained=True) == 0
    for uniform in (False, True):
        with pytest.raises(ValueError, match="must admit at least one term"):
            grammar.sample(np.random.default_rng(0), uniform)
    with pytest.raises(ValueError, match="must admit at least one term"):
        grammar.first()


def test_first_term():
    text = "S -> Residual2 OP OP OP | x \n OP -> zero | conv | f OP"
    assert Grammar(text, max_depth=3).first().formula() == "Residual2(zero, zero, zero)"
    connected = Grammar(text, max_depth=3, constraints=[Connected()])
    assert connected.first().formula() == "Residual2(zero, conv, zero)"
    assert Grammar("S -> f S | x", max_depth=3).first().formula() == "f(f(x))"


def test_check_is_stricter_than_parse():
    grammar = Grammar("S -> Linear1 OP \n OP -> zero | conv", constraints=[Connected()])
    term = grammar.parse("(S Linear1 (OP zero))")
    with pytest.raises(ValueError, match="violates the constraints"):
        grammar.check(term)
    grammar.check(grammar.parse("(S Linear1 (OP conv))"))


def test_shared_motifs():
    cells = Grammar("CELL -> Linear2 OP op \n OP -> conv | zero", constraints=[Connected()])
    macro = Grammar("S -> Linear2 cell cell | Linear1 cell")
    grammar = macro.share({"cell": cells, "op": Grammar("P -> pool | id")})
    assert grammar.count() == 2 * 2 * 2 and grammar.count(constrained=True) == 2 * 1 * 2
    assert grammar.max_depth == 3 and grammar.constraints == cells.constraints
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(60):
        term = grammar.mutate(grammar.sample(rng), rng)
        assert grammar.parse(str(term)) == term
        seen.add(term)
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("motifs", "start", "rule"),
    [
        ({}, "SHARED", "There must be a motif"),
        ({"x": Grammar("C -> c")}, "T U", "the new start a symbol"),
        ({"z": Grammar("C -> c")}, "SHARED", "must be a terminal"),
        ({"x": Grammar("C -> c"), "z": Grammar("D -> d")}, "SHARED", "must be a terminal"),
        ({"x": Grammar("S -> c")}, "SHARED", "must have different nonterminals"),
        ({"x": Grammar("C -> c")}, "C", "must have different nonterminals"),
    ],
)
def test_motifs_are_checked(motifs, start, rule):
    with pytest.raises(ValueError, match=rule):
        Grammar(TEXT).share(motifs, start=start)


def test_wrong_numbers_of_arguments_are_refused():
    with pytest.raises(ValueError, match="Residual2 takes 3 arguments.*S -> Residual2 A A with 2"):
        Grammar("S -> Residual2 A A\nA -> conv")
