"""An XD-operation multiplied out: for every call of a search, and once where it is over."""

import functools
import math
from collections.abc import Sequence

import keras
from keras import ops

from keras_xd.core import tracing
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.searchable import SearchableLayer
from keras_xd.core.type_aliases import Shape, Tensor
from keras_xd.kmatrix import product, transform
from keras_xd.kmatrix.radix import Plan
from keras_xd.layers.xd import (
    finalized_low_rank,
    finalized_sizes,
    functional,
    low_rank,
)
from keras_xd.layers.xd.finalized import StaticKernelXD, StaticXD
from keras_xd.layers.xd.finalized_low_rank import StaticLowRankXD
from keras_xd.layers.xd.kept_frequencies import KeptFrequencies
from keras_xd.layers.xd.placed_kernel import PlacedTransform
from keras_xd.layers.xd.warm_starts.operations import MATRICES


class FoldedOperation(ConfiguredLayer, SearchableLayer):
    """Base class of `XDLayer`: what its matrices, kernel, bias and gates multiply out to."""

    def finalized_sizes(self, input_shape: Shape, form: str = "spectrum") -> finalized_sizes.Sizes:
        """Return the sizes of what `finalize` makes, on inputs of a shape, without building it."""
        channels, _ = self._split_shape(input_shape)
        geometry, plans = self._sizes(input_shape)
        filters, groups = self._output_channels(channels), self._channel_groups(channels)
        return finalized_sizes.sizes(
            form,
            geometry,
            plans,
            self.depth,
            (channels, filters, groups),
            use_bias=self.use_bias,
            frequency_bias=self.frequency_bias,
            channel_gates=self.channel_gates,
        )

    def finalize(
        self,
        form: str = "spectrum",
        weight_dtype: str | None = None,
        tolerance: float | None = None,
    ) -> keras.layers.Layer:
        """Return a built layer of dense matrices with the same outputs."""
        if finalized_sizes.is_low_rank(form, tolerance):
            tolerance = finalized_sizes.TOLERANCE if tolerance is None else tolerance
            found = self._approximated(weight_dtype, tolerance)
            if found is not None:
                return found[1]
            form = self.finalized_sizes(self.get_build_config()["input_shape"], "auto").form
        if form == "auto":
            return self._fitting(weight_dtype)
        return self._exact(form, weight_dtype)

    def _fitting(self, weight_dtype):
        """Return the static layer of the form that measured times and sizes recommend."""
        shape = self.get_build_config()["input_shape"]
        approximated = self._approximated(weight_dtype, finalized_sizes.ROUNDING)
        found: dict[str, tuple] = {}
        for form in ("kernel", "spectrum"):
            make = functools.partial(self._exact, form, weight_dtype)
            found[form] = (self.finalized_sizes(shape, form).parameters, make, ())
        if approximated is not None:
            form, static = approximated
            found[form] = (static.count_params(), lambda: static, static.kept)
        own = [type(self).__name__, self.geometry, self.plans, self.depth, self.groups, shape]
        own += [self.filters, self.frequency_bias, self.channel_gates, weight_dtype]
        costs = tuple(
            finalized_sizes.FormCost(
                form,
                count,
                finalized_sizes.milliseconds(
                    repr((form, own, self.dtype_policy, kept)), make, shape
                ),
            )
            for form, (count, make, kept) in found.items()
        )
        static = found[finalized_sizes.best_form(costs).form][1]()
        static.costs = costs
        return static

    def _exact(self, form, weight_dtype):
        """Return the static layer that stores all of the spectrum, or the kernel."""
        if form == "spectrum":
            return StaticXD.from_tensors(self, *self.folded(), storage=weight_dtype)
        plans = finalized_sizes.compact_plans(self.geometry, self.plans, self.depth)
        analyses, matrices, syntheses = self.architecture_transforms(plans)
        kernel, b, gates = self._exact_kernel()
        if b is None and gates is not None:
            kernel, gates = gates * kernel, None
        spectrum = [*matrices, kernel, *(part for part in (b, gates) if part is not None)]
        return StaticKernelXD.from_tensors(
            self, analyses, spectrum, syntheses, storage=weight_dtype
        )

    def _approximated(self, weight_dtype, tolerance):
        """Return form and static layer of few ranks or few frequencies within a tolerance.

        `None` where there is none, or an exact form is better.
        """
        static = self._low_rank(weight_dtype, tolerance)
        if static is not None:
            return finalized_sizes.LOW_RANK, static
        static = self._of_kept_frequencies(weight_dtype, tolerance)
        return None if static is None else (finalized_sizes.FREQUENCIES, static)

    def _of_kept_frequencies(self, weight_dtype, tolerance):
        """Return the static layer of the frequencies that carry something, or `None`."""
        numbers = math.prod(plan.n for plan in self.plans) * math.prod(self.kernel.shape[-2:])
        if numbers > low_rank.LARGEST or not all(g.is_circle for g in self.geometry):
            return None
        kept = KeptFrequencies(self, tolerance)
        if kept.error > tolerance:
            return None
        analyses, syntheses = kept.transforms()
        static = StaticXD.from_tensors(
            self, analyses, [kept.spectrum()], syntheses, storage=weight_dtype
        )
        static.error, static.kept = kept.error, kept.counts
        small = static.count_params() <= finalized_sizes.MOST_GROWTH * self.count_params()
        return static if small else None

    def _low_rank(self, weight_dtype, tolerance):
        """Return the static layer of low ranks, or `None` where an exact form is better."""
        shape, kernel = self.get_build_config()["input_shape"], self._grouped_kernel()
        if not low_rank.is_decomposable(self, kernel):
            return None
        whole = low_rank.tucker(self, kernel)
        spectrum = self.finalized_sizes(shape)
        most = finalized_sizes.MOST_GROWTH * self.count_params()
        ranks = finalized_low_rank.best_ranks(
            whole.errors() <= tolerance,
            [g.size for g in self.geometry],
            [g.output_size for g in self.geometry],
            (kernel.shape[-2] * self.groups, self.filters, self.groups),
            min(spectrum.parameters, most) - self.filters * bool(self.use_bias),
            finalized_low_rank.RATE * spectrum.multiply_adds,
        )
        if ranks is None:
            return None
        periodic = all(g.is_circle for g in self.geometry)
        return StaticLowRankXD.from_decomposition(
            self, whole.truncated(ranks), periodic=periodic, storage=weight_dtype
        )

    def spectrum_of(self, matrices: list) -> list[Tensor]:
        """Return the spectrum `C ∘ (L w + b)` in pieces, for `L` of each axis."""
        kernel, *extras = self._exact_kernel()
        return functional.spectrum(kernel, matrices, *extras)

    def folded(self) -> tuple[list, list[Tensor], list]:
        """Return the transforms by `M`, the spectrum in pieces and the transforms by `K`."""
        return _folded(self._exact_weights(), *self._exact_kernel(), *self._folding_sizes())

    def architecture_transforms(self, plans: Sequence[Plan]) -> tuple[list, list, list]:
        """Return the transforms by `M`, the columns of `L` and the transforms by `K`."""
        _, *sizes = self._folding_sizes()
        return _transforms(self._exact_weights(), tuple(plans), *sizes, columns=True)

    def _operated(self, x):
        """Return the outputs without activation."""
        options = self.groups, self.data_format, self.compute_dtype
        run = tracing.shared_by_graphs(_operated, *options, self._folding_sizes())
        bias = None if self.bias is None else ops.convert_to_tensor(self.bias)
        return run(x, bias, self._exact_weights(), *self._exact_kernel())

    def _folding_sizes(self):
        """Return what the operation is folded by."""
        return tuple(self.plans), self._kernel_axes, tuple(self.geometry)

    def _exact_weights(self):
        """Return the packed weights of `K`, `L` and `M` of every axis."""
        return [functional.exact(w) for name in MATRICES for w in self._matrix_tensors(name)]

    def _exact_kernel(self):
        """Return the kernel, `b` of shape `(frequencies, 2, 1, 1)` and `C`, or `None` for them."""
        kernel = functional.exact(self._grouped_kernel())
        b, gates = self._frequency_bias, self._channel_gates
        if b is not None:
            b = ops.cast(ops.reshape(ops.convert_to_tensor(b), (-1, 2, 1, 1)), kernel.dtype)
        if gates is not None:
            gates = ops.cast(ops.convert_to_tensor(gates), kernel.dtype)
        return kernel, b, gates


