"""Mixtures of structured matrices of several families and sizes, multiplied as one matrix."""

import contextlib
import dataclasses
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops
from numpy.typing import ArrayLike

from keras_xd.core import validation
from keras_xd.core.mixtures import expected_count
from keras_xd.core.scoped import Scoped
from keras_xd.core.type_aliases import Config, Tensor
from keras_xd.kmatrix import families
from keras_xd.kmatrix.structured import Projection
from keras_xd.kmatrix.structured_product import SIZES
from keras_xd.layers.structured import base

FAMILIES = ("low_rank", "monarch", "block_tensor_train", "blast")
DENSITIES = (0.5, 0.25)
# Mixtures that are multiplied out already, by the ids of their kernels.
_FOLDED = Scoped(None)


class MixedKernel:
    """Structured matrices of one shape, and their sum by probabilities, as one matrix."""

    def __init__(self, kernels: Sequence[base.StructuredKernel], layer: keras.layers.Layer):
        self.kernels, self.layer = tuple(kernels), layer
        self.inputs, self.units = kernels[0].inputs, kernels[0].units

    def __call__(self, x: Tensor) -> Tensor:
        """Return `x · kernel` along the last axis of `x`."""
        folded = (_FOLDED.value or {}).get(id(self))
        return ops.matmul(x, ops.cast(self.dense() if folded is None else folded, x.dtype))

    def rows(self, indices: Tensor) -> Tensor:
        """Return rows of the mixture, of shape `(count, units)`, without multiplying it out."""
        total = 0
        for kernel, probability in zip(self.kernels, ops.unstack(self.probabilities), strict=True):
            rows = kernel.rows(indices)
            total = total + rows * ops.cast(probability, rows.dtype)
        return total

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the candidates."""
        return tuple(self.layer.candidates)

    @property
    def variables(self) -> list[keras.Variable]:
        """Those of all candidates."""
        return [variable for kernel in self.kernels for variable in kernel.variables]

    @property
    def probabilities(self) -> Tensor:
        """The probability of each candidate."""
        return ops.softmax(ops.convert_to_tensor(self.layer.logits))

    @property
    def multiply_adds(self) -> Tensor:
        """The expected multiply–adds of one vector, by the probabilities of the candidates."""
        return self._expected([kernel.multiply_adds for kernel in self.kernels])

    @property
    def row_multiply_adds(self) -> Tensor:
        """The expected multiply–adds of one of the `rows`."""
        return self._expected([kernel.row_multiply_adds for kernel in self.kernels])

    @property
    def parameters(self) -> Tensor:
        """The expected numbers of the kernel."""
        return self._expected([kernel.product.parameters for kernel in self.kernels])

    def dense(self) -> Tensor:
        """Return the mixture multiplied out, of shape `(inputs, units)`."""
        total = 0
        for kernel, probability in zip(self.kernels, ops.unstack(self.probabilities), strict=True):
            matrix = kernel.dense()
            total = total + matrix * ops.cast(probability, matrix.dtype)
        return total

    def project(self, matrix: ArrayLike, inputs: ArrayLike | None = None) -> dict[str, Projection]:
        """Set every candidate to the nearest one to a dense kernel."""
        return {
            name: kernel.project(matrix, inputs if self._takes_inputs(kernel) else None)
            for name, kernel in zip(self.names, self.kernels, strict=True)
        }

    def start_from(
        self,
        matrix: ArrayLike,
        old: keras.Variable,
        arguments: Sequence[np.ndarray] | None = None,
    ) -> list[base.Start]:
        """Set every candidate as `StructuredKernel.start_from` does."""
        return [
            dataclasses.replace(start, candidate=name)
            for name, kernel in zip(self.names, self.kernels, strict=True)
            for start in kernel.start_from(
                matrix, old, arguments if self._takes_inputs(kernel) else None
            )
        ]

    def become(self, kernel: base.StructuredKernel, name: str) -> None:
        """Set a structured kernel of the sizes of a candidate as near to the mixture as can be."""
        chosen = self.kernels[self.names.index(name)]
        mixture = ops.convert_to_numpy(self.dense()).astype("float64")
        own = ops.convert_to_numpy(chosen.dense()).astype("float64")
        product = chosen.product
        found = families.nearest(mixture.T, product.family, product.sizes)
        if np.linalg.norm(mixture - own) <= np.linalg.norm(mixture - found.matrix.T):
            for old, new in zip(chosen.variables, kernel.variables, strict=True):
                new.assign(ops.copy(old))
        else:
            kernel.assign(found)

    @staticmethod
    def _takes_inputs(kernel):
        return kernel.product.family in families.WITH_INPUTS

    def _expected(self, counts):
        return expected_count(self.probabilities, counts)


def folded(kernels: Sequence[MixedKernel]) -> contextlib.AbstractContextManager[None]:
    """Return a context manager in which mixtures are multiplied out once, as for loops."""
    return _FOLDED.set_to({id(kernel): kernel.dense() for kernel in kernels})


class MixtureOptions(base.StructuredOptions):
    """The arguments of a layer whose kernels are mixtures."""

    def __init__(self, families, densities, learning_rates, kernel_regularizer=None, seed=None):
        super().__init__("dense", 1.0, None, learning_rates, kernel_regularizer, seed)
        self.families = validation.different(families, "families")
        for name in self.families:
            validation.one_of(name, tuple(SIZES), "families")
        self.densities = validation.different(densities, "densities")
        for density in self.densities:
            base.StructuredOptions("dense", density, None)

    @classmethod
    def like(cls, options: base.StructuredOptions, families, densities):
        """Return the options of a mixture that has some in common with those of one family."""
        common = (options.learning_rates, options.kernel_regularizer, options.seed)
        return cls(families, densities, *common)

    def candidates(self, kernels: Sequence[tuple[int, int]]) -> dict[str, tuple[str, list]]:
        """Return name, family, and sizes for each kernel, of what kernels of shapes can become."""
        found, reasons = {}, []
        for family in self.families:
            for density in (1.0,) if family == "dense" else self.densities:
                name = family if family == "dense" else f"{family}_{density:g}"
                try:
                    sizes = [
                        {}
                        if family == "dense"
                        else families.sizes_within(shape[::-1], family, density)
                        for shape in kernels
                    ]
                except ValueError as error:
                    reasons.append(f"{name}: {error}")
                    continue
                if (family, sizes) not in found.values():
                    found[name] = (family, sizes)
        if len(found) < 2:
            raise ValueError(
                "A mixture must have two candidates or more that a kernel can become. Received: "
                f"families={self.families}, densities={self.densities}, kernels of shapes "
                f"{list(kernels)}, of which {list(found)} are left. {'; '.join(reasons)}"
            )
        return found

    def check(self, kernels: Sequence[tuple[int, int]]) -> None:
        """Raise `ValueError` for inputs and units of which there are no kernels."""
        self.candidates(kernels)

    def kernels(self, layer, specifications):
        """Add kernels and logits to a layer in its `build`; return a list of `MixedKernel`."""
        found = self.candidates([(one.inputs, one.units) for one in specifications])
        layer.candidates = {name: (family, tuple(sizes)) for name, (family, sizes) in found.items()}
        layer.logits = layer.add_weight(
            name="logits", shape=(len(found),), initializer="zeros", autocast=False
        )
        result = []
        for place, one in enumerate(specifications):
            kernels = []
            for number, (name, (family, sizes)) in enumerate(found.items()):
                seed = None if self.seed is None else self.seed + number
                options = base.StructuredOptions(
                    family, 1.0, None, self.learning_rates, self.kernel_regularizer, seed
                )
                variables = f"{one.name}_{name}".replace(".", "_")
                given = dataclasses.replace(one, name=variables, sizes=sizes[place])
                kernels.append(options.kernel(layer, given))
            result.append(MixedKernel(kernels, layer))
        return result

    def get_config(self) -> Config:
        """Return the arguments, for the layer's configuration."""
        config = super().get_config()
        for name in ("family", "density", "sizes"):
            del config[name]
        return {**config, "families": list(self.families), "densities": list(self.densities)}
