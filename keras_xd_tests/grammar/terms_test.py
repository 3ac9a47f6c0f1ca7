import copy
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_xd.grammar import Grammar, parse, spaces
from keras_xd.grammar.terms import Term
from keras_xd_tests.grammar.spaces_test import SPACES

DEEP = 100_000
SYMBOLS = st.sampled_from(["a", "Linear2", "conv3x3", "ä", "->", "x:y", "[1]"])
TERMS = st.recursive(
    st.builds(Term, SYMBOLS, SYMBOLS),
    lambda inner: st.builds(
        Term, SYMBOLS, SYMBOLS, st.lists(st.one_of(inner, SYMBOLS), max_size=3)
    ),
    max_leaves=5,
)


def depth(term):
    below = max((depth(argument) for argument in term.arguments), default=0)
    return below + (term.nonterminal is not None)


def deep_text(levels):
    return "(S f " * levels + "(S x)" + ")" * levels


@settings(max_examples=40)
@given(TERMS)
def test_text_is_the_identity(term):
    again = parse(str(term))
    assert again == term and hash(again) == hash(term) and str(again) == str(term)
    assert term.size == sum(1 for _ in term.nodes())
    assert term.depth == depth(term)
    assert parse(str(term).replace(" ", " \n\t ")) == term
    assert copy.deepcopy(term) == term


@settings(max_examples=40)
@given(TERMS)
def test_foldings_grow_to_the_term(term):
    def folded(node, level):
        arguments = [folded(a, level - 1) for a in node.arguments] if level else []
        return Term(node.nonterminal, node.operator, arguments)

    for level in range(term.depth + 2):
        assert term.fold(level) == folded(term, level)
        assert level == 0 or term.fold(level).fold(level - 1) == term.fold(level - 1)
    assert term.fold(term.depth) is term


def test_a_term_cannot_change():
    term = Term("S", "f", ["x"])
    with pytest.raises(AttributeError, match="cannot be changed"):
        term.operator = "g"
    with pytest.raises(ValueError, match="Only an expanded nonterminal"):
        Term(None, "f", ["x"])


def test_levels_are_checked():
    for level in (-1, 1.0, True):
        with pytest.raises(ValueError, match="`level` must be"):
            Term("S", "x").fold(level)


def test_substitution_takes_symbols_and_the_nonterminals_above_them():
    term = parse("(S f cell (A cell) (A g cell))")
    inserted = term.substitute({"cell": parse("(C c)")})
    assert str(inserted) == "(S f (C c) (C c) (A g (C c)))"
    assert inserted.arguments[0] is inserted.arguments[1]
    assert term.substitute({"other": Term("C", "c")}) is term


def test_deep_terms_need_no_recursion():
    levels = 3_000
    text = deep_text(levels)
    grammar = Grammar("S -> f S | x")
    a, b = parse(text), grammar.parse(text)
    assert a == b and hash(a) == hash(b) and str(a) == text
    assert a.depth == levels + 1 and a.size == levels + 1
    assert a.fold(levels) == a and a.fold(100).depth == 101
    assert len(a.formula()) == 3 * levels + 1 and grammar.parse(a.formula()) == a
    assert str(a.substitute({"x": Term("T", "y")})).count("(S f") == levels
    assert a != a.fold(levels - 1)


HOSTILE = {
    "brackets": "(" * DEEP,
    "deep": deep_text(DEEP),
    "wide": "(D2 Linear3 " + "id " * DEEP + ")",
    "deep formula": "Linear2(" * DEEP,
    "wide formula": "Linear3(" + "id," * DEEP + "id)",
    "unknown symbols": "(D2 Linear3 " + "".join(f"s{i} " for i in range(DEEP)) + ")",
    "long symbol inside": "(D2 " + "x" * 1_000_000 + ")",
    "wrong arity": "(D2 Linear3 (D1 Linear3))",
    "rest": "(OPS id) (OPS id)",
    "nothing": "",
    "no operator": "(D2)",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_at_once(name):
    grammar = spaces.hierarchical_nas_bench_201()
    begin = time.process_time()
    with pytest.raises(ValueError, match="Received: ") as refusal:
        grammar.parse(HOSTILE[name])
    assert time.process_time() - begin < 0.2
    assert len(str(refusal.value)) < 600


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["(", ")", "(A f", "(A x)", "A", "f", "x", " "])).map(" ".join))
def test_any_text_is_a_term_or_a_value_error(text):
    grammar = Grammar("A -> f A x | x", max_depth=3)
    try:
        term = grammar.parse(text)
    except ValueError:
        return
    assert text.replace(" ", "") in [t.replace(" ", "") for t in (str(term), term.formula())]
    assert term.depth <= 3


