import numpy as np
import pytest

from keras_xd.grammar import Grammar, growth


@pytest.mark.parametrize("seed", range(2))
def test_growth_is_the_largest_eigenvalue(seed):
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 9, (3, 4)).tolist()
    names = "ABC"
    text = "\n".join(
        f"{a} -> Linear2 A B [{w[0]}] | Linear2 C C [{w[1]}] | Linear1 B [{w[2]}] | x [{w[3]}]"
        for a, w in zip(names, weights, strict=True)
    )
    matrix = [[w[0], w[0] + w[2], 2 * w[1]] for w in weights]
    matrix = np.array(matrix) / np.sum(weights, axis=1, keepdims=True)
    expected = max(abs(np.linalg.eigvals(matrix)))
    grammar = Grammar(text, max_depth=9)
    assert growth(grammar) == pytest.approx(expected, abs=1e-6)


def test_nonterminals_that_do_not_lead_back_are_no_part_of_growth():
    text = "S -> Linear2 S A [1] | id [1]\nA -> Linear2 A B [1] | id [1]\nB -> Linear2 B id | id"
    assert growth(Grammar(text, max_depth=9)) == 0.5  # of three equal eigenvalues
    assert growth(Grammar("S -> Linear2 A A\nA -> id", max_depth=9)) == 0.0
