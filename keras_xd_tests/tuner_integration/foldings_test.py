"""Levels that are left out are those whose foldings say nothing of their own."""

import numpy as np
import pytest

from keras_xd.grammar import Grammar, expand, spaces
from tuner_integration.foldings import useful_levels

SPACES = [
    spaces.hierarchical_nas_bench_201,
    spaces.hierarchical_nas_bench_201_shared_cell,
    spaces.nas_bench_201,
    spaces.nas_bench_201_cell,
    spaces.darts_cell,
    spaces.activation_functions,
    lambda: Grammar("S -> f A B \n A -> g B | g B B \n B -> b | c"),
    lambda: Grammar("S -> f S A | a | g A \n A -> b | c", max_depth=5),
    lambda: Grammar("S -> f S A | a | g A \n A -> b | c"),
]


@pytest.mark.parametrize("space", SPACES[:-1])
def test_what_is_left_out_is_constant_or_whole(space):
    grammar, rng = space(), np.random.default_rng(0)
    terms = [expand(grammar.sample(rng)) for _ in range(30)]
    useful = useful_levels(grammar, range(9))
    for level in range(9):
        folded = [term.fold(level).formula() for term in terms]
        constant = len(set(folded)) == 1
        whole = all(text == term.formula() for text, term in zip(folded, terms, strict=True))
        assert (level in useful) == (not constant and not whole), level


def test_recursive_grammars_have_all_levels():
    assert useful_levels(SPACES[-1](), (0, 3, 70)) == (0, 3, 70)
    assert useful_levels(SPACES[-1](), ()) == ()
