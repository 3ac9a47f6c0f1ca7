"""Grammars: spaces of architectures. Pure Python."""

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from keras_xd.grammar.constraints import Together
from keras_xd.grammar.counting import Counts
from keras_xd.grammar.motifs import SHARE
from keras_xd.grammar.rules import Rules, is_symbol, read_productions
from keras_xd.grammar.sampling import Sampler
from keras_xd.grammar.terms import Term, parse
from keras_xd.grammar.topologies import TOPOLOGIES
from keras_xd.grammar.variation import Variation


class Grammar:
    """A space of architectures: the terms of a context-free grammar.

    The text has one line for each nonterminal, or several:

        NONTERMINAL -> operator argument argument … | operator … [weight]

    A symbol is a nonterminal if it stands left of an arrow. The first symbol of a right-hand side
    is a terminal, the topology or primitive; the others are what it is applied to. A weight in
    square brackets (1 if there is none) says how likely a right-hand side is drawn; one that is
    repeated counts once, with the sum of its weights. A line may begin with `|` to go on with the
    line before; `#` begins a comment.

    Args:
        text: the productions, at most 500,000 characters.
        start: the start symbol; `None` for the first nonterminal.
        max_depth: bound of the depth of terms, which is the number of nested nonterminals. A
            recursive grammar needs it for everything but parsing.
        constraints: list of constraints, such as `keras_xd.grammar.Connected()`, which sampling,
            mutation and crossover obey. Parsing does not, see `check`.

    Example:

    >>> import numpy as np
    >>> from keras_xd.grammar import Grammar
    >>> grammar = Grammar('''
    ...     S  -> Linear2 OP OP | Residual2 OP OP OP
    ...     OP -> conv [2] | pool | id
    ... ''')
    >>> grammar.count()
    36
    >>> rng = np.random.default_rng(0)
    >>> term = grammar.sample(rng)
    >>> grammar.parse(str(term)) == term
    True
    >>> other = grammar.mutate(term, rng)
    >>> other == term
    False
    >>> child = grammar.crossover(term, other, rng)
    >>> print(grammar.parse("(S Linear2 (OP conv) (OP id))").formula())
    Linear2(conv, id)
    >>> print(grammar.parse("Linear2(conv, id)"))
    (S Linear2 (OP conv) (OP id))

    Reference:
        Schrodi et al., "Towards discovering neural architectures from scratch", 2022, section 2.
    """

    def __init__(
        self,
        text: str,
        start: str | None = None,
        max_depth: int | None = None,
        constraints: Iterable[Any] = (),
    ):
        productions = read_productions(text)
        _check_arguments(productions)
        self.rules = Rules(
            next(iter(productions)) if start is None else start, productions, max_depth
        )
        self.constraints = tuple(constraints)
        constraint = Together(self.constraints) if self.constraints else None
        self._free = Counts(self.rules)
        self._exact = Counts(self.rules, constraint)
        self._possible = Counts(self.rules, constraint, capped=True)
        self._by_weight = Sampler(self._possible)
        self._uniform = Sampler(self._exact, uniform=True)
        self._variation = Variation(self._possible, self._by_weight)

    @property
    def start(self) -> str:
        """The start symbol."""
        return self.rules.start

    @property
    def max_depth(self) -> float:
        """Largest depth of a term, `math.inf` if nothing bounds it."""
        return self.rules.max_depth

    @property
    def nonterminals(self) -> tuple[str, ...]:
        """Tuple of the nonterminals, in the order of the text."""
        return tuple(self.rules.productions)

    @property
    def terminals(self) -> tuple[str, ...]:
        """Sorted tuple of the terminal symbols: topologies, primitives and motifs."""
        return tuple(sorted(self.rules.terminals()))

    def __str__(self) -> str:
        return str(self.rules)

    def __repr__(self) -> str:
        return f"<Grammar {self.start}, {len(self.nonterminals)} nonterminals>"

    def parse(self, text: str) -> Term:
        """Return the term that a text says.

        Args:
            text: what `str(term)` or `term.formula()` gives.
        """
        return parse(text, self.rules).of_grammar(self.rules)

    def check(self, term: Term) -> None:
        """Raise `ValueError` unless `sample` could return this term."""
        self._variation.check(term)

    def count(self, constrained: bool = False) -> int:
        """Return the exact number of distinct terms, an integer.

        Args:
            constrained: whether to count only those that satisfy the constraints.
        """
        counts = self._exact if constrained else self._free
        return sum(counts.accepted(self.max_depth).values())

    def sample(self, rng: np.random.Generator, uniform: bool = False) -> Term:
        """Return a random term that satisfies the constraints.

        Args:
            rng: a `numpy.random.Generator`.
            uniform: `True` for every term with the same probability, which `count` must be able to
                count. `False` draws the productions by their weights, from left to right, among
                those with which the term can still be completed.
        """
        _check_generator(rng)
        sampler = self._uniform if uniform else self._by_weight
        term = sampler.sample(rng, self.start, self.max_depth, self._accepted())
        return term.of_grammar(self.rules)

    def first(self) -> Term:
        """Return the term that takes the first possible alternative everywhere, from left to right.

        It is the same in every process, as a default value has to be.

        Example:

        >>> from keras_xd.grammar import spaces
        >>> print(spaces.nas_bench_201_cell().first().formula())
        Cell(id, id, id, id, id, id)
        """
        term = self._by_weight.sample(None, self.start, self.max_depth, self._accepted())
        return term.of_grammar(self.rules)

    def _accepted(self):
        """States that a whole term may have, `None` without constraints."""
        accepted = self._possible.accepted(self.max_depth)
        if not accepted:
            raise ValueError(
                "The constraints must admit at least one term of the grammar. "
                f"Received: constraints={[type(c).__name__ for c in self.constraints]}"
            )
        return frozenset(accepted) if self.constraints else None

    def mutate(self, term: Term, rng: np.random.Generator) -> Term:
        """Return a mutated term.

        From left to right, every node whose nonterminal has more than one production is grown again
        with probability one by the number of such nodes. Repeated until the term is another one,
        at most 50 times; a grammar of one term gives that.

        Args:
            term: a term that `check` accepts.
            rng: a `numpy.random.Generator`.
        """
        _check_generator(rng)
        return self._variation.mutate(term, rng).of_grammar(self.rules)

    def crossover(self, a: Term, b: Term, rng: np.random.Generator) -> Term:
        """Return `a` with a random part replaced by a random part of `b`.

        Both parts have the same nonterminal, one with more than one production. Repeated until the
        term differs from `a`, at most 50 times; then it is `a`. For both children of two parents
        call it twice.

        Args:
            a: the term that is changed.
            b: the term that gives the part.
            rng: a `numpy.random.Generator`.
        """
        _check_generator(rng)
        return self._variation.crossover(a, b, rng).of_grammar(self.rules)

    def self_crossover(self, term: Term, rng: np.random.Generator) -> Term:
        """Return `term` with a random part replaced by another of its own parts."""
        return self.crossover(term, term, rng)

    def share(self, motifs: Mapping[str, "Grammar"], start: str = "SHARED") -> "Grammar":
        """Return the grammar of terms with shared motifs.

        A motif is a terminal of this grammar that stands for a term of another grammar, the same
        at every occurrence. The new grammar's terms hold both, `(SHARED share:cell (S …cell…)
        (CELL …))`, so that they count, mutate and cross over like others; `expand` inserts the
        motifs. Its depth bound is one more than the largest of the grammars'.

        Args:
            motifs: dictionary from terminals to grammars. A later motif may occur in an earlier
                one.
            start: the new start symbol.

        Example:

        >>> from keras_xd.grammar import Grammar, expand
        >>> macro = Grammar("S -> Linear2 cell cell | Residual2 cell cell cell")
        >>> grammar = macro.share({"cell": Grammar("CELL -> conv | pool")})
        >>> grammar.count()
        4
        >>> term = grammar.parse("(SHARED share:cell (S Linear2 cell cell) (CELL pool))")
        >>> print(expand(term))
        (S Linear2 (CELL pool) (CELL pool))
        """
        grammars = [self, *motifs.values()]
        known = {symbol for grammar in grammars for symbol in grammar.nonterminals}
        if len(known) < sum(len(g.nonterminals) for g in grammars) or start in known:
            raise ValueError(
                "The grammars and the new start symbol must have different nonterminals. "
                f"Received: start={start!r}, " + ", ".join(repr(g) for g in grammars)
            )
        for index, motif in enumerate(motifs, start=1):
            if not any(motif in g.terminals for g in grammars[:index]) or ":" in motif:
                raise ValueError(
                    "A motif must be a terminal, without colon, of the grammar or of an earlier "
                    f"motif. Received: {motif!r}"
                )
        if not motifs or not is_symbol(start):
            raise ValueError(
                "There must be a motif, and the new start a symbol. "
                f"Received: start={start!r}, motifs={list(motifs)}"
            )
        symbols = [SHARE + ":".join(motifs), *(grammar.start for grammar in grammars)]
        lines = [f"{start} -> {' '.join(symbols)}", *(str(grammar) for grammar in grammars)]
        depth = max(grammar.max_depth for grammar in grammars)
        return Grammar(
            "\n".join(lines),
            max_depth=None if depth == math.inf else 1 + depth,
            constraints=list(dict.fromkeys(c for g in grammars for c in g.constraints)),
        )


def _check_arguments(productions):
    """Refuse topologies with wrong numbers of arguments, and nonterminals that are misspelt."""
    for alternatives in productions.values():
        for production in alternatives:
            topology = TOPOLOGIES.get(production.operator)
            count = len(production.arguments)
            if topology is not None and count and count != len(topology.edges):
                raise ValueError(
                    f"{production.operator} takes {len(topology.edges)} arguments; a topology of "
                    "your own needs another name. Received: "
                    f"{production.nonterminal} -> {production} with {count}"
                )
            for symbol in production.arguments:
                if symbol in productions or not symbol.isupper():
                    continue
                near = difflib.get_close_matches(symbol, productions, 1, 0.75)
                if near:
                    raise ValueError(
                        f"'{symbol}' stands left of no arrow. Is the nonterminal '{near[0]}' "
                        "meant? A primitive needs a name less like it, such as one in lower case. "
                        f"Received: {production.nonterminal} -> {production}, nonterminals "
                        f"{list(productions)}"
                    )


def _check_generator(rng):
    if not all(hasattr(rng, name) for name in ("random", "integers", "bytes")):
        raise ValueError(f"`rng` must be a numpy.random.Generator. Received: rng={rng!r}")
