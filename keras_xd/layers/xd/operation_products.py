"""Norms and inner products of XD-operations of one geometry, in NumPy."""

import functools
import math

import numpy as np
from keras import ops

from keras_xd.kmatrix.kmatrix import LARGEST_IN_NUMPY
from keras_xd.layers.xd import functional
from keras_xd.layers.xd.warm_starts.operations import MATRICES


class Architecture:
    """The architecture of a layer as arrays in double precision.

    Attributes:
        weights: all of `K`, `L` and `M`, packed, one after the other.
        bias: `b`, shape `(n_1, …, n_N)`, complex.
        gates: `C`, shape `(channels of a group, filters)`.
    """

    def __init__(self, layer):
        self.layer = layer
        values = [ops.convert_to_numpy(v).astype("float64") for v in layer.architecture_variables]
        count = len(MATRICES) * len(layer.plans)
        self.weights, rest = np.concatenate([v.ravel() for v in values[:count]]), values[count:]
        self.bias = np.zeros(self.sizes, dtype=complex)
        if layer.frequency_bias:
            b = rest.pop(0)
            self.bias = b[..., 0] + 1j * b[..., 1]
        channels = layer.get_build_config()["input_shape"][
            -1 if layer.data_format == "channels_last" else 1
        ]
        pairs = (channels // layer.groups, layer.filters)
        self.gates = rest.pop(0) if layer.channel_gates else np.ones(pairs)

    @property
    def sizes(self):
        """The padded size of each axis."""
        return [plan.n for plan in self.layer.plans]

    @functools.cached_property
    def matrices(self):
        """By axis: `M`'s columns at inputs, `L`'s at weights, the transposed rows of `K` kept."""
        of, m, placed, k = self.layer.kmatrices, [], [], []
        for axis, g in enumerate(self.layer.geometry):
            m.append(of["M"][axis].columns(np.arange(g.size) * g.input_stride).astype(complex))
            placed.append(_times(of["L"][axis], self.layer.warm_start.placement(g)))
            k.append(of["K"][axis].columns(np.arange(g.output_size) * g.stride).astype(complex))
        return m, placed, k

    @property
    def kernel_variance(self):
        """The mean square of the kernel's entries; of a kernel of zeros 1 / (its places)."""
        kernel = _double(self.layer.kernel)
        return float(np.mean(kernel**2)) or 1.0 / math.prod(self.layer.kernel_size)

    @functools.cached_property
    def spectrum(self):
        """`C ∘ (L w + b)` of the layer's kernel, shape `(n_1, …, n_N, channels, filters)`."""
        layer = self.layer
        dtype = functional.exact_dtype(layer.variable_dtype)
        matrices = [np.stack([m.real, m.imag], axis=1) for m in self.matrices[1]]
        matrices = [ops.convert_to_tensor(matrix, dtype) for matrix in matrices]
        pieces = [_double(piece) for piece in layer.spectrum_of(matrices)]
        real, imaginary = np.moveaxis(np.concatenate(pieces), 1, 0)
        values = real + 1j * imaginary
        return values.reshape(*self.sizes, *values.shape[1:])


def _euclidean(a, b):
    """Return the squared norms of two operations and of their difference."""
    vectors = [
        np.concatenate([x.weights, x.bias.real.ravel(), x.bias.imag.ravel(), x.gates.ravel()])
        for x in (a, b)
    ]
    return tuple(np.sum(v**2) for v in (*vectors, vectors[0] - vectors[1]))


def _frobenius(a, b):
    result = np.zeros(3)
    for xs, ys in zip(a.matrices, b.matrices, strict=True):
        result += _kronecker_squares(xs, ys)
    for x, y in ((a.bias, b.bias), (a.gates, b.gates)):
        result += [np.sum(np.abs(v) ** 2) for v in (x, y, x - y)]
    return tuple(result)


def _kronecker_squares(xs, ys):
    """Return `‖X‖²`, `‖Y‖²` and `‖X − Y‖²` of the Kronecker products of two lists of matrices.

    By `X ⊗ x − Y ⊗ y = (X − Y) ⊗ x + Y ⊗ (x − y)` nothing large is formed and nothing cancels.
    """
    square_x = square_y = 1.0
    square, product = 0.0, 0.0  # ‖X − Y‖² and <X − Y, Y>
    for x, y in zip(xs, ys, strict=True):
        new_x, new_y, new = (np.sum(np.abs(v) ** 2) for v in (x, y, x - y))
        mixed = 2 * np.real(product * np.vdot(x - y, x))
        square = square * new_x + square_y * new + mixed
        product = product * np.vdot(y, x) + square_y * np.vdot(y, x - y)
        square_x, square_y = square_x * new_x, square_y * new_y
    return square_x, square_y, square


def _averaged(a, b):
    """Take the average over kernels: `E[D_f D'_g] = (L L'ᵀ)_fg / places + b_f b'_g`."""

    def product(x, y):
        places = math.prod(x.layer.kernel_size)
        average = _places(x, y, np.trace, np.multiply) / places + _products(x, y)
        return average * np.sum(x.gates * y.gates)

    return _squares(product, a, b)


def _squares(product, a, b):
    """Return the squared norms of two maps and of their difference, from inner products."""
    aa, bb, ab = product(a, a), product(b, b), product(a, b)
    return aa, bb, aa + bb - 2 * ab


def own_norm(a):
    """Return `‖A‖²` of the real linear map that an operation has with its own kernel."""
    return float(max(_map_product(a, a), 0.0))


def _map_product(x, y):
    """Return the inner product of two real linear maps with the kernels of the layers.

    A map is `Re(Z)` with `Z = K diag(D) M`, and with sums over all entries
    `Σ Re(Z) Re(Z') = Re(Σ Z conj(Z') + Σ Z Z') / 2`, where
    `Σ Z Z' = Σ_fg D_f D'_g (Kᵀ K')_fg (M M'ᵀ)_fg` is a Kronecker product over the axes.
    """
    return inner_product(x, y, x.spectrum, y.spectrum)


def inner_product(x, y, one, other):
    """Return the inner product of two maps of these values at the frequencies."""
    total = 0.0
    for same in (np.conj, np.positive):
        total += np.real(np.sum(one * along_axes(_grams(x, y, same), same(other)))) / 2
    return total


def along_axes(matrices, array):
    """Return an array whose leading axes are multiplied by a matrix each."""
    for axis, matrix in enumerate(matrices):
        array = np.moveaxis(np.tensordot(matrix, array, (1, axis)), 0, axis)
    return array


def fitted_squares(a, b):
    """Return `‖A‖²` and the part of it that the best fit of the operation `b` explains.

    For every pair of channels a map is `C (A_0 + Σ_j w_j A_j)`, of the frequency bias and of each
    place of the kernel. Kernels have independent entries of variance `v`, so that squared norms are
    `C² (‖A_0‖² + v Σ_j ‖A_j‖²)`. The fit is `s C' B_0` with one number `s`, and, wherever `C'` is
    open, the `A_j` projected on all combinations of the `B_i`.
    """
    variance = a.kernel_variance
    constant_b, mixed = _products(b, b), _products(b, a)
    gram, cross = (_places(b, x, np.asarray, np.kron) for x in (b, a))
    total = fitted_norm(a, variance)
    # Directions of less than float32's rounding are none.
    inverse = np.linalg.pinv(gram, 1e-12, hermitian=True)
    by_kernel = np.sum(cross * (inverse @ cross))
    explained = variance * np.sum(a.gates[b.gates != 0] ** 2) * by_kernel
    norm = constant_b * np.sum(b.gates**2)
    if norm > 0:
        explained += (np.sum(a.gates * b.gates) * mixed) ** 2 / norm
    return float(total), float(min(max(explained, 0.0), total))


def fitted_norm(a, variance):
    """Return `‖A‖²` as `fitted_squares` does, for kernels of a variance."""
    own = _places(a, a, np.trace, np.multiply)
    return float(np.sum(a.gates**2) * (_products(a, a) + variance * own))


def _grams(x, y, same):
    """Return `(Kᵀ K') ∘ (M M'ᵀ)` of each axis, the second operation conjugated or not."""
    axes = zip(*x.matrices, *y.matrices, strict=True)
    return [(k @ same(k_y).T) * (m @ same(m_y).T) for m, _, k, m_y, _, k_y in axes]


def _products(x, y):
    """Return the inner product of the parts `A_0` of two operations."""
    return inner_product(x, y, x.bias, y.bias)


def _places(x, y, of_axis, join):
    """Return the inner products `<A_i, A'_j>` of the parts of all places, or a sum of them."""
    total = 0.0
    for same in (np.conj, np.positive):
        axes = zip(x.matrices[1], _grams(x, y, same), y.matrices[1], strict=True)
        pairs = [of_axis(placed.T @ gram @ same(other)) for placed, gram, other in axes]
        total = total + np.real(functools.reduce(join, pairs)) / 2
    return total


def _times(matrix, array):
    """Multiply a `KMatrix` by an array in NumPy."""
    n = matrix.plan.n
    if n <= LARGEST_IN_NUMPY:
        return matrix.columns(np.arange(n)) @ array
    real, imaginary = matrix.apply(array, axis=0)
    return _double(real) + 1j * _double(imaginary)


def _double(values):
    return ops.convert_to_numpy(values).astype("float64")


SQUARES = {
    "euclidean": _euclidean,
    "frobenius": _frobenius,
    "averaged": _averaged,
    "own_kernel": functools.partial(_squares, _map_product),
}