@pytest.mark.parametrize(
    ("text", "expected", "position"),
    [
        ("(S f b (OPS x))", r"Argument 1 of S f must be \(OPS …\) or a\.", 5),
        ("(S f (S g) a)", r"Argument 1 of S f must be \(OPS …\) or a\.", 6),
        ("(S f OPS a)", r"Argument 1 of S f must be \(OPS …\) or a\.", 5),
        ("(S f (OPS z) a)", r"OPS has no production with this operator; expected x or y\.", 10),
        ("(S f (OPS x))", r"No production S -> f OPS; expected a or b\.", 12),
        ("(S f (OPS x) a a)", r"Argument 3 of S f must be a closing bracket\.", 15),
        ("(S g a)", r"Argument 1 of S g must be a closing bracket\.", 5),
        ("(S f (NO x) a)", r"no such nonterminal; expected \(OPS …\) or a\.", 6),
        ("(NO f)", r"no such nonterminal; expected \(S …\)\.", 1),
        ("(OPS x)", r"must begin with S\.", 1),
        ("(S f (OPS x) b", r"A closing bracket is missing\.", 14),
    ],
)
def test_messages_say_where_and_what_was_expected(text, expected, position):
    grammar = Grammar("S -> f OPS a | f OPS b | f a b | g \n OPS -> x | y")
    with pytest.raises(ValueError, match=rf"{expected} Received: .*\(position {position}\)"):
        grammar.parse(text)


def test_digests_tell_terms_apart_and_are_the_same_in_every_process():
    texts = [f"(S Linear2 {a} {b})" for a in "xyz" for b in "xyz"]
    assert len({parse(text).digest() for text in texts}) == 9
    assert parse(" ( S  Linear2 x y)").digest() == parse("(S Linear2 x y)").digest()
    assert parse("(S Linear2 conv relu)").digest() == "e32bc957"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("f(x, a)", "(S f (OPS x) a)"),
        (" f ( a,b )\n", "(S f a b)"),
        ("g", "(S g)"),
        ("f(f(a, b), x)", "(S f (S f a b) (OPS x))"),
    ],
)
def test_a_grammar_reads_the_notation_of_the_paper(text, tree):
    grammar = Grammar("S -> f OPS a | f a b | f S OPS | g \n OPS -> x | y", max_depth=3)
    term = grammar.parse(text)
    assert str(term) == tree and term.rules is grammar.rules
    assert term.formula() == ", ".join(text.replace(" ", "").strip().split(","))


@pytest.mark.parametrize("space", [*SPACES, spaces.einspace])
def test_formulas_of_the_spaces_are_read_again(space, rng):
    grammar = space()
    for _ in range(20):
        term = grammar.sample(rng)
        assert grammar.parse(term.formula()) == term
        assert parse(parse(term.formula()).formula()).formula() == term.formula()


def test_without_a_grammar_operators_are_applied_by_a_nonterminal_of_no_grammar():
    # The example of the introduction of Schrodi et al.
    text = "Linear(Residual(conv, id, conv), Residual(conv, id, conv), fc)"
    term = parse(text)
    residual = "(TERM Residual conv id conv)"
    assert str(term) == f"(TERM Linear {residual} {residual} fc)" and parse(str(term)) == term
    assert parse("conv").formula() == str(parse("conv")) == "conv"


AMBIGUOUS = "S -> f A | f B | f x | h S S\nA -> x | y\nB -> y | z"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("f(y)", r"more than one reading, \(S f \(A y\)\) or \(S f \(B y\)\)\. Received: 'f\(y\)'"),
        ("h(f(z), f(x))", r"more than one reading, \(S f \(A x\)\) or \(S f x\)\. Received"),
        ("h(f(x), f(z))", r"more than one reading, \(S f \(A x\)\) or \(S f x\)\. Received"),
        ("f(q)", r"no such terminal\. Received: 'f\(q\)' \(position 2\)"),
        ("f(z, z)", r"No production fits in a depth of 3; expected S -> f A or S -> f B .*0\)"),
        ("h(f(z), f(z), z)", r"An operator has at most 2 arguments\. .*position 15\)"),
        ("h(f(z), z)", r"No production fits in a depth of 3; expected S -> h S S\. .*position 0\)"),
        ("x(y)", r"No production fits in a depth of 3; expected A -> x\. .*position 0\)"),
        ("z", r"must be one of S; it is one of B or z\."),
        ("f(z", r"closing bracket is missing\. .*position 3\)"),
        ("f(z,", r"closing bracket is missing\. .*position 4\)"),
        ("f()", r"A symbol must stand here\. .*position 2\)"),
        ("f(z,,z)", r"A symbol must stand here\. .*position 4\)"),
        ("f(z))", r"The term has ended\. .*position 4\)"),
        ("f(z)(z)", r"The term has ended\. .*position 4\)"),
        ("f z", r"The term has ended\. .*position 2\)"),
        ("h(f(z) f(z))", r"A comma or a bracket must stand here\. .*position 7\)"),
        ("h(h(f(z), f(z)), f(z))", r"No production fits in a depth of 3; .*position 4\)"),
        ("h(h(h(f(z), f(z)), f(z)), f(z))", r"depth must be at most 3\. .*position 7\)"),
    ],
)
def test_what_no_grammar_or_more_than_one_term_reads_is_refused(text, rule):
    with pytest.raises(ValueError, match=rule):
        Grammar(AMBIGUOUS, max_depth=3).parse(text)
