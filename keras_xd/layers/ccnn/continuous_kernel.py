"""Kernels from the features of a network, scaled so that a convolution keeps the variance."""

import math

import keras
from keras import initializers, ops

from keras_xd.core.type_aliases import Tensor
from keras_xd.layers.ccnn.kernel_network import KernelNetwork, grid
from keras_xd.layers.masked import masks

SCALINGS = ("mask", "taps")
# Features that vary less than this, relative to their size, are not blown up further.
_SMALLEST_VARIATION = 1e-4
_TINY = 1e-12


class ContinuousKernel:
    """What makes the kernel of a `CKConv`: a part of that class."""

    def own_network(self, seed: int | None) -> KernelNetwork:
        """Return the network of a layer that was given none."""
        if self.kernel_scaling == "taps":
            return KernelNetwork("fourier", units=128, frequency=8.0, seed=seed)
        return KernelNetwork(seed=seed)

    def add_head(self, channels: int, taps: float) -> None:
        """Add the weights of the linear layer that makes kernels of the network's features."""
        units = self.kernel_network.units
        if self.kernel_scaling == "mask":
            head = initializers.RandomNormal(stddev=1 / math.sqrt(units), seed=self.seed)
            seed = None if self.seed is None else self.seed + 1
            constant = initializers.RandomNormal(stddev=1.0, seed=seed)
        else:
            draw, constant = initializers.HeUniform(seed=self.seed), "zeros"

            def head(shape, dtype=None):
                return draw(shape, dtype) / math.sqrt(taps)

        self.head = self.add_weight(
            name="head", shape=(units, channels), initializer=head, autocast=False
        )
        self.head_bias = self.add_weight(
            name="head_bias", shape=(channels,), initializer=constant, autocast=False
        )

    def supports(self) -> list[tuple[int, int]]:
        """Return `(start, stop)` of the taps under the mask, of each axis."""
        if self.kernel_mask is None:
            return [(0, k) for k in self.largest_size]
        return [masks.support(values) for values in self.kernel_mask.values]

    def rendered_kernel(
        self, supports: list[tuple[int, int]], channels: int | None = None
    ) -> Tensor:
        """Return the kernel, a tensor `(*taps, channels)` of the weights' type."""
        features = self.kernel_network(ops.convert_to_tensor(grid(self.largest_size, supports)))
        head = ops.convert_to_tensor(self.head)[:, :channels]
        constant = ops.convert_to_tensor(self.head_bias)[:channels]
        # Networks are of float32, whatever the layer is of.
        features = ops.cast(features, head.dtype)
        mask = ops.cast(ops.expand_dims(self._mask(supports), -1), head.dtype)
        if self.kernel_scaling == "mask":
            features, constant = standardized(features, mask), constant / ops.sum(mask)
        kernel = (ops.matmul(features, head) + constant) * mask
        return ops.reshape(kernel, (*(stop - start for start, stop in supports), head.shape[1]))

    def _mask(self, supports):
        """Return the mask at the taps `start` to `stop` of each axis, in a row."""
        if self.kernel_mask is None:
            return ops.ones((math.prod(stop - start for start, stop in supports),))
        pairs = zip(self.kernel_mask.values, supports, strict=True)
        return ops.reshape(masks.product([v[start:stop] for v, (start, stop) in pairs]), (-1,))


def standardized(features, mask):
    """Return features of mean 0 under a mask, and of the size that is told above."""
    total = ops.sum(mask)
    centred = features - ops.sum(mask * features, axis=0) / total
    # Points that the mask is worth; 1 less than all of them is left of independent values.
    share = 1 - ops.sum(ops.square(mask)) / ops.square(total)
    smallest = _SMALLEST_VARIATION**2 * _energy(mask * features) + keras.config.epsilon() ** 2
    # One point has no variation: the root has a finite slope there.
    scale = ops.sqrt(ops.relu(share) / (_energy(mask * centred) + smallest) + _TINY)
    return centred * scale


def _energy(values):
    return ops.sum(ops.mean(ops.square(values), axis=1))
