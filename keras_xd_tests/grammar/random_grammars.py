"""Random small grammars, and their terms enumerated from the definition."""

import itertools

from hypothesis import strategies

SYMBOLS = ("A", "B", "C", "x", "y")


@strategies.composite
def productions(draw):
    """Return `{nonterminal: [(operator, arguments), …]}`, every nonterminal reachable from A."""
    side = strategies.tuples(
        strategies.sampled_from(("f", "g", "x")),
        strategies.lists(strategies.sampled_from(SYMBOLS), max_size=2).map(tuple),
    )
    # Every nonterminal has a primitive, so that it has a finite term.
    sides = strategies.lists(side, max_size=2).map(lambda drawn: [("p", ()), *drawn])
    found, waiting = {}, ["A"]
    while waiting:
        symbol = waiting.pop()
        if symbol not in found:
            found[symbol] = draw(sides)
            used = {s for _, arguments in found[symbol] for s in arguments}
            waiting += sorted(used & {"A", "B", "C"})
    return found


def text(rules):
    """Return the rules as text."""
    return "\n".join(
        f"{left} -> {' | '.join(' '.join([operator, *right]) for operator, right in sides)}"
        for left, sides in rules.items()
    )


def terms(rules, symbol, depth):
    """Return the set of the texts of all terms of at most a depth, by the definition."""
    if symbol not in rules:
        return {symbol}
    if depth == 0:
        return set()
    found = set()
    for operator, right in rules[symbol]:
        options = [terms(rules, s, depth - 1) for s in right]
        for arguments in itertools.product(*options):
            found.add(f"({' '.join([symbol, operator, *arguments])})")
    return found
