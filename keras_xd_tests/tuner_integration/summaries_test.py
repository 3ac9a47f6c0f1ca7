"""Short forms of terms; the tables and summaries themselves are tested with the tuner."""

import numpy as np
import pytest

from keras_xd.grammar import spaces
from tuner_integration import summaries

TEXT = "(S Linear2 (OP conv) (OP pool))"


def test_outlines_of_large_terms_are_short_and_tell_them_apart():
    space, rng = spaces.hierarchical_nas_bench_201(), np.random.default_rng(0)
    terms = [space.sample(rng) for _ in range(5)]
    outlines = [summaries.outline_of_term(str(term)) for term in terms]
    assert all(len(outline) < 100 for outline in outlines) and len(set(outlines)) == 5
    for term, outline in zip(terms, outlines, strict=True):
        assert outline.startswith(f"#{term.digest()}, {term.size} nodes, {term.formula()[:60]}")
    assert summaries.outline_of_term(TEXT).endswith(", 3 nodes, Linear2(conv, pool)")


@pytest.mark.parametrize("value", [0.5, "adam", "(not a term", None])
def test_other_values_are_formatted_as_before(value):
    assert summaries.short_values(lambda v: f"<{v}>", 18)(value) == f"<{value}>"


def test_terms_fit_into_a_column():
    shown = summaries.short_values(str, 18)(TEXT)
    assert shown == summaries.name_of_term(TEXT)[:18] and len(shown) <= 18
