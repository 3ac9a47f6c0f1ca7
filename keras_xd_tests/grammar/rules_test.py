import math
import time

import pytest
from hypothesis import given, settings

from keras_xd.grammar.rules import Rules, read_productions
from keras_xd_tests.grammar import random_grammars


def rules(text, max_depth=None):
    productions = read_productions(text)
    return Rules(next(iter(productions)), productions, max_depth)


def written(text):
    return {
        left: [(p.operator, p.arguments, p.weight) for p in sides]
        for left, sides in read_productions(text).items()
    }


def test_text_of_several_lines():
    found = written(
        """
        S -> f A A | g A [0.5]   # a comment -> with ( | [
           | h a
        A -> x | y
        A -> x[3]
        """
    )
    assert found == {
        "S": [("f", ("A", "A"), 1.0), ("g", ("A",), 0.5), ("h", ("a",), 1.0)],
        "A": [("x", (), 4.0), ("y", (), 1.0)],
    }


@settings(max_examples=40)
@given(random_grammars.productions())
def test_rules_print_as_they_are_read(drawn):
    text = str(rules(random_grammars.text(drawn)))
    assert str(rules(text)) == text
    for left, sides in drawn.items():
        expected = {side: float(sides.count(side)) for side in sides}
        assert {side[:2]: side[2] for side in written(text)[left]} == expected


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "at least one production"),
        ("S", "A line reads"),
        ("S T -> x", "A line reads"),
        ("S ->", "at least one symbol"),
        ("S -> x |", "at least one symbol"),
        ("S -> [1]", "at least one symbol"),
        ("S -> x [1] y", "A weight ends"),
        ("S -> x [1] [2]", "A weight ends"),
        ("S -> x [0]", "A weight is"),
        ("S -> x [inf]", "A weight is"),
        ("S -> x [1", "A weight is"),
        ("S -> f(x)", "free of brackets"),
        ("S -> x -> y", "free of brackets"),
        ("S -> T \n T -> x", "must be a terminal"),
        ("S -> x \n T -> y", "reachable"),
        ("S -> f S", "finite term"),
        ("S -> f A | x \n A -> g A A", "finite term"),
        (None, "read from a string"),
        ("(" * 100_000, "A line reads"),
        ("S -> " + "(" * 100_000, "free of brackets"),
    ],
)
def test_bad_text(text, rule):
    with pytest.raises(ValueError, match=rule) as refusal:
        rules(text)
    assert "Received: " in str(refusal.value) and len(str(refusal.value)) < 400


def test_a_text_longer_than_any_grammar_is_refused_unread():
    longest = "S -> a" + " |" * 249_997
    assert len(longest) == 500_000
    with pytest.raises(ValueError, match="at least one symbol"):
        read_productions(longest)
    with pytest.raises(ValueError, match="at most 500,000 characters. Received: 500,001"):
        read_productions(longest + " ")


def test_start_must_be_known():
    with pytest.raises(ValueError, match="`start` must be one of"):
        Rules("T", read_productions("S -> x"), None)


@pytest.mark.parametrize("depth", [0, 1, -3, 2.0, True, "3"])
def test_depth_bounds(depth):
    with pytest.raises(ValueError, match="`max_depth` must be an integer of at least 2"):
        rules("S -> f A \n A -> x | f S", depth)


def test_depths():
    found = rules("S -> f A B | x \n A -> g B \n B -> y | f y")
    assert found.height == {"S": 3, "A": 2, "B": 1} and found.max_depth == 3
    assert [found.least_depth[p] for p in found.productions["S"]] == [3, 1]
    assert rules("S -> f S A | x \n A -> y").height == {"S": math.inf, "A": 1}
    assert rules("S -> f S A | x \n A -> y", 5).max_depth == 5
    assert rules("S -> f A | x \n A -> y", 5).max_depth == 2


def test_long_chains_need_no_recursion():
    lines = [f"N{i} -> f N{i + 1}" for i in range(5_000)]
    begin = time.process_time()
    found = rules("\n".join([*lines, "N5000 -> x"]))
    assert found.max_depth == 5_001 == found.least_depth["N0"]
    assert time.process_time() - begin < 3
