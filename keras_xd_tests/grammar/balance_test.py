import math

import numpy as np
import pytest

from keras_xd.grammar import Grammar, growth
from keras_xd.grammar.balance import expected_size
from keras_xd.grammar.topologies import TOPOLOGIES


def size(term):
    if not term.arguments:
        return 1
    return TOPOLOGIES[term.operator].copies * sum(size(argument) for argument in term.arguments)


@pytest.mark.parametrize(
    "text",
    [
        "S -> Linear2 S S [2] | conv [3]",
        "S -> Linear2 A id [1] | conv [2]\nA -> Linear2 S S | clone4_add B\nB -> relu",
    ],
)
def test_expected_size_is_the_mean_of_samples(text):
    grammar = Grammar(text, max_depth=60)
    rng = np.random.default_rng(0)
    sizes = [size(grammar.sample(rng)) for _ in range(4000)]
    error = 4 * np.std(sizes) / math.sqrt(4000)
    assert expected_size(grammar) == pytest.approx(np.mean(sizes), abs=error)


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
    assert (expected_size(grammar) == math.inf) == (expected >= 1)
