"""Production rules of a context-free grammar, read from text. Pure Python."""

import dataclasses
import math
import re

from keras_xd.core import validation

LONGEST_TEXT = 500_000  # characters, many times any grammar's, read in tens of milliseconds
# Not a parser generator: a line is read by one expression, and errors name the production at fault.
_TOKEN = re.compile(r"\[[^\]\[]*\]|->|\||(?:(?!->)[^\s\[\]()|#])+|\S")
_WEIGHT = re.compile(r"\[\s*([0-9.eE+-]+)\s*\]")
_SYMBOL = re.compile(r"(?:(?!->)[^\s\[\]()|#])+")


@dataclasses.dataclass(frozen=True, eq=False)  # one object each, compared by identity
class Production:
    """One way to expand a nonterminal.

    Attributes:
        nonterminal: the symbol on the left.
        operator: the first symbol on the right, a terminal: a topology or a primitive.
        arguments: the other symbols on the right.
        weight: how likely it is drawn, compared with the other productions of the nonterminal.
    """

    nonterminal: str
    operator: str
    arguments: tuple
    weight: float = 1.0

    def __str__(self) -> str:
        weight = "" if self.weight == 1 else f" [{self.weight:g}]"
        if self.weight != float(f"{self.weight:g}"):
            weight = f" [{self.weight!r}]"
        return " ".join([self.operator, *self.arguments]) + weight


class Rules:
    """The productions of a grammar and what follows from them.

    Attributes:
        start: the start symbol.
        productions: dictionary from each nonterminal to the tuple of its productions, distinct.
        following: nested dictionaries from each nonterminal to its operators, from those to their
            first arguments and so on; `None` where a production may end.
        by_operator: dictionary from each operator to the list of its productions.
        least_depth: dictionary from each production and nonterminal to its least possible depth.
        height: dictionary from each nonterminal to the largest depth of its terms, `math.inf` if
            it is recursive.
        max_depth: bound of the depth of whole terms.
    """

    def __init__(self, start, productions, max_depth):
        self.start = start
        self.productions = productions
        self.following, self.by_operator = {}, {}
        for nonterminal, alternatives in productions.items():
            for production in alternatives:
                self.by_operator.setdefault(production.operator, []).append(production)
                node = self.following.setdefault(nonterminal, {})
                for symbol in (production.operator, *production.arguments, None):
                    node = node.setdefault(symbol, {})
        self._by_symbols = {
            (production.nonterminal, production.operator, production.arguments): production
            for alternatives in productions.values()
            for production in alternatives
        }
        _check_reachable(start, productions)
        self.least_depth = _least_depths(productions)
        self.height = _heights(productions)
        self.max_depth = self._bounded(max_depth)

    def _bounded(self, max_depth):
        least = self.least_depth[self.start]
        if max_depth is None:
            return self.height[self.start]
        if not validation.is_integer(max_depth) or max_depth < least:
            raise ValueError(
                f"`max_depth` must be an integer of at least {least}, the depth of the smallest "
                f"term. Received: max_depth={max_depth!r}"
            )
        return min(int(max_depth), self.height[self.start])

    def production(self, term):
        """Return the production that the root of `term` applies, or `None`."""
        symbols = tuple([a.nonterminal or a.operator for a in term.arguments])
        return self._by_symbols.get((term.nonterminal, term.operator, symbols))

    def terminals(self):
        """Return the set of all terminal symbols, operators among them."""
        return {
            symbol
            for production in self._by_symbols.values()
            for symbol in (production.operator, *production.arguments)
            if symbol not in self.productions
        }

    def __str__(self) -> str:
        return "\n".join(
            f"{nonterminal} -> {' | '.join(str(production) for production in alternatives)}"
            for nonterminal, alternatives in self.productions.items()
        )


def read_productions(text):
    """Read productions from text."""
    if not isinstance(text, str):
        raise ValueError(f"A grammar is read from a string. Received: {repr(text)[:80]}")
    if len(text) > LONGEST_TEXT:
        raise ValueError(
            f"A grammar has at most {LONGEST_TEXT:,} characters. Received: {len(text):,}"
        )
    weights, left = {}, None
    for number, line in enumerate(text.splitlines(), start=1):
        tokens = _TOKEN.findall(line.split("#")[0])
        if not tokens:
            continue
        if tokens[0] == "|" and left is not None:
            tokens = tokens[1:]
        elif len(tokens) > 1 and tokens[1] == "->" and is_symbol(tokens[0]):
            left, tokens = tokens[0], tokens[2:]
        else:
            raise _error("A line reads `NONTERMINAL -> operator argument … | …`", number, line)
        alternatives = weights.setdefault(left, {})
        for symbols, weight in _alternatives(tokens, number, line):
            alternatives[symbols] = alternatives.get(symbols, 0) + weight
    if not weights:
        raise ValueError(f"A grammar has at least one production. Received: text={text[:80]!r}")
    for left, alternatives in weights.items():
        for symbols in alternatives:
            if symbols[0] in weights:
                raise ValueError(
                    "The first symbol of a right-hand side must be a terminal, a topology or a "
                    f"primitive. Received: {left} -> {' '.join(symbols)[:80]}"
                )
    return {
        left: tuple(
            Production(left, symbols[0], symbols[1:], weight)
            for symbols, weight in alternatives.items()
        )
        for left, alternatives in weights.items()
    }


