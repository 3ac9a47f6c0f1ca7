"""Tucker decompositions of XD-operations, in NumPy: few matrices by axis in place of a spectrum."""

import dataclasses
import itertools
import math

import numpy as np
from keras import ops

from keras_xd.layers.xd.operation_products import Architecture, along_axes

# How many numbers (256 MiB in double precision) the matrices of an axis or the core may have.
LARGEST = 2**25
# Singular values this small, relative to the largest, are rounding.
SINGULAR = 1e-12


@dataclasses.dataclass(frozen=True)
class Tucker:
    """A linear map `Σ_r P_1[r_1] ⊗ … ⊗ P_N[r_N] ⊗ G[r]`.

    Attributes:
        factors: for each axis an array `(rank, outputs, inputs)`, its matrices orthonormal.
        core: array `(rank_1, …, rank_N, channels / groups, filters)`, largest entries first.
        error: the Frobenius norm of what is left out, relative to that of the whole map.
    """

    factors: tuple[np.ndarray, ...]
    core: np.ndarray
    error: float = 0.0

    @property
    def ranks(self) -> tuple[int, ...]:
        """The number of matrices of each axis."""
        return tuple(len(factor) for factor in self.factors)

    def errors(self) -> np.ndarray:
        """Return the relative error of `truncated` for all ranks, entry `[r_1 - 1, …, r_N - 1]`."""
        rank = len(self.factors)
        kept = np.sum(self.core**2, axis=(-2, -1))
        whole = np.sum(kept)
        for axis in range(rank):
            kept = np.cumsum(kept, axis=axis)
        return np.sqrt(np.maximum(1 - kept / whole, 0.0)) if whole > 0 else np.zeros(kept.shape)

    def truncated(self, ranks: tuple[int, ...]) -> "Tucker":
        """Return the decomposition of the first matrices of each axis."""
        factors = tuple(factor[:r] for factor, r in zip(self.factors, ranks, strict=True))
        error = self.errors()[tuple(r - 1 for r in ranks)]
        return Tucker(factors, self.core[tuple(slice(r) for r in ranks)], float(error))


def is_decomposable(layer, kernel) -> bool:
    """Return whether the matrices of a built XD-operation are small enough for `tucker`."""
    numbers, core = [], kernel.shape[-2] * kernel.shape[-1]
    frequencies = math.prod(plan.n for plan in layer.plans)
    for g, plan in zip(layer.geometry, layer.plans, strict=True):
        of_bias = min(plan.n, frequencies // plan.n) if layer.frequency_bias else 0
        places = 2 * (g.kernel_size + of_bias)
        numbers += [places * g.size * g.output_size, plan.n * max(g.size, g.output_size)]
        core *= places
    return max(*numbers, core) <= LARGEST


def tucker(layer, kernel) -> Tucker:
    """Return the whole decomposition of a built XD-operation, exact except for rounding."""
    architecture = Architecture(layer)
    analyses, placed, syntheses = architecture.matrices
    core = architecture.gates * ops.convert_to_numpy(kernel).astype("float64")
    if np.any(architecture.bias):  # beside the places of the weights, those that its bias needs
        spanned = [_spanning(architecture.bias, axis) for axis in range(len(placed))]
        core = _beside(
            core,
            np.multiply.outer(
                along_axes([vectors.conj().T for vectors in spanned], architecture.bias),
                architecture.gates,
            ),
        )
        placed = [np.hstack(both) for both in zip(placed, spanned, strict=True)]
    core = _real_core(core, len(placed))
    factors, coefficients = [], []
    for m, columns, k in zip(analyses, placed, syntheses, strict=True):
        complex_maps = np.einsum("fo,fp,fi->poi", k, columns, m, optimize=True)
        maps = np.concatenate([complex_maps.real, complex_maps.imag])
        basis, triangle = np.linalg.qr(maps.reshape(len(maps), -1).T)
        coefficients.append(triangle)
        factors.append(basis.T.reshape(-1, *maps.shape[1:]))
    core = along_axes(coefficients, core)
    rotations = [_singular_vectors(core, axis) for axis in range(len(factors))]
    core = along_axes([rotation.T for rotation in rotations], core)
    pairs = zip(rotations, factors, strict=True)
    return Tucker(tuple(np.tensordot(r.T, factor, 1) for r, factor in pairs), core)


def _spanning(bias, axis):
    """Return orthonormal vectors that span a bias of the spectrum along an axis, in columns."""
    vectors, sizes, _ = np.linalg.svd(
        np.moveaxis(bias, axis, 0).reshape(bias.shape[axis], -1), full_matrices=False
    )
    return vectors[:, sizes > SINGULAR * sizes[0]]


def _beside(core, other):
    """Return both cores in one, each with places of its own on every axis."""
    rank = core.ndim - 2
    before = [(0, n) for n in other.shape[:rank]]
    after = [(n, 0) for n in core.shape[:rank]]
    channels = [(0, 0), (0, 0)]
    return np.pad(core, before + channels) + np.pad(other, after + channels)


def _real_core(core, rank):
    """Return the core of the real part, for real and imaginary parts of the matrices by axis."""
    places = core.shape[:rank]
    whole = np.zeros((*(2 * p for p in places), *core.shape[rank:]))
    for imaginary in itertools.product((0, 1), repeat=rank):
        part = tuple(slice(i * p, (i + 1) * p) for i, p in zip(imaginary, places, strict=True))
        whole[part] = np.real(core * 1j ** sum(imaginary))
    return whole


def _singular_vectors(core, axis):
    """Return the left singular vectors of the core unfolded along an axis, largest first."""
    unfolded = np.moveaxis(core, axis, 0).reshape(core.shape[axis], -1)
    _, vectors = np.linalg.eigh(unfolded @ unfolded.T)
    return vectors[:, ::-1]
