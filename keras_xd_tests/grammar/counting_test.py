import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from keras_xd.grammar import counting
from keras_xd.grammar.counting import Counts
from keras_xd.grammar.rules import Rules, read_productions
from keras_xd_tests.grammar import random_grammars


def rules(text, max_depth=None):
    productions = read_productions(text)
    return Rules(next(iter(productions)), productions, max_depth)


class Parity:
    """Terms with an odd or even number of primitives `x`; refuses three `y` in a row."""

    def state(self, operator, states):
        return None if states == ("y",) * 3 else (sum(states) + (operator == "x")) % 2

    def accepts(self, state):
        return state == 1


@settings(max_examples=40)
@given(random_grammars.productions(), st.integers(1, 3))
def test_counts_are_those_of_the_enumeration(drawn, depth):
    found = rules(random_grammars.text(drawn))
    terms = random_grammars.terms(drawn, "A", depth)
    assume(len(terms) < 3000)
    assert sum(Counts(found).by_state("A", depth).values()) == len(terms)
    odd = [t for t in terms if t.replace("(", " ").replace(")", " ").split().count("x") % 2]
    by_state = Counts(found, Parity()).by_state("A", depth)
    assert by_state.get(1, 0) == len(odd) and sum(by_state.values()) == len(terms)
    capped = Counts(found, Parity(), capped=True).by_state("A", depth)
    assert capped == dict.fromkeys(by_state, 1)


def test_too_large_counts_are_refused():
    counts = Counts(rules("S -> f S S | x | y", 60))
    with pytest.raises(ValueError, match="more than a million binary digits"):
        counts.by_state("S", 60)
    capped = Counts(rules("S -> f S S | x | y", 60), capped=True)
    assert capped.by_state("S", 60) == {(): 1}


def test_too_many_combinations_are_refused(monkeypatch):
    assert counting._MOST_COMBINATIONS == 500_000
    monkeypatch.setattr(counting, "_MOST_COMBINATIONS", 5_000)
    text = f"S -> f {'OP ' * 20} \n OP -> x | y"
    with pytest.raises(ValueError, match="at most 5000 combinations"):
        Counts(rules(text), Parity()).by_state("S", 2)
    assert Counts(rules(text)).by_state("S", 2) == {(): 2**20}
