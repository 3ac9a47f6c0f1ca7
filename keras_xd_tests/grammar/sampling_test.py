import collections

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from keras_xd.grammar import Connected, Grammar
from keras_xd.grammar.sampling import below
from keras_xd_tests.grammar import random_grammars


def frequencies(grammar, draws, uniform=False):
    rng = np.random.default_rng(3)
    return collections.Counter(grammar.sample(rng, uniform).formula() for _ in range(draws))


def assert_distributed(found, expected):
    """Every frequency lies within five standard deviations of its expectation."""
    draws = sum(found.values())
    assert set(found) <= set(expected)
    for name, probability in expected.items():
        deviation = (draws * probability * (1 - probability)) ** 0.5
        assert abs(found[name] - draws * probability) <= 5 * deviation, name


@settings(max_examples=25)
@given(random_grammars.productions(), st.integers(1, 3), st.integers(0, 99))
def test_samples_are_terms_within_the_bound(drawn, depth, seed):
    terms = random_grammars.terms(drawn, "A", depth)
    assume(len(terms) < 3000)
    grammar = Grammar(random_grammars.text(drawn), max_depth=depth)
    rng = np.random.default_rng(seed)
    assert {
        str(grammar.sample(rng, uniform)) for uniform in (False, True) for _ in range(9)
    } <= terms


def test_uniform_over_terms():
    # By productions, x alone would have probability one half.
    grammar = Grammar("S -> x | f A A \n A -> y | g B \n B -> u | v | w")
    names = {"x"} | {
        f"f({a}, {b})" for a in ("y", "g(u)", "g(v)", "g(w)") for b in ("y", "g(u)", "g(v)", "g(w)")
    }
    assert grammar.count() == 17
    assert_distributed(frequencies(grammar, 2000, uniform=True), dict.fromkeys(names, 1 / 17))


def test_by_weights():
    grammar = Grammar("S -> f A | x [3] \n A -> y | z | z")
    assert_distributed(
        frequencies(grammar, 2000), {"x": 3 / 4, "f(y)": 1 / 4 / 3, "f(z)": 1 / 4 * 2 / 3}
    )


def test_weights_from_left_to_right_under_a_constraint():
    text = "S -> Residual2 OP OP OP \n OP -> c | zero"
    grammar = Grammar(text, constraints=[Connected()])
    # The edges 12, 13, 23: a zero is offered with probability 1/2 unless it cuts the last path.
    expected = {
        "Residual2(c, c, c)": 1 / 8,
        "Residual2(c, c, zero)": 1 / 8,
        "Residual2(c, zero, c)": 1 / 4,
        "Residual2(zero, c, c)": 1 / 4,
        "Residual2(zero, c, zero)": 1 / 4,
    }
    assert_distributed(frequencies(grammar, 2000), expected)
    assert_distributed(frequencies(grammar, 2000, uniform=True), dict.fromkeys(expected, 1 / 5))


@pytest.mark.parametrize("number", [1, 2, 3, 2**63, 2**64, 3 * 2**80, 10**40])
def test_large_random_integers(number):
    rng = np.random.default_rng(1)
    drawn = [below(rng, number) for _ in range(200)]
    assert all(0 <= value < number for value in drawn)
    counts = np.bincount([4 * value // number for value in drawn], minlength=4)
    if number > 3:
        # Quarters: 50 expected, with a standard deviation of 6.1.
        assert np.all(abs(counts - 50) < 31)
    elif number > 1:
        assert len(set(drawn)) == number
