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
        self._parts = {}
        self._output = self._colour("output", ((),) * iterations)
        self._exits = self._after((), [self._output])

    def features(self, term: Term) -> Features:
        """Return the colours of a term and how often they occur.

        One entry an iteration from 0 on, of `(colours, counts)`: arrays of distinct 64-bit integers
        and of floats, sorted by the counts, then by the colours. Colours are the same in every
        process, and differ between iterations and levels.
        """
        if len(self._parts) > _KEPT_PARTS:
            self._parts.clear()
        fed, histogram = self._run(self._evaluate_term(expand(term), self.level))
        histogram = dict(histogram)
        for colour in (*(self._colour("input", exits) for exits in fed), self._output):
            histogram[colour] = histogram.get(colour, 0) + 1
        result = []
        for iteration in range(self.iterations + 1):
            counts = {}
            for colour, count in histogram.items():
                colour = colour[iteration]
                counts[colour] = counts.get(colour, 0) + count
            colours = np.fromiter(counts.keys(), np.int64, len(counts))
            counts = np.fromiter(counts.values(), float, len(counts))
            order = np.lexsort((colours, counts))
            result.append((colours[order], counts[order]))
        return result

    def _colour(self, label, exits):
        """Colours of a node after every iteration, by those of its successors."""
        colours = [_label_colour(label, self.level)]
        for successors in exits:
            colours.append(hash((colours[-1], successors)))
        return tuple(colours)

    def _after(self, exits, colours):
        """Sorted colours of all successors, an iteration a tuple: those of `exits` and more."""
        if not colours and exits:
            return exits
        exits = exits or ((),) * self.iterations
        return tuple(
            tuple(sorted((*before, *(colour[i] for colour in colours))))
            for i, before in enumerate(exits)
        )

    def _run(self, task):
        """Run a generator and those that it asks for, and return its result."""
        stack, value = [task], None
        while stack:
            try:
                request = stack[-1].send(value)
            except StopIteration as finished:
                stack.pop()
                value = finished.value
            else:
                stack.append(self._evaluate_part(*request))
                value = None
        return value

    def _evaluate_term(self, term, level):
        """Successors of every input, and the histogram of the operations of a whole term."""
        if self._is_leaf(term, level):
            entries, passes, histogram = self._leaf(term, self._exits)
            fed = [(entries, passes)]
        else:
            fed, histogram = yield from self._evaluate_topology(term, level, self._exits)
        nothing = ((),) * self.iterations
        return [self._after(self._exits if passes else nothing, e) for e, passes in fed], histogram

    def _evaluate_part(self, part, level, exits):
        """Evaluate a part of a term: `(entries, passes, histogram)`, kept by the arguments."""
        fed, histogram = yield from self._evaluate_topology(part, level, exits)
        if len(fed) != 1:
            raise ValueError(
                "A topology with several inputs must be the outermost one. "
                f"Received: {str(part.fold(0))[:80]}"
            )
        result = self._parts[part, level, exits] = (*fed[0], histogram)
        return result

    def _is_leaf(self, part, level):
        return not part.arguments or level == 0

    def _leaf(self, part, exits):
        if part.operator == ZERO:
            return (), False, {}
        folded = part.nonterminal is not None and part.operator in self.topologies
        name = f"{part.nonterminal} {part.operator}" if folded else part.operator
        if name == IDENTITY:
            return (), True, {}
        colour = self._colour(name, exits)
        return (colour,), False, {colour: 1}

    def _evaluate_topology(self, part, level, exits):
        """Evaluate the arguments of a topology, from its output to its inputs."""
        topology = topology_of(part, self.topologies)
        edges, level = _edges(topology, part.arguments, level)
        # What a node feeds: colours by the edge and number of the operation, so that an operation
        # that is reached on two ways counts once, and whether it is the output.
        fed, results = {topology.output: ({}, True)}, {}
        for index in sorted(range(len(edges)), key=lambda index: -edges[index][0]):
            source, target, argument = edges[index]
            if target not in fed:
                continue
            operations, is_output = fed[target]
            after = self._after(exits if is_output else (), operations.values())
            if self._is_leaf(argument, level):
                result = self._leaf(argument, after)
            else:
                key = (argument, None if level is None or level >= argument.depth else level, after)
                result = self._parts.get(key) or (yield key)
            entries, passes, histogram = result
            if not entries and not passes:
                continue
            results[index] = histogram
            own, reaches = fed.get(source, ({}, False))
            own = {**own, **{(index, number): e for number, e in enumerate(entries)}}
            if passes:
                own |= operations
                reaches = reaches or is_output
            fed[source] = own, reaches
        reached, histograms = set(topology.inputs), []
        for index in sorted(results, key=lambda index: edges[index][0]):
            if edges[index][0] in reached:
                reached.add(edges[index][1])
                histograms.append(results[index])
        starts = [fed.get(node, ({}, False)) for node in topology.inputs]
        return [(tuple(own.values()), reaches) for own, reaches in starts], _sum(histograms)


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


def _sum(histograms):
    if not histograms:
        return {}
    total = dict(max(histograms, key=len))
    left = list(histograms)
    left.remove(total)
    for histogram in left:
        for colour, count in histogram.items():
            total[colour] = total.get(colour, 0) + count
    return total


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

    def features(self, term: Term, needed: Sequence[bool] | None = None) -> list[Features]:
        """Return what the other methods need to know of a term; what is not needed is empty."""
        term = expand(term)
        if needed is None:
            needed = [True] * len(self.kernels)
        return [
            kernel.features(term) if need else []
            for kernel, need in zip(self.kernels, needed, strict=True)
        ]

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
