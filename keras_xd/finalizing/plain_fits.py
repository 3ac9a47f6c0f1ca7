"""Least-squares fits of plain layers to the linear map of an XD-operation, in NumPy."""

import dataclasses
import functools
import itertools
import math

import numpy as np
from keras import ops

from keras_xd.layers.xd import axis_layout
from keras_xd.layers.xd.operation_products import Architecture, along_axes, own_norm

# The longest kernel that is tried by rank, at most that of the inputs, unless the operation's own
# is longer.
LONGEST_KERNEL = {1: 31, 2: 11, 3: 5}
# What float32 leaves of a difference that is none.
ROUNDING = 1e-6


@dataclasses.dataclass(frozen=True)
class Fit:
    """A plain layer that may take the place of an operation.

    Attributes:
        operation: "convolution", "depthwise convolution", "average pooling", "identity", "zero" or
            "Fourier operator".
        distance: norm of the difference of both linear maps, divided by that of the operation.
        multiply_adds: of the plain layer, for one sample; poolings count 0, as in `complexity`.
        kernel_size: of the plain layer; of a Fourier operator its modes.
        padding, dilation: of the plain layer.
    """

    operation: str
    distance: float
    multiply_adds: int
    kernel_size: tuple[int, ...] = ()
    padding: str = "valid"
    dilation: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.operation in ("identity", "zero"):
            return self.operation
        unit = " modes" if self.operation == "Fourier operator" else ""
        return f"{self.operation} {'×'.join(map(str, self.kernel_size))}{unit}"


