"""Constraints on terms beyond the grammar. Pure Python."""

from collections.abc import Iterable, Mapping

from keras_xd.core import validation
from keras_xd.grammar.rules import reachable
from keras_xd.grammar.topologies import TOPOLOGIES, ZERO, Topology


class Connected:
    """Every topology of a term must connect its input with its output.

    The operation `zero` cuts an edge. An operator with arguments that is no topology needs them
    all to be connected. Sampling goes from left to right and does not offer what would cut the
    last path.

    Args:
        topologies: dictionary from operators to `Topology`; `None` for
            `grammar.topologies.TOPOLOGIES`.

    Example:

    >>> import numpy as np
    >>> from keras_xd.grammar import Connected, Grammar
    >>> grammar = Grammar(
    ...     "S -> Linear2 OP OP \\n OP -> conv | zero", constraints=[Connected()]
    ... )
    >>> print(grammar.sample(np.random.default_rng(0)))
    (S Linear2 (OP conv) (OP conv))
    >>> grammar.count(), grammar.count(constrained=True)
    (4, 1)
    """

    def __init__(self, topologies: Mapping[str, Topology] | None = None):
        self.topologies = TOPOLOGIES if topologies is None else dict(topologies)

    def state(self, operator: str, states: tuple[bool, ...]) -> bool | None:
        """Return the state of a term: whether it connects its input with its output.

        Args:
            operator: the term's operator.
            states: tuple of the states of its arguments.

        Returns:
            A hashable state, or `None` if the constraint refuses the term.
        """
        if operator == ZERO:
            return False
        if not states:
            return True
        return _passes(self.topologies.get(operator), operator, states, all) or None

    def accepts(self, state: bool) -> bool:
        """Return whether a whole term may have this state."""
        return state is True


class InputDependent:
    """The output of a term must depend on its input.

    A constant does not, nor does a function of nothing but constants. Parts of a term may be
    constant, as long as another part leads from the input to the output.

    Args:
        constants: names of the primitives whose value does not depend on their input.
        topologies: dictionary from operators to `Topology`; `None` for
            `grammar.topologies.TOPOLOGIES`. Any other operator depends on the input if one of its
            arguments does.

    Example:

    >>> from keras_xd.grammar import Grammar, InputDependent
    >>> constraint = InputDependent(["one"])
    >>> grammar = Grammar(
    ...     "S -> Residual2 OP OP OP \\n OP -> tanh | one", constraints=[constraint]
    ... )
    >>> grammar.count(), grammar.count(constrained=True)
    (8, 5)
    """

    def __init__(self, constants: Iterable[str], topologies: Mapping[str, Topology] | None = None):
        self.constants = frozenset(constants)
        self.topologies = TOPOLOGIES if topologies is None else dict(topologies)

    def state(self, operator: str, states: tuple[bool, ...]) -> bool:
        """Return the state of a term: whether its output depends on its input.

        Args:
            operator: the term's operator.
            states: tuple of the states of its arguments.
        """
        if not states:
            return operator not in self.constants
        return _passes(self.topologies.get(operator), operator, states, any)

    def accepts(self, state: bool) -> bool:
        """Return whether a whole term may have this state."""
        return state


class Downsamplings:
    """Every path from the input of a term to its output must have the same number of strides.

    Only so can the paths be added up. Hierarchical NAS-Bench-201 has this in its nonterminals; a
    grammar that has not may have this constraint. What lies on no such path does not count.

    Args:
        levels: how many strides lie on every path of a whole term.
        strided: the primitives that stride, each counting once.
        topologies: dictionary from operators to `Topology`; `None` for
            `grammar.topologies.TOPOLOGIES`. The arguments of any other operator must have the same
            number, which is that of the whole.

    Example:

    >>> from keras_xd.grammar import Downsamplings, Grammar
    >>> constraint = Downsamplings(1, strided=["down"])
    >>> grammar = Grammar(
    ...     "S -> Linear2 OP OP \\n OP -> conv | down", constraints=[constraint]
    ... )
    >>> grammar.count(constrained=True)
    2
    """

    _CUT = "cut"
    # A part with different paths or too many strides, which may stand where nothing passes.
    _WRONG = "wrong"

    def __init__(
        self,
        levels: int,
        strided: Iterable[str],
        topologies: Mapping[str, Topology] | None = None,
    ):
        self.levels = validation.positive_integer(levels, "levels", least=0)
        self.strided = frozenset(strided)
        self.topologies = TOPOLOGIES if topologies is None else dict(topologies)

    def state(self, operator: str, states: tuple[int | str, ...]) -> int | str:
        """Return the number of strides on every path of a term.

        Args:
            operator: the term's operator.
            states: tuple of the states of its arguments.

        Returns:
            A number; "cut" where there is no path; "wrong" if the paths differ or have too many
            strides.
        """
        if operator == ZERO:
            return self._CUT
        if not states:
            return self._allowed(int(operator in self.strided))
        topology = self.topologies.get(operator)
        if topology is None:
            return states[0] if len(set(states)) == 1 else self._WRONG
        open_edges = [pair for pair in _edges(topology, operator, states) if pair[1] != self._CUT]
        alive = _reached([edge for edge, _ in open_edges], topology.inputs)
        backwards = [(-to, -source) for (source, to), _ in open_edges]
        alive &= {-node for node in _reached(backwards, (-topology.output,))}
        found = dict.fromkeys(topology.inputs, 0)
        for (source, to), level in sorted(open_edges, key=lambda pair: pair[0]):
            if {source, to} <= alive:
                if level == self._WRONG:
                    return level
                if found.setdefault(to, found[source] + level) != found[source] + level:
                    return self._WRONG
        return self._allowed(found.get(topology.output, self._CUT))

    def _allowed(self, state):
        return state if state == self._CUT or state <= self.levels else self._WRONG

    def accepts(self, state: int | str) -> bool:
        """Return whether a whole term may have this state."""
        return state == self.levels


class Together:
    """Several constraints as one: its states are the tuples of theirs."""

    def __init__(self, constraints):
        self.constraints = tuple(constraints)

    def state(self, operator, states):
        """Return the tuple of states, `None` if one constraint refuses the term."""
        columns = zip(*states, strict=True) if states else ((),) * len(self.constraints)
        result = tuple(
            constraint.state(operator, tuple(column))
            for constraint, column in zip(self.constraints, columns, strict=True)
        )
        return None if None in result else result

    def accepts(self, state):
        """Return whether all constraints accept the state."""
        return all(c.accepts(s) for c, s in zip(self.constraints, state, strict=True))


def _passes(topology, operator, states, otherwise):
    """Whether a path of true states leads to the output; without topology as `otherwise` says."""
    if topology is None:
        return otherwise(states)
    edges = [edge for edge, passes in _edges(topology, operator, states) if passes]
    return topology.output in _reached(edges, topology.inputs)


def _edges(topology, operator, states):
    """Pairs `(edge, state)`, sorted by edge, so that a node comes after those before it."""
    if len(states) != len(topology.edges):
        raise ValueError(
            f"{operator} has one argument for each of its {len(topology.edges)} edges. "
            f"Received: {len(states)} arguments"
        )
    pairs = zip(topology.edges, states, strict=True)
    return sorted(pairs, key=lambda pair: pair[0])


def _reached(edges, inputs):
    """Nodes that can be reached from the inputs."""
    following = {}
    for source, end in edges:
        following.setdefault(source, []).append(end)
    return reachable(following, inputs)
