"""Mutation and crossover of terms. Pure Python."""

from keras_xd.grammar.counting import check_finite
from keras_xd.grammar.terms import Term

_TRIES = 50


class Variation:
    """Varies the terms of one grammar, within its depth bound and constraint."""

    def __init__(self, counts, sampler):
        self.counts = counts
        self.rules = counts.rules
        self.sampler = sampler
        changing = [n for n, productions in self.rules.productions.items() if len(productions) > 1]
        self._index = {nonterminal: index for index, nonterminal in enumerate(changing)}
        self._none = (0,) * len(changing)

    def mutate(self, term, rng):
        """Return `term` with each position regrown with probability one by their number."""
        self.check(term)
        total = sum(self._counted(term))
        for _ in range(_TRIES if total else 0):
            result = term
            # From the right, so that the positions further left stay what they are.
            for position in reversed((rng.random(total) < 1 / total).nonzero()[0]):
                result = self._regrown(result, int(position), rng)
            if result != term:
                return result
        return term

    def crossover(self, term, donor, rng):
        """Return `term` with one part replaced by one of `donor` with the same nonterminal."""
        self.check(term)
        self.check(donor)
        total = sum(self._counted(term))
        for _ in range(_TRIES if total else 0):
            path, old = self._located(term, int(rng.integers(total)))
            kind = self._index[old.nonterminal]
            number = self._counted(donor)[kind]
            if not number:
                continue
            _, new = self._located(donor, int(rng.integers(number)), kind)
            if new == old or new.depth > self.rules.max_depth - len(path):
                continue
            allowed = self._allowed(path)
            if allowed is None or self._facts(new)[1] in allowed:
                return _replaced(path, new)
        return term

    def check(self, term):
        """Raise `ValueError` unless the grammar, its depth bound and constraint admit the term."""
        if not isinstance(term, Term):
            raise ValueError(f"A term is needed. Received: {repr(term)[:80]}")
        check_finite(self.rules.max_depth)
        if term.nonterminal != self.rules.start or term.depth > self.rules.max_depth:
            raise ValueError(
                f"The term must begin with {self.rules.start} and have a depth of at most "
                f"{self.rules.max_depth}. Received: depth {term.depth}, {str(term)[:80]!r}"
            )
        state = self._facts(term)[1]
        if state is None or not self._accepts(state):
            raise ValueError(
                f"The term violates the constraints of the grammar. Received: {str(term)[:80]!r}"
            )

    def _accepts(self, state):
        return self.counts.constraint is None or self.counts.constraint.accepts(state)

    def _counted(self, term):
        return self._facts(term)[0]

    def _facts(self, term):
        """Positions under a node by nonterminal, and its state; kept with the node."""
        stack = [term]
        while stack:
            node = stack[-1]
            if node.notes[0] is self:
                stack.pop()
                continue
            missing = [a for a in node.arguments if a.notes[0] is not self]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            node.notes[:] = self, self._new_facts(node)
        return term.notes[1]

    def _new_facts(self, node):
        if node.nonterminal is None:
            return self._none, self.counts.state(node.operator)
        if self.rules.production(node) is None:
            raise ValueError(
                f"The term must be one of the grammar's. Received: {str(node.fold(1))[:80]!r}"
            )
        known = [argument.notes[1] for argument in node.arguments]
        counted = tuple(map(sum, zip(self._none, *[facts[0] for facts in known], strict=True)))
        own = self._index.get(node.nonterminal)
        if own is not None:
            counted = (*counted[:own], counted[own] + 1, *counted[own + 1 :])
        states = tuple([facts[1] for facts in known])
        state = None if None in states else self.counts.state(node.operator, states)
        return counted, state

    def _located(self, term, position, kind=None):
        """Return the path to a position, as `(node, argument index)`, and the node there."""
        path, node = [], term
        while True:
            own = self._index.get(node.nonterminal)
            if own is not None and kind in (None, own):
                if position == 0:
                    return path, node
                position -= 1
            for index, argument in enumerate(node.arguments):
                counted = self._counted(argument)
                number = sum(counted) if kind is None else counted[kind]
                if position < number:
                    path.append((node, index))
                    node = argument
                    break
                position -= number

    def _allowed(self, path):
        """States that a part may have, given the rest of the term; `None` if unconstrained."""
        if self.counts.constraint is None:
            return None
        options = self.counts.by_state
        allowed = {
            state
            for state in options(self.rules.start, self.rules.max_depth)
            if self._accepts(state)
        }
        for level, (node, index) in enumerate(path, start=1):
            states = [self._facts(argument)[1] for argument in node.arguments]
            part = node.arguments[index].nonterminal
            allowed = {
                state
                for state in options(part, self.rules.max_depth - level)
                if self.counts.state(node.operator, (*states[:index], state, *states[index + 1 :]))
                in allowed
            }
        return frozenset(allowed)

    def _regrown(self, term, position, rng):
        path, node = self._located(term, position)
        allowed = self._allowed(path)
        depth = self.rules.max_depth - len(path)
        return _replaced(path, self.sampler.sample(rng, node.nonterminal, depth, allowed))


def _replaced(path, new):
    """Return the whole term with the part at the end of a path replaced."""
    for node, index in reversed(path):
        arguments = (*node.arguments[:index], new, *node.arguments[index + 1 :])
        new = Term(node.nonterminal, node.operator, arguments)
    return new