class LinearMap:
    """The linear map of a built XD-operation with its own kernel, and the plain layers nearest.

    Attributes:
        layer: the layer.
        total: squared norm of the map.
        channels: number of input channels.
    """

    def __init__(self, layer):
        self.layer = layer
        self.architecture = Architecture(layer)
        self.total = own_norm(self.architecture)
        shape = layer.get_build_config()["input_shape"]
        self.channels = shape[-1 if layer.data_format == "channels_last" else 1]
        self.transposed = isinstance(layer.geometry[0], axis_layout.TransposedAxisGeometry)

    @property
    def is_square(self):
        """Whether outputs have the sizes and channels of the inputs, and no stride is between."""
        same = all(g.size == g.output_size for g in self.layer.geometry)
        return same and max(self.layer.strides) == 1 and self.channels == self.layer.filters

    @property
    def is_zero(self):
        """Whether the map is below rounding compared with a convolution of the same kernel."""
        geometry = self.layer.geometry
        count = math.prod(g.size if self.transposed else g.output_size for g in geometry)
        kernel = ops.convert_to_numpy(self.layer.kernel).astype("float64")
        return self.total <= ROUNDING**2 * count * np.sum(kernel**2)

    def convolutions(self, depthwise=False):
        """Return a `Fit` for each convolution that has the sizes of inputs and outputs."""
        if not self._candidates:
            return []
        weights, offsets = self._weights, self._offsets
        if depthwise:
            weights = self._diagonal(weights)
        counts = self._counts(offsets)
        energy = np.sum(weights**2, axis=tuple(range(len(offsets), weights.ndim))) * counts
        connections = self.layer.filters * (1 if depthwise else self.channels // self.layer.groups)
        sizes = [g.size if self.transposed else g.output_size for g in self.layer.geometry]
        fits = []
        for padding, dilation, kernels in self._candidates:
            explained = np.sum(energy[self._places(padding, dilation, kernels)])
            name = "depthwise convolution" if depthwise else "convolution"
            cost = math.prod(sizes) * math.prod(kernels) * connections
            fits.append(Fit(name, self._distance(explained), cost, kernels, padding, dilation))
        return fits

    def kernel_of(self, fit):
        """Return the weights of a fitted convolution, `(*kernel_size, channels / groups,
        filters)`.
        """
        kernel = self._weights[self._places(fit.padding, fit.dilation, fit.kernel_size)]
        return self._diagonal(kernel) if fit.operation == "depthwise convolution" else kernel

    def poolings(self):
        """Return a `Fit` for the identity and for each average pooling of the sizes in use."""
        layer = self.layer
        if self.transposed or self.channels != layer.filters or max(layer.dilation_rate) > 1:
            return []
        diagonal = self._diagonal(self.architecture.spectrum)
        longest = LONGEST_KERNEL[layer.rank]
        sizes = {(size,) * layer.rank for size in range(1, longest + 1)} | {layer.kernel_size}
        fits = []
        for kernels, padding in itertools.product(sorted(sizes), ("valid", "same")):
            offsets = [self._offsets_of(a, k, padding, 1) for a, k in enumerate(kernels)]
            if None in offsets or (max(kernels) == 1 and padding == "same"):
                continue
            vectors, norms = zip(
                *map(self._pooling_vector, range(layer.rank), offsets), strict=True
            )
            product = np.real(np.sum(along_axes(vectors, diagonal)))
            norm = layer.filters * math.prod(norms)
            explained = 2 * product - norm
            identity = max(kernels) == 1 and self.is_square
            name = "identity" if identity else "average pooling"
            fits.append(Fit(name, self._distance(explained), 0, kernels, padding))
        return fits

    def fourier_operators(self):
        """Return a `Fit` for each number of modes of a spectral convolution."""
        layer = self.layer
        sizes = [g.size for g in layer.geometry]
        same = all(g.size == g.output_size for g in layer.geometry) and max(layer.strides) == 1
        if self.transposed or not same or layer.groups > 1:
            return []
        spectrum = self.spectral_kernel(sizes)
        energy = np.sum(np.abs(spectrum) ** 2, axis=(-2, -1))
        fits: list[Fit] = []
        for modes in range(1, max(sizes) // 2 + 2):
            kept = _bounded_modes(modes, sizes)
            if fits and fits[-1].kernel_size == kept:
                break
            index, factors = kept_frequencies(kept, sizes)
            explained = np.sum(energy[np.ix_(*index)] * factors)
            frequencies = math.prod(len(one) for one in index)
            cost = 4 * frequencies * self.channels * layer.filters
            fits.append(Fit("Fourier operator", self._distance(explained), cost, kept))
        return fits

    def spectral_kernel(self, sizes):
        """Return the factor of every frequency in the nearest map that is periodic, complex."""
        m, _, k = self.architecture.matrices
        vectors = []
        for columns, rows, size in zip(m, k, sizes, strict=True):
            # Σ_t K[f, t] M[f, (t + δ) mod size] for every δ.
            products = np.fft.fft(columns, axis=1) * np.conj(np.fft.fft(np.conj(rows), axis=1))
            vectors.append(np.fft.ifft(products, axis=1).T / size)
        weights = np.real(along_axes(vectors, self.architecture.spectrum))
        return np.conj(np.fft.fftn(weights, axes=tuple(range(len(sizes)))))

    def _distance(self, explained):
        if self.total == 0.0:
            return 0.0
        distance = math.sqrt(max(1.0 - float(explained) / self.total, 0.0))
        return 0.0 if distance <= ROUNDING else distance

    @functools.cached_property
    def _candidates(self):
        """`(padding, dilation, kernel size)` of the convolutions with the sizes in use."""
        layer = self.layer
        longest = [
            max(min(LONGEST_KERNEL[layer.rank], g.size), size)
            for g, size in zip(layer.geometry, layer.kernel_size, strict=True)
        ]
        paddings = ("valid", "same") + (("causal",) if layer.rank == 1 else ())
        paddings = paddings[:2] if self.transposed else paddings
        dilations = {tuple(layer.dilation_rate), (1,) * layer.rank}
        found = []
        for padding, dilation in itertools.product(paddings, sorted(dilations)):
            if max(dilation) > 1 and max(layer.strides) > 1:
                continue  # which Keras refuses
            by_axis = [
                [k for k in range(1, most + 1) if self._offsets_of(a, k, padding, dilation[a])]
                for a, most in enumerate(longest)
            ]
            for kernels in itertools.product(*by_axis):
                one = max(kernels) == 1
                if not (one and dilation != (1,) * layer.rank):
                    found.append((padding, dilation, kernels))
        return found

    def _offsets_of(self, axis, kernel, padding, dilation):
        """Return `δ` of each weight of a convolution, or `None` if its sizes are others."""
        g, layer = self.layer.geometry[axis], self.layer
        stride = layer.strides[axis]
        try:
            if self.transposed:
                extra = None if layer.output_padding is None else layer.output_padding[axis]
                other = axis_layout.transposed_axis_geometry(
                    g.size, kernel, stride, dilation, padding, extra
                )
            else:
                other = axis_layout.axis_geometry(g.size, kernel, stride, dilation, padding)
        except ValueError:
            return None
        if other.output_size != g.output_size:
            return None
        return tuple(dilation * j - other.left for j in range(kernel))

    @functools.cached_property
    def _offsets(self):
        """The offsets in question, by axis."""
        offsets: list[set[int]] = [set() for _ in self.layer.geometry]
        for padding, dilation, kernels in self._candidates:
            for axis, kernel in enumerate(kernels):
                offsets[axis].update(self._offsets_of(axis, kernel, padding, dilation[axis]))
        return [sorted(one) for one in offsets]

    @functools.cached_property
    def _weights(self):
        """The best weight at every offset in question."""
        m, _, k = self.architecture.matrices
        vectors = [
            np.stack([np.sum(rows[:, t] * columns[:, s], axis=1) for t, s in entries])
            for columns, rows, entries in zip(m, k, self._entries(self._offsets), strict=True)
        ]
        sums = np.real(along_axes(vectors, self.architecture.spectrum))
        return sums / np.maximum(self._counts(self._offsets), 1)[..., None, None]

    def _entries(self, offsets):
        """Return by axis and offset the outputs and inputs that a weight connects."""
        return [self._entries_of(axis, one) for axis, one in enumerate(offsets)]

    def _entries_of(self, axis, offsets):
        g, stride = self.layer.geometry[axis], self.layer.strides[axis]
        ends = (g.size, g.output_size) if self.transposed else (g.output_size, g.size)
        pairs = []
        for offset in offsets:
            first = np.arange(ends[0])
            second = stride * first + offset
            inside = (second >= 0) & (second < ends[1])
            first, second = first[inside], second[inside]
            pairs.append((second, first) if self.transposed else (first, second))
        return pairs

    def _counts(self, offsets):
        """Return how many entries of the map every combination of offsets has."""
        counts = [np.array([len(t) for t, _ in axis]) for axis in self._entries(offsets)]
        return functools.reduce(np.multiply.outer, counts)

    def _places(self, padding, dilation, kernels):
        """Return the index of the weights of a convolution among those at all offsets."""
        places = []
        for axis, (offsets, kernel) in enumerate(zip(self._offsets, kernels, strict=True)):
            wanted = self._offsets_of(axis, kernel, padding, dilation[axis])
            places.append([offsets.index(offset) for offset in wanted])
        return np.ix_(*places)

    def _diagonal(self, weights):
        """Return the weights of each filter from its own channel, along the last axis."""
        layer = self.layer
        channels = self.channels // layer.groups
        filters = np.arange(layer.filters)
        own = filters // max(layer.filters // self.channels, 1) % channels
        return weights[..., own, filters]

    def _pooling_vector(self, axis, offsets):
        """Return `Σ K[t] M[s] / inputs in the window of t` and the squared norm of that axis."""
        m, _, k = (part[axis] for part in self.architecture.matrices)
        entries = self._entries_of(axis, offsets)
        outputs = np.concatenate([t for t, _ in entries])
        inputs = np.concatenate([s for _, s in entries])
        shares = 1.0 / np.bincount(outputs, minlength=k.shape[1])[outputs]
        vector = np.sum(k[:, outputs] * m[:, inputs] * shares, axis=1)
        return vector[None], float(np.sum(shares**2))


def kept_frequencies(modes, sizes):
    """Return the frequencies of a spectral convolution by axis, and how much each explains."""
    index = [
        [*range(mode), *range(size - mode, size)]
        for mode, size in zip(modes[:-1], sizes[:-1], strict=True)
    ]
    index.append(list(range(modes[-1])))
    factors = np.zeros([len(one) for one in index])
    kept = [set(one) for one in index]
    for place in np.ndindex(factors.shape):
        frequency = [one[p] for one, p in zip(index, place, strict=True)]
        mirror = [-f % size for f, size in zip(frequency, sizes, strict=True)]
        if mirror[-1] != frequency[-1]:
            factors[place] = 2.0
        elif all(f in one for f, one in zip(mirror, kept, strict=True)):
            factors[place] = 1.0
    return index, factors


def _bounded_modes(modes, sizes):
    """Return the modes of each axis, at most as many as the axis has."""
    most = [*(size // 2 for size in sizes[:-1]), sizes[-1] // 2 + 1]
    return tuple(min(modes, one) for one in most)
