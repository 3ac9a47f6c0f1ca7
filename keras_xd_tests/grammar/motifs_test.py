import pytest

from keras_xd.grammar import expand, motif_terms, read_term

TEXT = "(SHARED share:cell:op (S Linear2 cell (C cell)) (CELL Linear2 op conv) (OP pool))"


def test_motifs_are_inserted_at_every_place():
    term = expand(read_term(TEXT))
    assert str(term) == ("(S Linear2 (CELL Linear2 (OP pool) conv) (CELL Linear2 (OP pool) conv))")
    assert term.arguments[0] is term.arguments[1]


def test_parts():
    main, motifs = motif_terms(read_term(TEXT))
    assert str(main) == "(S Linear2 cell (C cell))"
    assert {name: str(term) for name, term in motifs.items()} == {
        "op": "(OP pool)",
        "cell": "(CELL Linear2 (OP pool) conv)",
    }


@pytest.mark.parametrize("text", ["(S Linear2 a b)", "(S x)", "(SHARED share:cell)"])
def test_other_terms_stay(text):
    term = read_term(text)
    assert expand(term) is term and motif_terms(term) == (term, {})


def test_numbers_must_fit():
    with pytest.raises(ValueError, match="one argument for each"):
        expand(read_term("(SHARED share:cell:op (S a) (CELL b))"))
