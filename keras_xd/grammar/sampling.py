"""Random terms: by the productions' weights or uniform over all terms. Pure Python."""

import bisect
import itertools

from keras_xd.grammar.terms import Term


class Sampler:
    """Draws terms, never one that the depth bound or the constraint refuses."""

    def __init__(self, counts, uniform=False):
        self.counts = counts
        self.uniform = uniform
        self._choices = {}
        self._allowed = {}
        self._leaves = {}

    def sample(self, rng, nonterminal, depth, allowed=None):
        """Return a random term."""
        counts, nonterminals, known = self.counts, self.counts.rules.productions, {}
        # An open node: its production, the states that its arguments shall have, its depth bound,
        # the states that it may have, its arguments so far and their states.
        stack = [(*self._drawn(rng, nonterminal, depth, allowed), allowed, [], [])]
        while True:
            production, plan, depth, allowed, arguments, states = stack[-1]
            if len(arguments) == len(production.arguments):
                stack.pop()
                term = self._leaf(production.nonterminal, production.operator)
                if arguments:
                    term = Term(production.nonterminal, production.operator, arguments)
                if not stack:
                    return term
                state = counts.state(production.operator, tuple(states))
                if rng is None:
                    known[production.nonterminal, depth, allowed] = term, state
                arguments, states = stack[-1][4:]
            else:
                symbol, nonterminal = production.arguments[len(arguments)], None
                if symbol in nonterminals:
                    wanted = allowed
                    if allowed is not None:
                        wanted = self._wanted(production, plan, depth, allowed, tuple(states))
                    drawn = self._drawn(rng, symbol, depth - 1, wanted)
                    again = known.get((symbol, drawn[2], wanted))
                    if again is not None:
                        arguments.append(again[0])
                        states.append(again[1])
                        continue
                    if drawn[0].arguments:
                        stack.append((*drawn, wanted, [], []))
                        continue
                    symbol, nonterminal = drawn[0].operator, symbol
                term, state = self._leaf(nonterminal, symbol), counts.state(symbol)
            arguments.append(term)
            states.append(state)

    def _drawn(self, rng, nonterminal, depth, allowed):
        """Draw the production of a node: `(production, states of its arguments, depth)`."""
        depth = self.counts.depth(nonterminal, depth)
        key = (nonterminal, depth, allowed)
        if key not in self._choices:
            self._choices[key] = self._alternatives(*key)
        choices, sums = self._choices[key]
        if len(choices) == 1 or rng is None:
            drawn = 0
        elif self.uniform:
            drawn = bisect.bisect_right(sums, below(rng, sums[-1]))
        else:
            # A product can round up to the sum of all weights.
            drawn = min(bisect.bisect_right(sums, rng.random() * sums[-1]), len(choices) - 1)
        return (*choices[drawn], depth)

    def _alternatives(self, nonterminal, depth, allowed):
        """What can be drawn at a node, with running sums of its weights or counts."""
        counts, choices, weights = self.counts, [], []
        for production in counts.possible(nonterminal, depth):
            fits = {
                states: count
                for states, count in counts.combinations(production, depth).items()
                if self._fits(production, states, allowed)
            }
            if self.uniform:
                choices += [(production, states) for states in fits]
                weights += fits.values()
            elif fits:
                choices.append((production, None))
                weights.append(production.weight)
        return choices, list(itertools.accumulate(weights))

    def _fits(self, production, states, allowed):
        return allowed is None or self.counts.state(production.operator, states) in allowed

    def _wanted(self, production, plan, depth, allowed, states):
        """States of the next argument with which the production can be completed."""
        if plan is not None:
            return frozenset((plan[len(states)],))
        key = (production, depth, allowed, states)
        if key not in self._allowed:
            self._allowed[key] = frozenset(
                combination[len(states)]
                for combination in self.counts.combinations(production, depth)
                if combination[: len(states)] == states
                and self._fits(production, combination, allowed)
            )
        return self._allowed[key]

    def _leaf(self, nonterminal, symbol):
        key = (nonterminal, symbol)
        if key not in self._leaves:
            self._leaves[key] = Term(nonterminal, symbol)
        return self._leaves[key]


def below(rng, number):
    """Return a uniform random integer from 0 to `number - 1`, of any size."""
    if number < 1 << 63:
        return int(rng.integers(number))
    bits = (number - 1).bit_length()
    size = (bits + 7) // 8
    while True:
        drawn = int.from_bytes(rng.bytes(size), "little") >> (8 * size - bits)
        if drawn < number:
            return drawn
