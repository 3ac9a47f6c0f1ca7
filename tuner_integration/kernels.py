"""Weisfeiler-Lehman kernels of terms: how much two architectures have in common."""

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import scipy.sparse

from keras_xd.core import validation
from keras_xd.grammar import Topology, expand
from keras_xd.grammar.terms import Term
from keras_xd.grammar.topologies import IDENTITY, TOPOLOGIES, ZERO, topology_of

# What a kernel knows of a term: for each iteration the colours and how often they occur.
Features = list[tuple[np.ndarray, np.ndarray]]

_KEPT_PARTS = 60_000
# The colours of a node after each iteration stand in one integer, so that one addition adds up all:
# each has 61 bits, and what is left of `_BITS` is room for sums.
_BITS = 128
_ONE = (1 << _BITS) - 1
_OUTPUT = "output"


class WeisfeilerLehman:
    """Features of the Weisfeiler-Lehman subtree kernel of a term's operation graph.

    The colour of a node is its label at first; every iteration replaces it by the pair of itself
    and the sorted colours of its successors. The features of a term are the numbers of nodes of
    each colour after 0, 1, … iterations, of the graph of `expand(term).fold(level)` whose nodes are
    its operations.

    Reference:
        Schrodi et al., "Towards discovering neural architectures from scratch", 2022, section 4.
    """

    def __init__(
        self,
        iterations: int,
        level: int | None = None,
        topologies: Mapping[str, Topology] | None = None,
    ):
        self.iterations = validation.positive_integer(iterations, "iterations", least=0)
        if level is not None:
            validation.positive_integer(level, "level", least=0)
        self.level = level
        self.topologies = TOPOLOGIES if topologies is None else topologies
        # Results of parts and leaves, by what they are and the colours of their successors.
        self._parts = {}
        self._bytes = (self.iterations + 1) * _BITS // 8
        self._output = self._colour("output", 0)

    def features(self, terms: Sequence[Term]) -> list[Features]:
        """Return the colours of each term and how often they occur.

        One entry an iteration from 0 on, of `(colours, counts)`: arrays of distinct 64-bit integers
        and of floats, sorted by the counts, then by the colours. Colours are the same in every
        process, and differ between iterations and levels.
        """
        tables = [self._node_colours(expand(term)) for term in terms]
        sizes = [len(table) // self._bytes for table in tables]
        found = np.frombuffer(b"".join(tables), np.int64).reshape(-1, self.iterations + 1, 2)
        rows = np.repeat(np.arange(len(terms)), sizes)
        iterations = [_counted(found[:, i, 0], rows) for i in range(self.iterations + 1)]
        return [list(features) for features in zip(*iterations, strict=True)]

    def _node_colours(self, term):
        """Colours of all nodes of a whole term, as bytes."""
        if len(self._parts) > _KEPT_PARTS:
            self._parts.clear()
        exits = self._output[0]
        if not term.arguments or self.level == 0:
            entries, passes, operations = self._leaf(term, exits)
            inputs = [entries + passes * exits]
        else:
            fed, operations = self._run(self._evaluate(term, self.level, exits))
            inputs = [sum(own.values()) for own in fed]
        nodes = [self._output, *(self._colour("input", after) for after in inputs)]
        return b"".join([operations, *(colours for _, colours in nodes)])

    def _colour(self, label, after):
        """Colours of a node by the sums of those of its successors: numbers of `_BITS` bits in one
        integer, and that as bytes.
        """
        joined = colour = _label_colour(label, self.level)
        for bits in range(0, _BITS * self.iterations, _BITS):
            # Hashes of pairs are almost linear: without the square, sums of different ones agree.
            colour = hash(hash((colour, after >> bits & _ONE)) ** 2)
            joined |= colour << bits + _BITS
        return joined, joined.to_bytes(self._bytes, "little")

    def _run(self, task):
        """Run `_evaluate` for a whole term and for the parts that it asks for."""
        stack, value = [(None, task)], None
        while True:
            try:
                request = stack[-1][1].send(value)
            except StopIteration as finished:
                key, _ = stack.pop()
                value = finished.value
                if key is None:
                    return value
                value = self._parts[key] = self._part(key[0], *value)
            else:
                stack.append((request, self._evaluate(*request)))
                value = None

    def _part(self, part, fed, operations):
        """What `_leaf` returns, of a part with arguments."""
        if len(fed) != 1:
            raise ValueError(
                "A topology with several inputs must be the outermost one. "
                f"Received: {str(part.fold(0))[:80]}"
            )
        passes = fed[0].pop(_OUTPUT, None) is not None
        return sum(fed[0].values()), passes, operations

    def _leaf(self, part, exits):
        """Sum of the colours of the operations that the input of a part feeds, whether it feeds
        those after the part, too, and the colours of all operations of the part.
        """
        folded = part.nonterminal is not None and part.operator in self.topologies
        name = f"{part.nonterminal} {part.operator}" if folded else part.operator
        result = (0, name == IDENTITY, b"")
        if name not in (IDENTITY, ZERO):
            entries, operations = self._colour(name, exits)
            result = entries, False, operations
        self._parts[part.nonterminal, part.operator, exits] = result
        return result

    def _evaluate(self, part, level, exits):
        """Evaluate the arguments of a topology, from its output to its inputs."""
        topology = topology_of(part, self.topologies)
        edges, level = _edges(topology, part.arguments, level)
        order = _order(tuple([edge[0] for edge in edges]))
        # What a node feeds: by the node where operations begin, which may be reached over
        # identities, the sum of their colours.
        fed, results, parts = {topology.output: {_OUTPUT: exits}}, {}, self._parts
        for index in order:
            source, target, argument = edges[index]
            if target not in fed:
                continue
            after = sum(fed[target].values())
            if not argument.arguments or level == 0:
                key = argument.nonterminal, argument.operator, after
                result = parts.get(key) or self._leaf(argument, after)
            else:
                key = (argument, None if level is None or level >= argument.depth else level, after)
                result = parts.get(key) or (yield key)
            entries, passes, operations = result
            if not entries and not passes:
                continue
            results[index] = operations
            own = fed.setdefault(source, {source: 0})
            own[source] += entries
            if passes:
                own.update(fed[target])
        reached, found = set(topology.inputs), []
        for index in reversed(order):
            if index in results and edges[index][0] in reached:
                reached.add(edges[index][1])
                found.append(results[index])
        return [fed.get(node, {}) for node in topology.inputs], b"".join(found)


def _edges(topology, arguments, level):
    """Edges of a topology, with the level at which the terms on them are folded."""
    if level is None:
        return topology.expand(arguments), None
    edges = topology.expand(arguments)
    if len(edges) == len(arguments) and all(
        edge[2] is argument for edge, argument in zip(edges, arguments, strict=True)
    ):
        return edges, level - 1
    return topology.expand(tuple(argument.fold(level - 1) for argument in arguments)), None


@functools.lru_cache(maxsize=1024)
def _order(sources):
    """Indices of edges by their sources, from the last to the first."""
    return sorted(range(len(sources)), key=lambda index: -sources[index])


def _counted(colours, rows):
    """Distinct colours of each of some sorted rows and how often each occurs, by the counts."""
    order = np.lexsort((colours, rows))
    colours, rows = colours[order], rows[order]
    starts = np.flatnonzero(np.append(True, (np.diff(colours) != 0) | (np.diff(rows) != 0)))
    counts, colours, rows = np.diff(starts, append=len(rows)), colours[starts], rows[starts]
    order = np.lexsort((counts, rows))
    ends = np.flatnonzero(np.diff(rows)) + 1
    found = [np.split(values[order], ends) for values in (colours, counts.astype(float))]
    return list(zip(*found, strict=True))


@functools.lru_cache(maxsize=65536)
def _label_colour(label, level):
    digest = hashlib.blake2b(f"{level} {label}".encode(), digest_size=7).digest()
    return int.from_bytes(digest, "big")


def gram(
    left: Sequence[Features], right: Sequence[Features], iterations: int | None = None
) -> np.ndarray:
    """Return the dot products of features, one row a term of `left`."""
    columns = np.unique(np.concatenate([ids for f in right for ids, _ in _until(f, iterations)]))
    a = sparse_features([_until(f, iterations) for f in left], columns)
    b = sparse_features([_until(f, iterations) for f in right], columns)
    return (a @ b.T).toarray()


def _until(features, iterations):
    return features if iterations is None else features[: iterations + 1]


def sparse_features(features: Sequence[Features], columns: np.ndarray) -> scipy.sparse.csr_array:
    """Return a sparse matrix with a row for each term and a column for each colour."""
    colours = [np.concatenate([ids for ids, _ in f]) for f in features]
    counts = np.concatenate([c for f in features for _, c in f])
    rows = np.repeat(np.arange(len(features)), [len(c) for c in colours])
    colours = np.concatenate(colours)
    places = np.minimum(np.searchsorted(columns, colours), len(columns) - 1)
    known = columns[places] == colours
    return scipy.sparse.csr_array(
        (counts[known], (rows[known], places[known])), shape=(len(features), len(columns))
    )


class HierarchicalKernel:
    """The hierarchical Weisfeiler-Lehman kernel: one kernel for each folding of the terms.

    Each has unit diagonal; a surrogate weighs them. With `levels=()` it is the plain kernel.

    The whole term has `iterations` at most, level 0 has 1, others 2.

    Reference:
        Schrodi et al., "Towards discovering neural architectures from scratch", 2022, section 4.
    """

    def __init__(
        self,
        levels: Iterable[int] = (0, 1, 2, 3, 4),
        iterations: int = 4,
        topologies: Mapping[str, Topology] | None = None,
    ):
        self.iterations = iterations
        self.kernels = [
            *(WeisfeilerLehman(min(level + 1, 2), level, topologies) for level in levels),
            WeisfeilerLehman(iterations, None, topologies),
        ]

    def features(
        self, terms: Sequence[Term], needed: Sequence[bool] | None = None
    ) -> list[list[Features]]:
        """Return what the other methods need to know of each term; what is not needed is empty."""
        terms = [expand(term) for term in terms]
        if needed is None:
            needed = [True] * len(self.kernels)
        found = [
            kernel.features(terms) if need and terms else [[] for _ in terms]
            for kernel, need in zip(self.kernels, needed, strict=True)
        ]
        return [list(features) for features in zip(*found, strict=True)]

    def grams(
        self, features: Sequence[list[Features]]
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return Gram matrices: one for each level, and one for each number of iterations."""
        own = [[f[index] for f in features] for index in range(len(self.kernels))]
        folded = [_normalised(gram(level, level)) for level in own[:-1]]
        whole, total = [], 0.0
        for iteration in range(self.iterations + 1):
            single = [f[iteration : iteration + 1] for f in own[-1]]
            total = total + gram(single, single)
            whole.append(_normalised(total))
        return folded, whole

    def cross(
        self,
        features: Sequence[list[Features]],
        iterations: int,
        weights: Sequence[float] | np.ndarray,
    ) -> Callable[[Sequence[list[Features]]], np.ndarray]:
        """Return a function from features of new terms to the weighted sum `(new, known)`."""
        scales = np.sqrt(weights)
        limits = [None] * (len(self.kernels) - 1) + [iterations]
        limits = {index: limit for index, limit in enumerate(limits) if scales[index] > 0}

        def scaled(features):
            norms = {
                index: np.sqrt(
                    [sum((c**2).sum() for _, c in _until(f[index], limit)) for f in features]
                )
                for index, limit in limits.items()
            }
            return [
                [
                    (colours, counts * (scales[index] / norms[index][number]))
                    for index, limit in limits.items()
                    for colours, counts in _until(f[index], limit)
                ]
                for number, f in enumerate(features)
            ]

        known = scaled(features)
        columns = np.unique(np.concatenate([colours for f in known for colours, _ in f]))
        matrix = sparse_features(known, columns).T.tocsr()

        def products(features):
            return (sparse_features(scaled(features), columns) @ matrix).toarray()

        return products


def _normalised(products):
    norms = np.sqrt(np.diag(products))
    result = products / norms / norms[:, None]
    np.fill_diagonal(result, 1.0)
    return result
