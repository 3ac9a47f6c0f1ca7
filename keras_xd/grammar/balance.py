"""Expected size of random terms, from the weights of productions. Pure Python."""

import math
from collections.abc import Mapping

from keras_xd.core.argument_types import check_types
from keras_xd.grammar.grammar import Grammar
from keras_xd.grammar.rules import reachable
from keras_xd.grammar.topologies import TOPOLOGIES, Topology

_STEPS = 20_000


@check_types
def growth(grammar: Grammar, topologies: Mapping[str, Topology] | None = None) -> float:
    """Return by which factor a random derivation grows from one level to the next in the long run.

    It is the largest eigenvalue of the matrix of how many of each nonterminal one of another gives
    on average. Derivations end, and have a finite expected size, if it is less than 1.

    Args:
        grammar: the grammar; its depth bound and constraints do not count.
        topologies: dictionary from operators to `Topology`, `None` for
            `grammar.topologies.TOPOLOGIES`. Arguments that stand on several edges count as often.

    Returns:
        A number ≥ 0, which is 0 for a grammar that is not recursive.

    Example:

    >>> from keras_xd.grammar import Grammar, growth
    >>> growth(Grammar("S -> Linear2 S S [3] | conv [5]", max_depth=9))
    0.75

    Reference:
        Harris, "The theory of branching processes", 1963, chapter II; for einspace: Ericsson et
        al., 2024.
    """
    rows, _ = _means(grammar, topologies)
    reached = {name: reachable(rows, rows[name]) for name in rows}
    # Nonterminals that lead to each other grow together.
    groups = {frozenset(m for m in reached[n] if n in reached[m]) for n in rows}
    return round(max(_eigenvalue(rows, group) for group in groups), 9)


def _eigenvalue(rows, group):
    """The largest eigenvalue of the nonterminals of a group, by powers."""
    if not group:
        return 0.0
    # With an identity added, no other eigenvalue has its absolute value.
    vector, value = dict.fromkeys(group, 1.0), 0.0
    for _ in range(_STEPS):
        new = {
            n: vector[n] + sum(c * vector[m] for m, c in rows[n].items() if m in group)
            for n in group
        }
        before, value = value, max(new.values())
        vector = {name: number / value for name, number in new.items()}
        if abs(value - before) < 1e-13:
            break
    return value - 1


@check_types
def expected_size(grammar: Grammar, topologies: Mapping[str, Topology] | None = None) -> float:
    """Return the expected number of operations in the network of a random term, or `math.inf`."""
    if growth(grammar, topologies) >= 1:
        return math.inf
    rows, leaves = _means(grammar, topologies)
    sizes = dict(leaves)
    for _ in range(_STEPS):
        new = {n: leaves[n] + sum(c * sizes[m] for m, c in row.items()) for n, row in rows.items()}
        if all(abs(new[name] - sizes[name]) <= 1e-12 * new[name] for name in new):
            break
        sizes = new
    return round(sizes[grammar.start], 9)


def _means(grammar, topologies):
    """How many of each nonterminal, and how many operations, a nonterminal gives on average."""
    topologies = TOPOLOGIES if topologies is None else topologies
    productions = grammar.rules.productions
    rows, leaves = {}, {}
    for name, alternatives in productions.items():
        total = sum(production.weight for production in alternatives)
        rows[name], leaves[name] = {}, 0.0
        for production in alternatives:
            topology = topologies.get(production.operator)
            copies = topology.copies if topology is not None and production.arguments else 1
            share = copies * production.weight / total
            for symbol in production.arguments:
                if symbol in productions:
                    rows[name][symbol] = rows[name].get(symbol, 0.0) + share
                else:
                    leaves[name] += share
            if not production.arguments:
                leaves[name] += share
    return rows, leaves
