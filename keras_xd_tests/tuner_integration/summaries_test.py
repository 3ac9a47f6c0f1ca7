"""Short forms of terms; the tables and summaries themselves are tested with the tuner."""

import numpy as np

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
