"""The spectrum of an XD-operation at the frequencies that carry something, in NumPy."""

import math
from types import SimpleNamespace

import numpy as np

from keras_xd.kmatrix.radix import Plan
from keras_xd.kmatrix.transform import ForwardTransform, TransposedTransform
from keras_xd.layers.xd.operation_products import Architecture, inner_product


class KeptFrequencies:
    """A linear map by some frequencies of each axis; of conjugate pairs one, on the first axis.

    Attributes:
        counts: how many frequencies of each axis are kept.
        error: of the linear map, relative to its Frobenius norm, if rows of different frequencies
            are orthogonal among those that are left out, as they are where a search begins.
    """

    def __init__(self, layer, tolerance):
        architecture = Architecture(layer)
        analyses, _, syntheses = architecture.matrices
        values, rank = architecture.spectrum, len(analyses)
        axes = list(zip(analyses, syntheses, strict=True))
        energies = np.sum(np.abs(values) ** 2, axis=(-2, -1))
        for axis, rows in enumerate(axes):
            lengths = np.prod([np.linalg.norm(x, axis=1) ** 2 for x in rows], axis=0)
            energies *= np.expand_dims(lengths, [other for other in range(rank) if other != axis])
        total, kept = np.sum(energies), []
        for axis in range(rank):
            carried = np.sum(energies, axis=tuple(other for other in range(rank) if other != axis))
            order = np.argsort(carried)
            dropped = np.cumsum(carried[order]) <= tolerance**2 / (2 * rank) * total
            kept.append(np.sort(order[~dropped]))
        self.counts, self.error = tuple(map(len, kept)), math.inf
        if 2 * math.prod(self.counts) > energies.size:
            return  # not worth it
        left_out = 1 - np.sum(energies[np.ix_(*kept)]) / total
        axes = [(m[rows], k[rows]) for (m, k), rows in zip(axes, kept, strict=True)]
        values, first = values[np.ix_(*kept)], np.arange(len(kept[0]))
        # By axis the row that is nearest to the conjugate of each row.
        mirrors = [np.argmax(np.prod([abs(x @ x.T) for x in rows], axis=0), 1) for rows in axes]
        changed = np.zeros_like(values)
        if all(np.array_equal(m[m], np.arange(len(m))) for m in mirrors):
            single = mirrors[0] == first
            others = np.conj(values[np.ix_(*mirrors)])
            # Of a pair the first gets both values, the second none.
            changed = np.where(first < mirrors[0], 1, -1).reshape(-1, *(1,) * (values.ndim - 1))
            changed = np.where(changed > 0, others, -values)
            changed[single] = 0
            first = first[first <= mirrors[0]]
        parts = SimpleNamespace(
            matrices=([m for m, _ in axes], [None] * rank, [k for _, k in axes])
        )
        paired = inner_product(parts, parts, changed, changed) / total
        self.error = math.sqrt(max(left_out, 0.0) + max(paired, 0.0))
        self.values = (values + changed)[first]
        self.counts = (len(first), *self.counts[1:])
        self._axes = [(axes[0][0][first], axes[0][1][first]), *axes[1:]]

    def transforms(self):
        """Return the dense transforms of all axes there and back."""
        plans = [Plan(count, (count,), (1,)) for count in self.counts]
        there, back = [], []
        for axis, (plan, (m, k)) in enumerate(zip(plans, self._axes, strict=True)):
            pair, width = axis > 0, m.shape[1]
            matrix = np.stack([m.real, m.imag], axis=1).reshape(2 * plan.n, width)
            if pair:
                other = np.stack([-m.imag, m.real], axis=1).reshape(2 * plan.n, width)
                matrix = np.concatenate([matrix, other], axis=1)
            there.append(ForwardTransform([matrix], (0,), plan, width, 1, pair))
            width = k.shape[1]
            matrix = np.stack([k.T.real, -k.T.imag], axis=2).reshape(width, -1)
            if pair:
                other = np.stack([k.T.imag, k.T.real], axis=2).reshape(width, -1)
                matrix = np.concatenate([matrix, other], axis=0)
            back.append(TransposedTransform([matrix], (0,), plan, width, 1, pair))
        return there, back

    def spectrum(self):
        """Return the values at the kept frequencies, `(frequencies, 2, channels, filters)`."""
        values = self.values.reshape(-1, *self.values.shape[-2:])
        return np.stack([values.real, values.imag], axis=1)