def _transforms(weights, plans, kernel_axes, geometry, columns=False):
    """Return the transforms by `M`, `L` for the kernel and the transforms by `K`."""
    folded = product.multiply_out(weights, [*plans, *(axis.plan for axis in kernel_axes), *plans])
    rank = len(plans)
    k_factors, l_factors, m_factors = (folded[i * rank :][:rank] for i in range(len(MATRICES)))
    matrices: list = []  # a matrix, or a `PlacedTransform`, for each axis of `functional.spectrum`
    for index, (factor, axis) in enumerate(zip(l_factors, kernel_axes, strict=True)):
        if axis.direct and not columns:
            analysis = transform.forward_transform(factor, axis.plan, pair=index > 0)
            matrices.append(PlacedTransform(analysis, axis.weights))
            continue
        dtype = keras.backend.standardize_dtype(weights[0].dtype)
        unit_vectors = ops.expand_dims(axis.placement(dtype), 0)
        matrices.append(transform.forward_transform(factor, axis.plan, pair=False)(unit_vectors)[0])
    analyses, syntheses = functional.transforms(m_factors, k_factors, plans, geometry)
    return analyses, matrices, syntheses


def _folded(weights, kernel, bias, gates, *sizes):
    """Return the transforms by `M`, the spectrum in pieces and the transforms by `K`."""
    analyses, matrices, syntheses = _transforms(weights, *sizes)
    return analyses, functional.spectrum(kernel, matrices, bias, gates), syntheses


def _operated(groups, data_format, dtype, sizes, x, bias, weights, kernel, frequency_bias, gates):
    """Return the outputs of an operation that is multiplied out, without activation."""
    analyses, spectrum, syntheses = _folded(weights, kernel, frequency_bias, gates, *sizes)
    spectrum = [ops.cast(piece, dtype) for piece in spectrum]
    x = functional.to_columns(x, data_format)
    x = functional.apply(x, analyses, spectrum, syntheses, groups)
    return functional.from_columns(functional.with_bias(x, bias), data_format)
