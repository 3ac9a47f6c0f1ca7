"""Butterflies in NumPy: their stages, those of some known matrices, and how weights hold them."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

# A butterfly: the arrays of its stages, the one of the innermost stride first.
Stages = list[np.ndarray]


def stage_shapes(radices: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Return the shape `(O_j, s_j, r_j, r_j)` of every stage."""
    n, inner, shapes = math.prod(radices), 1, []
    for r in radices:
        shapes.append((n // (r * inner), inner, r, r))
        inner *= r
    return shapes


def identity(radices: Sequence[int]) -> Stages:
    """Stages of the identity matrix."""
    return [np.broadcast_to(np.eye(s[-1], dtype=complex), s).copy() for s in stage_shapes(radices)]


def zero(radices: Sequence[int]) -> Stages:
    """Stages of the zero matrix."""
    return [np.zeros(shape, dtype=complex) for shape in stage_shapes(radices)]


def dft(radices: Sequence[int], *, inverse: bool = False, unitary: bool = False) -> Stages:
    """Stages of the rising butterfly `B` of the DFT `F = B · P`, `P` the digit reversal."""
    sign = 2j if inverse else -2j
    exponent = 0.5 if unitary else float(inverse)
    stages = []
    for outer, inner, r, _ in stage_shapes(radices):
        i, a, b = np.ogrid[:inner, :r, :r]
        block = np.exp(sign * np.pi * ((i + a * inner) * b % (r * inner)) / (r * inner))
        stages.append(np.broadcast_to(block / r**exponent, (outer, inner, r, r)).copy())
    return stages


def digit_reversal(radices: Sequence[int]) -> np.ndarray:
    """Return the index array `p` by which the digit-reversed order of `x` is `x[p]`."""
    order = np.zeros(1, dtype=int)
    for r in radices:
        order = np.concatenate([b + r * order for b in range(r)])
    return order


def scaled(stages: Stages, factor: float) -> Stages:
    """Return the stages of the same matrix times a positive `factor`, shared by all stages."""
    return [stage * factor ** (1 / len(stages)) for stage in stages]


def rows_scaled(stages: Stages, scale: ArrayLike) -> Stages:
    """Return the stages of `diag(scale) · B` of a rising butterfly `B`."""
    _, inner, r, _ = stages[-1].shape
    rows = np.asarray(scale).reshape(r, inner).T
    return [*stages[:-1], stages[-1] * rows[None, :, :, None]]


def random_unitary(radices: Sequence[int], rng: np.random.Generator) -> Stages:
    """Stages whose blocks are Haar-random unitary; the product is unitary."""
    return [
        _haar(rng.standard_normal(shape) + 1j * rng.standard_normal(shape))
        for shape in stage_shapes(radices)
    ]


def random_orthogonal(
    radices: Sequence[int], rng: np.random.Generator, leading: tuple[int, ...] = ()
) -> Stages:
    """Stages whose blocks are Haar-random real orthogonal; the product is orthogonal."""
    shapes = [(*leading, *shape) for shape in stage_shapes(radices)]
    return [_haar(rng.standard_normal(shape)).astype(complex) for shape in shapes]


def permutation(
    order: ArrayLike, radices: Sequence[int], *, rising_first: bool = False
) -> list[Stages]:
    """Return two butterflies whose K-matrix product is a permutation matrix."""
    order = np.asarray(order)
    n = math.prod(radices)
    if order.shape != (n,) or not np.array_equal(np.sort(order), np.arange(n)):
        raise ValueError(
            f"`order` must be a permutation of 0 … {n - 1}, the size given by the radices. "
            f"Received: order of shape {order.shape}, radices={tuple(radices)}"
        )
    after, before = identity(radices), identity(radices)
    _route(order, tuple(radices), rising_first, 0, before, after)
    return [_transposed(after), before] if rising_first else [after, _transposed(before)]


def kmatrix_weights(butterflies: Sequence[Stages], dtype: str = "float32") -> np.ndarray:
    """Pack butterflies into the weights of one K-matrix, of shape `(d, 2, n Σ r_j)`."""
    vectors = []
    for stages in butterflies:
        flat = np.concatenate([np.transpose(t, (0, 3, 2, 1)).ravel() for t in stages])
        vectors.append(np.stack([flat.real, flat.imag]))
    return np.stack(vectors).astype(dtype)


def butterflies_of(weights: ArrayLike, radices: Sequence[int]) -> list[Stages]:
    """Unpack the weights of one K-matrix, with imaginary parts or without them."""
    weights = np.asarray(weights)
    result = []
    for parts in weights:
        flat, start, stages = parts[0] + (1j * parts[1] if len(parts) == 2 else 0j), 0, []
        for outer, inner, r, _ in stage_shapes(radices):
            size = outer * inner * r * r
            stage = flat[start : start + size].reshape(outer, r, r, inner)
            stages.append(np.transpose(stage, (0, 3, 2, 1)))
            start += size
        result.append(stages)
    return result


def butterfly_dense(stages: Stages) -> np.ndarray:
    """Multiply a rising butterfly out to an `n × n` complex array: the plain definition."""
    n = stages[0].shape[0] * stages[0].shape[1] * stages[0].shape[2]
    matrix = np.eye(n, dtype=complex)
    for stage in stages:
        outer, inner, r, _ = stage.shape
        viewed = matrix.reshape(outer, r, inner, n)
        matrix = np.einsum("oiab,obin->oain", stage, viewed).reshape(n, n)
    return matrix


def _haar(gaussian):
    q, r = np.linalg.qr(gaussian)
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    return q * (diagonal / np.abs(diagonal))[..., None, :]


def _transposed(stages):
    return [np.swapaxes(stage, -1, -2) for stage in stages]


def _route(order, radices, rising_first, fixed, before, after):
    """Write the switches of one (sub-)permutation into the stages `before` and `after`."""
    stage = len(before) - len(radices) if rising_first else len(radices) - 1
    r = radices[0] if rising_first else radices[-1]
    rest = len(order) // r

    def switch_and_port(position):
        return divmod(position, r) if rising_first else (position % rest, position // rest)

    def block(stages, switch):
        return stages[stage][switch, fixed] if rising_first else stages[stage][fixed, switch]

    if len(radices) == 1:
        block(after, 0)[:] = np.eye(r)[order]
        return
    target_switch, target_port = switch_and_port(np.arange(len(order)))
    source_switch, source_port = switch_and_port(order)
    middle = _matchings(target_switch, source_switch, rest, r)
    for switch in range(rest):
        block(after, switch)[:] = 0
        block(before, switch)[:] = 0
    for color, edges in enumerate(middle):
        for edge in edges:
            block(after, target_switch[edge])[target_port[edge], color] = 1
            block(before, source_switch[edge])[color, source_port[edge]] = 1
        inner_order = np.empty(rest, dtype=int)
        inner_order[target_switch[edges]] = source_switch[edges]
        if rising_first:
            inner = before[stage].shape[1]
            _route(inner_order, radices[1:], True, fixed + color * inner, before, after)
        else:
            _route(inner_order, radices[:-1], False, fixed * r + color, before, after)


# SciPy's `maximum_bipartite_matching` is not faster (4096 points: 2.4 s with it and 1.1 s without
# at radix 2, equal at radix 64), and SciPy would be a core dependency of 110 MB.
def _matchings(left, right, switches, degree):
    """Split the edges of a `degree`-regular bipartite multigraph into perfect matchings."""
    remaining = [set(np.flatnonzero(left == switch).tolist()) for switch in range(switches)]
    matchings = []
    for _ in range(degree):
        edge_of_right: dict[int, int] = {}
        target_of_left: dict[int, int] = {}
        for start in range(switches):
            _augment(start, remaining, left, right, edge_of_right, target_of_left)
        for edge in edge_of_right.values():
            remaining[left[edge]].discard(edge)
        matchings.append(np.array(list(edge_of_right.values())))
    return matchings


def _augment(start, remaining, left, right, edge_of_right, target_of_left):
    """Extend a matching by one edge along a breadth-first augmenting path."""
    reached_by, frontier = {}, [start]
    while frontier:
        reached = []
        for switch in frontier:
            for edge in sorted(remaining[switch]):
                target = int(right[edge])
                if target in reached_by:
                    continue
                reached_by[target] = edge
                if target not in edge_of_right:
                    while target is not None:
                        edge = reached_by[target]
                        owner = int(left[edge])
                        edge_of_right[target] = edge
                        target, target_of_left[owner] = target_of_left.get(owner), target
                    return
                reached.append(int(left[edge_of_right[target]]))
        frontier = reached
