"""Foldings of a grammar's terms that differ from each other and from the whole terms."""

from collections.abc import Iterable

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.grammar import Grammar
from keras_xd.grammar.motifs import SHARE


@check_types
def useful_levels(grammar: Grammar, levels: Iterable[int]) -> tuple[int, ...]:
    """Return those of the levels at which terms of a grammar, folded, say something of
    their own.
    """
    levels = tuple(validation.positive_integer(level, "level", least=0) for level in levels)
    productions, height = grammar.rules.productions, grammar.rules.height
    main, depth, motifs = grammar.start, grammar.max_depth, {}
    # Terms are folded with their motifs inserted, at the leaves of the main term or of a motif.
    while productions[main][0].operator.startswith(SHARE):
        production = productions[main][0]
        depth = sum(height[symbol] for symbol in production.arguments)
        main, *inserted = production.arguments
        motifs.update(zip(production.operator[len(SHARE) :].split(":"), inserted, strict=True))
    different = _first_difference(productions, main, motifs)
    return tuple(level for level in levels if different <= level < depth - 1)


def _first_difference(productions, main, motifs):
    """The lowest level at which terms differ: down to it they have no choice."""
    reached, level = {main}, 0
    while reached and all(len({p.operator for p in productions[s]}) == 1 for s in reached):
        if any(len(productions[symbol]) > 1 for symbol in reached):
            return level + 1
        symbols = {symbol for s in reached for symbol in productions[s][0].arguments}
        reached = {motifs.get(symbol, symbol) for symbol in symbols} & productions.keys()
        level += 1
    return level