def is_symbol(text):
    """Return whether `text` can be a symbol: not empty, without white space, `->` and `()[]|#`."""
    return isinstance(text, str) and bool(_SYMBOL.fullmatch(text))


def _alternatives(tokens, number, line):
    """Yield `(symbols, weight)` of each right-hand side between the bars of one line."""
    symbols, weight = [], None
    for token in [*tokens, "|"]:
        if token == "|":
            if not symbols:
                raise _error("A right-hand side has at least one symbol", number, line)
            yield tuple(symbols), 1.0 if weight is None else weight
            symbols, weight = [], None
        elif weight is not None:
            raise _error("A weight ends a right-hand side", number, line)
        elif token[0] == "[":
            weight = _weight(token, number, line)
        elif is_symbol(token):
            symbols.append(token)
        else:
            raise _error("Symbols are free of brackets and arrows", number, line)


def _weight(token, number, line):
    match = _WEIGHT.fullmatch(token)
    try:
        weight = float(match.group(1)) if match else 0.0
    except ValueError:
        weight = 0.0
    if not 0 < weight < math.inf:
        raise _error("A weight is a positive number in square brackets", number, line)
    return weight


def _error(rule, number, line):
    return ValueError(f"{rule}. Received: line {number}, {line.strip()[:80]!r}")


def reachable(neighbours, starts):
    """Return the set of what can be reached from `starts` by a dictionary of neighbours."""
    reached, stack = set(starts), list(starts)
    while stack:
        for node in neighbours.get(stack.pop(), ()):
            if node not in reached:
                reached.add(node)
                stack.append(node)
    return reached


def _check_reachable(start, productions):
    if start not in productions:
        raise ValueError(
            f"`start` must be one of the nonterminals. Received: start={repr(start)[:80]}"
        )
    used = {name: [s for p in sides for s in p.arguments] for name, sides in productions.items()}
    reached = reachable(used, [start])
    missed = [nonterminal for nonterminal in productions if nonterminal not in reached]
    if missed:
        raise ValueError(
            f"Every nonterminal must be reachable from {start}. Received: {_listed(missed)}"
        )


def _least_depths(productions):
    """Depth of the smallest term of each production and nonterminal, level by level."""
    waiting, missing = {}, {}
    ready, least = [], {}
    for alternatives in productions.values():
        for production in alternatives:
            needed = {symbol for symbol in production.arguments if symbol in productions}
            missing[production] = len(needed)
            for symbol in needed:
                waiting.setdefault(symbol, []).append(production)
            if not needed:
                ready.append(production)
    depth = 0
    while ready:
        depth += 1
        found = []
        for production in ready:
            least[production] = depth
            if production.nonterminal not in least:
                least[production.nonterminal] = depth
                found.append(production.nonterminal)
        ready = []
        for nonterminal in found:
            for production in waiting.get(nonterminal, ()):
                missing[production] -= 1
                if not missing[production]:
                    ready.append(production)
    endless = [nonterminal for nonterminal in productions if nonterminal not in least]
    if endless:
        raise ValueError(f"Every nonterminal must have a finite term. Received: {_listed(endless)}")
    return least


def _heights(productions):
    """Largest depth of each nonterminal's terms; infinite where a nonterminal is recursive."""
    needs = {
        nonterminal: {s for p in alternatives for s in p.arguments if s in productions}
        for nonterminal, alternatives in productions.items()
    }
    users = {}
    for nonterminal, symbols in needs.items():
        for symbol in symbols:
            users.setdefault(symbol, []).append(nonterminal)
    missing = {nonterminal: len(symbols) for nonterminal, symbols in needs.items()}
    ready = [nonterminal for nonterminal, count in missing.items() if not count]
    heights = {}
    while ready:
        nonterminal = ready.pop()
        heights[nonterminal] = 1 + max((heights[s] for s in needs[nonterminal]), default=0)
        for user in users.get(nonterminal, ()):
            missing[user] -= 1
            if not missing[user]:
                ready.append(user)
    return {nonterminal: heights.get(nonterminal, math.inf) for nonterminal in productions}


def _listed(names):
    more = "" if len(names) <= 8 else f", … ({len(names)} of them)"
    return ", ".join(name[:40] for name in names[:8]) + more
