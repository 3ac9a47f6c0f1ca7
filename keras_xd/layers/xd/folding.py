"""An XD-operation multiplied out: for every call of a search, and once where it is over."""

import dataclasses
import functools
from collections.abc import Sequence

import keras
from keras import ops

from keras_xd.core import tracing
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.type_aliases import Shape, Tensor
from keras_xd.kmatrix import product
from keras_xd.kmatrix.radix import Plan
from keras_xd.layers.xd import (
    finalized_low_rank,
    finalized_sizes,
    functional,
    low_rank,
    placed_kernel,
)
from keras_xd.layers.xd.architecture_weights import MatrixArchitecture
from keras_xd.layers.xd.finalized import StaticKernelXD, StaticXD
from keras_xd.layers.xd.finalized_low_rank import StaticLowRankXD
from keras_xd.layers.xd.warm_starts.operations import MATRICES


class FoldedOperation(ConfiguredLayer, MatrixArchitecture):
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
            static = self._low_rank(
                weight_dtype, finalized_sizes.TOLERANCE if tolerance is None else tolerance
            )
            if static is not None:
                return static
            form = self._smallest_exact()
        form = self.finalized_sizes(self.get_build_config()["input_shape"], form).form
        if form == "spectrum":
            folded = self._compiled_once(self._folded)
            return StaticXD.from_tensors(self, *folded, storage=weight_dtype)
        plans = finalized_sizes.compact_plans(self._geometry, self._plans, self.depth)
        transforms = functools.partial(self.architecture_transforms, plans, columns=True)
        analyses, matrices, syntheses = self._compiled_once(transforms)
        kernel = functional.exact(self._grouped_kernel())
        b, gates = self.architecture_extras(kernel.dtype)
        if b is None and gates is not None:
            kernel, gates = gates * kernel, None
        spectrum = [*matrices, kernel, *(part for part in (b, gates) if part is not None)]
        return StaticKernelXD.from_tensors(
            self, analyses, spectrum, syntheses, storage=weight_dtype
        )

    def _compiled_once(self, function):
        """Return the transforms, tensors and transforms of a function, as `compiled_once` does."""
        found = []

        def tensors():
            analyses, between, syntheses = function()
            found[:] = analyses, syntheses
            return [t.matrices for t in analyses], between, [t.matrices for t in syntheses]

        first, between, last = tracing.compiled_once(tensors, self.variables)
        analyses, syntheses = (
            [dataclasses.replace(t, matrices=m) for t, m in zip(transforms, matrices, strict=True)]
            for transforms, matrices in zip(found, (first, last), strict=True)
        )
        return analyses, between, syntheses

    def _smallest_exact(self):
        """Return which of the exact forms has the fewest weights."""
        shape = self.get_build_config()["input_shape"]
        forms = [self.finalized_sizes(shape, form) for form in ("spectrum", "kernel")]
        return min(forms, key=lambda form: form.parameters).form

    def _low_rank(self, weight_dtype, tolerance):
        """Return the static layer of low ranks, or `None` where an exact form is better."""
        shape, kernel = self.get_build_config()["input_shape"], self._grouped_kernel()
        if not low_rank.is_decomposable(self, kernel):
            return None
        whole = low_rank.tucker(self, kernel)
        spectrum = self.finalized_sizes(shape)
        most = finalized_low_rank.MOST_GROWTH * self.count_params()
        ranks = finalized_low_rank.best_ranks(
            whole.errors() <= tolerance,
            [g.size for g in self._geometry],
            [g.output_size for g in self._geometry],
            (kernel.shape[-2] * self.groups, self.filters, self.groups),
            min(spectrum.parameters, most) - self.filters * bool(self.use_bias),
            finalized_low_rank.RATE * spectrum.multiply_adds,
        )
        if ranks is None:
            return None
        periodic = all(g.is_circle for g in self._geometry)
        return StaticLowRankXD.from_decomposition(
            self, whole.truncated(ranks), periodic=periodic, storage=weight_dtype
        )

    def linear(self, x: Tensor) -> Tensor:
        """Return the outputs of exact inputs, without the activation."""
        x = functional.to_columns(x, self.data_format)
        analyses, spectrum, syntheses = self._folded()
        spectrum = [ops.cast(piece, self.compute_dtype) for piece in spectrum]
        outputs = functional.apply(x, analyses, spectrum, syntheses, self.groups)
        outputs = functional.with_bias(outputs, self.bias)
        return functional.from_columns(outputs, self.data_format)

    def _folded(self):
        """Return the transforms by `M`, the spectrum `C ∘ (L w + b)` and the transforms by `K`."""
        extras = self.architecture_extras(functional.exact_dtype(self.variable_dtype))
        return self.multiplied_out(self.architecture_transforms(self._plans), *extras)

    def multiplied_out(
        self, transforms: tuple[list, list, list], b: Tensor | None, gates: Tensor | None
    ) -> tuple[list, list, list]:
        """Return the transforms by `M`, the spectrum `C ∘ (L w + b)` and the transforms by `K`."""
        analyses, matrices, syntheses = transforms
        kernel = functional.exact(self._grouped_kernel())
        return analyses, functional.spectrum(kernel, matrices, b, gates), syntheses

    def architecture_transforms(
        self, plans: Sequence[Plan], *, columns: bool = False
    ) -> tuple[list, list, list]:
        """Return the transforms by `M`, `L` for the kernel and the transforms by `K`."""
        weights = [functional.exact(w) for name in MATRICES for w in self._matrix_tensors(name)]
        kernel_plans = [axis.plan for axis in self._kernel_axes]
        folded = product.multiply_out(weights, [*plans, *kernel_plans, *plans])
        k_factors, l_factors, m_factors = (
            folded[i * self.rank : (i + 1) * self.rank] for i in range(len(MATRICES))
        )
        matrices = placed_kernel.kernel_transforms(l_factors, self._kernel_axes, columns=columns)
        analyses, syntheses = functional.transforms(m_factors, k_factors, plans, self._geometry)
        return analyses, matrices, syntheses

    def architecture_extras(self, dtype: str) -> tuple[Tensor | None, Tensor | None]:
        """Return `b`, of shape `(frequencies, 2, 1, 1)`, and the gates `C`, or `None` for each."""
        b, gates = self._frequency_bias, self._channel_gates
        if b is not None:
            b = ops.cast(ops.reshape(ops.convert_to_tensor(b), (-1, 2, 1, 1)), dtype)
        return b, None if gates is None else ops.cast(ops.convert_to_tensor(gates), dtype)
