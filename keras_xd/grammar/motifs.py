"""Shared motifs: terms that hold other terms for their terminal symbols. Pure Python."""

from keras_xd.core.argument_types import check_types
from keras_xd.grammar.terms import Term

SHARE = "share:"


@check_types
def motif_terms(term: Term) -> tuple[Term, dict[str, Term]]:
    """Split a term of a grammar made by `Grammar.share` into the whole and its motifs.

    These are given by their symbols, with later motifs inserted; none of their nodes is found
    elsewhere. A term without motifs gives itself and an empty dictionary.
    """
    if not term.operator.startswith(SHARE) or not term.arguments:
        return term, {}
    symbols = term.operator[len(SHARE) :].split(":")
    main, *motifs = term.arguments
    if len(symbols) != len(motifs):
        raise ValueError(
            "A term with shared motifs has one argument for each, after the main term. "
            f"Received: {term.operator[:80]} with {len(term.arguments)} arguments"
        )
    known = {}
    for symbol, motif in reversed(list(zip(symbols, motifs, strict=True))):
        known[symbol] = _own_leaves(motif).substitute(known)
    return main, known


@check_types
def expand(term: Term) -> Term:
    """Return a term with shared motifs inserted wherever they stand.

    Args:
        term: a term of a grammar made by `Grammar.share`; any other term is returned as it is.

    Returns:
        The `Term` without motifs. Each motif is one object at all its places.

    Example:

    >>> from keras_xd.grammar import expand, parse
    >>> print(expand(parse("(SHARED share:op (S Linear2 op op) (OP conv))")))
    (S Linear2 (OP conv) (OP conv))
    """
    main, motifs = motif_terms(term)
    return main.substitute(motifs) if motifs else term


def _own_leaves(term):
    """Return an equal term in which every node is an object of its own."""
    results, stack = [], [(term, False)]
    while stack:
        node, complete = stack.pop()
        if not complete:
            stack.append((node, True))
            stack.extend((argument, False) for argument in reversed(node.arguments))
            continue
        count = len(node.arguments)
        arguments = results[len(results) - count :]
        del results[len(results) - count :]
        results.append(Term(node.nonterminal, node.operator, arguments))
    return results[0]
