"""Exact numbers of terms by nonterminal, depth bound and constraint state. Pure Python."""

_LARGEST_COUNT_BITS = 1 << 20
_MOST_COMBINATIONS = 500_000


class Counts:
    """Numbers of terms, computed when asked for and kept."""

    def __init__(self, rules, constraint=None, capped=False):
        self.rules = rules
        self.constraint = constraint
        self.capped = capped
        self._by_key = {}
        self._combinations = {}
        self._states = {}

    def state(self, operator, states=()):
        """Return the constraint's state of a term, `None` if it is refused."""
        if self.constraint is None:
            return ()
        key = (operator, states)
        if key not in self._states:
            self._states[key] = self.constraint.state(operator, states)
        return self._states[key]

    def depth(self, symbol, depth):
        """Return the depth bound as far as it matters for the nonterminal."""
        return min(depth, self.rules.height[symbol])

    def by_state(self, nonterminal, depth):
        """Return `{state: number of terms}` of a nonterminal under a depth bound."""
        wanted = (nonterminal, self.depth(nonterminal, depth))
        if wanted not in self._by_key:
            self._fill(wanted)
        return self._by_key[wanted]

    def _fill(self, wanted):
        stack = [wanted]
        while stack:
            nonterminal, depth = stack[-1]
            if stack[-1] in self._by_key:
                stack.pop()
                continue
            check_finite(depth)
            productions = self.possible(nonterminal, depth)
            missing = {
                (symbol, self.depth(symbol, depth - 1)): None
                for production in productions
                for symbol in production.arguments
                if symbol in self.rules.productions
            }
            missing = [key for key in missing if key not in self._by_key]
            if missing:
                stack.extend(missing)
                continue
            totals = {}
            for production in productions:
                for states, count in self.combinations(production, depth).items():
                    state = self.state(production.operator, states)
                    if state is not None:
                        totals[state] = 1 if self.capped else totals.get(state, 0) + count
            if any(total.bit_length() > _LARGEST_COUNT_BITS for total in totals.values()):
                raise ValueError(
                    "The number of terms has more than a million binary digits; give the grammar "
                    f"a smaller `max_depth`. Received: max_depth={self.rules.max_depth}"
                )
            self._by_key[stack.pop()] = totals

    def possible(self, nonterminal, depth):
        """Return the productions that have a term of at most this depth."""
        least = self.rules.least_depth
        return [p for p in self.rules.productions[nonterminal] if least[p] <= depth]

    def combinations(self, production, depth):
        """Return `{states of the arguments: number of terms}` of a production."""
        key = (production, self.depth(production.nonterminal, depth))
        if key not in self._combinations:
            found = {(): 1}
            for symbol in production.arguments:
                if symbol in self.rules.productions:
                    options = self.by_state(symbol, depth - 1)
                else:
                    state = self.state(symbol)
                    options = {} if state is None else {state: 1}
                found = {
                    (*states, state): count * more
                    for states, count in found.items()
                    for state, more in options.items()
                }
                if len(found) > _MOST_COMBINATIONS:
                    raise ValueError(
                        f"The arguments of a production may have at most {_MOST_COMBINATIONS} "
                        "combinations of constraint states. Received: "
                        f"{production.operator[:40]} with {len(production.arguments)} arguments"
                    )
            self._combinations[key] = found
        return self._combinations[key]

    def accepted(self, depth):
        """Return `{state: number}` of the whole terms that the constraint accepts."""
        totals = self.by_state(self.rules.start, depth)
        if self.constraint is None:
            return totals
        return {state: n for state, n in totals.items() if self.constraint.accepts(state)}


def check_finite(depth):
    """Raise `ValueError` if a depth bound is infinite."""
    if depth == float("inf"):
        raise ValueError(
            "A recursive grammar needs a bound of the depth of its terms to be counted, sampled "
            "or varied: Grammar(text, max_depth=…). Received: max_depth=None"
        )
