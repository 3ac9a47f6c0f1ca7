"""Growth of random terms, from the weights of productions."""

from collections.abc import Mapping

import numpy as np

from keras_xd.core.argument_types import check_types
from keras_xd.grammar.grammar import Grammar
from keras_xd.grammar.rules import reachable
from keras_xd.grammar.topologies import TOPOLOGIES, Topology


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
    rows = _means(grammar, TOPOLOGIES if topologies is None else topologies)
    reached = {name: reachable(rows, rows[name]) for name in rows}
    largest = 0.0
    for name in rows:
        # Nonterminals that lead to each other grow together.
        group = [other for other in reached[name] if name in reached[other]]
        matrix = np.array([[rows[n].get(m, 0.0) for m in group] for n in group])
        if group:
            largest = max(largest, *np.abs(np.linalg.eigvals(matrix)))
    return round(float(largest), 9)


def _means(grammar, topologies):
    """How many of each nonterminal a nonterminal gives on average."""
    productions = grammar.rules.productions
    rows = {}
    for name, alternatives in productions.items():
        total = sum(production.weight for production in alternatives)
        rows[name] = {}
        for production in alternatives:
            topology = topologies.get(production.operator)
            copies = topology.copies if topology is not None and production.arguments else 1
            for symbol in production.arguments:
                if symbol in productions:
                    more = copies * production.weight / total
                    rows[name][symbol] = rows[name].get(symbol, 0.0) + more
    return rows
