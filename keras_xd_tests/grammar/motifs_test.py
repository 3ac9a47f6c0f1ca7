import pytest

from keras_xd.grammar import expand, parse
from keras_xd.grammar.motifs import motif_terms

TEXT = "(SHARED share:cell:op (S Linear2 cell (C cell)) (CELL Linear2 op conv) (OP pool))"


def test_motifs_are_inserted_at_every_place():
    term = expand(parse(TEXT))
    assert str(term) == ("(S Linear2 (CELL Linear2 (OP pool) conv) (CELL Linear2 (OP pool) conv))")
    assert term.arguments[0] is term.arguments[1]


@pytest.mark.parametrize("text", ["(S Linear2 a b)", "(S x)", "(SHARED share:cell)"])
def test_other_terms_stay(text):
    term = parse(text)
    assert expand(term) is term and motif_terms(term) == (term, {})


def test_numbers_must_fit():
    with pytest.raises(ValueError, match="one argument for each"):
        expand(parse("(SHARED share:cell:op (S a) (CELL b))"))
