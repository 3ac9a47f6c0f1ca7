"""An XD-operation that cannot look ahead."""

from typing import Any, Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation
from keras_xd.core.type_aliases import Config, Depth, Regularizer, Shape, Sizes, WeightOptions
from keras_xd.kmatrix import constructions
from keras_xd.layers.xd import axis_layout, warm_starts
from keras_xd.layers.xd.base import XDLayer
from keras_xd.layers.xd.warm_starts import operations


class XDCausalOptions(WeightOptions, total=False):
    """Keyword arguments of an `XDCausalConv1D` after its dilation rate."""

    groups: int
    depth: Depth
    frequency_bias: bool | None
    channel_gates: bool | None
    architecture_regularizer: Regularizer
    seed: int | None


@keras.saving.register_keras_serializable(package="keras_xd")
class XDCausalConv1D(XDLayer, keras.layers.Conv1D):
    """Causal XD-operation on sequences, a drop-in for `keras.layers.Conv1D(padding="causal")`.

    The frequencies of an `XDConv1D` belong to no time, so once its matrices have moved from those
    of a causal convolution its outputs depend on later inputs. Here the frequencies are ordered in
    time, `k` of them a step for a kernel of `k` weights, and `K` and `M` are lower triangular:

        y_i = Σ_j C[i, j] · Re( K · diag(L w[i, j] + b) · M · x_j ),   K, M lower triangular

    so that no output depends on later inputs, whatever the weights. With steps at the places
    `k t`, `M` that copies `x[t − dilation · j]` to frequency `k t − j`, `L` that gives that
    frequency the weight `k − 1 − j`, and `K` that sums the `k` frequencies of a step, the operation
    is a causal convolution; `warm_start="convolution"` begins there.

    Every factor of `K` and `M` is one dense triangular block: in products of triangular stages of
    several radices a step reaches only those later steps none of whose digits is smaller, which
    leaves out the next one. Time and parameters grow with the square of `k` times the steps: with
    `n = k (steps - 1) + 1` each factor of `K`, `L` and `M` has `2 n²` numbers.

    Args:
        dilation_rate: integer or tuple; together with strides too, unlike in Keras.
        filters, kernel_size, strides, data_format, *args: these and all others of
            `keras.layers.Conv1D` but `padding`.
        depth: number of factors of each matrix, an integer or a triple `(K, L, M)`.
        warm_start: `"convolution"`, `"zero"` (the same with closed channel gates) or
            `"random_triangular"` (Gaussian rows), for which `"random_unitary"` stands here too.
        frequency_bias, channel_gates, architecture_regularizer, seed: as in `XDConv2D`.

    Example:

    >>> import keras, numpy as np
    >>> from keras_xd import layers
    >>> music = np.random.default_rng(0).normal(size=(2, 40, 3)).astype("float32")
    >>> convolution = keras.layers.Conv1D(4, 2, padding="causal")
    >>> expected = convolution(music)
    >>> operation = layers.XDCausalConv1D(4, 2)
    >>> _ = operation(music)
    >>> _ = operation.kernel.assign(convolution.kernel)
    >>> bool(np.allclose(operation(music), expected, atol=1e-5))
    True

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, section 5: causal
        operations for sequences.
    """

    rank = 1
    like = keras.layers.Conv1D
    fixed = ("padding", "radix", "method")

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        *args: Any,
        warm_start: str | warm_starts.Convolution = "convolution",
        **kwargs: Unpack[XDCausalOptions],
    ):
        validation.one_of(warm_start, tuple(STARTS), "warm_start")
        for name in XDCausalConv1D.fixed:
            if name in kwargs:
                raise ValueError(
                    f"A causal operation has no `{name}`. Received: {name}={kwargs[name]!r}"
                )
        super().__init__(
            filters,
            kernel_size,
            strides,
            "causal",
            data_format,
            dilation_rate,
            *args,
            warm_start=STARTS[warm_start](),
            **kwargs,
        )

    @property
    def random_start(self) -> warm_starts.Convolution:
        """The start that a random architecture is drawn from: "random_triangular"."""
        return RandomTriangular()

    def build(self, input_shape: Shape) -> None:
        (axis,), _ = self._sizes(input_shape)
        lower = np.tri(axis.padded_size)
        triangles = {  # factor by factor; see `product.multiply_out` for their directions
            "K": [lower.T if slot % 2 else lower for slot in range(self.depth[0])],
            "M": [lower if slot % 2 else lower.T for slot in range(self.depth[2])],
        }
        self._triangles = {
            name: constructions.kmatrix_weights([_butterfly(factor) for factor in factors])[:, :1]
            for name, factors in triangles.items()
        }
        super().build(input_shape)

    def get_config(self) -> Config:
        config = super().get_config()
        del config["padding"]
        names = {kind: name for name, kind in reversed(STARTS.items())}
        return {**config, "warm_start": names[type(self.warm_start)]}

    def _arguments(self, args, kwargs):
        return super()._arguments(args, kwargs, ("causal",))

    def _axis_geometries(self, sizes):
        arguments = (self.kernel_size, self.strides, self.dilation_rate)
        return tuple(
            axis_layout.causal_axis_geometry(*values)
            for values in zip(sizes, *arguments, strict=True)
        )

    def _sizes(self, input_shape):
        _, sizes = self._split_shape(input_shape)
        (axis,) = self._axis_geometries(sizes)
        self.axis_radices = ((axis.padded_size,),)  # one dense block
        return super()._sizes(input_shape)

    def _matrix_tensors(self, name):
        tensors = super()._matrix_tensors(name)
        if name not in self._triangles:
            return tensors
        # What is outside the triangle counts as zero and gets no gradient.
        return [tensor * ops.cast(self._triangles[name], tensor.dtype) for tensor in tensors]


@keras.saving.register_keras_serializable(package="keras_xd")
class CausalConvolution(warm_starts.Convolution):
    """The start "convolution" of `XDCausalConv1D`."""

    def __init__(self) -> None:
        super().__init__()

    def matrices(self, axis, radices, rng, index=0):
        n, k = axis.padded_size, axis.kernel_size
        frequencies = np.arange(n)
        steps = -(-frequencies // k)
        sources = steps - axis.dilation * (k * steps - frequencies)
        inside = sources >= 0
        m = np.zeros((n, n))
        m[frequencies[inside], k * sources[inside]] = 1
        sums = np.zeros((n, n))
        sums[k * steps, frequencies] = 1
        identity = constructions.identity(radices)
        return {"K": [_butterfly(sums)], "L": [identity], "M": [_butterfly(m.T)]}


@keras.saving.register_keras_serializable(package="keras_xd")
class CausalZero(CausalConvolution, operations.Zero):
    """The start "zero" of `XDCausalConv1D`."""


@keras.saving.register_keras_serializable(package="keras_xd")
class RandomTriangular(CausalConvolution):
    """The start "random_triangular" of `XDCausalConv1D`."""

    is_random = True

    def matrices(self, axis, radices, rng, index=0):
        def triangular(norm):
            shape = (axis.padded_size, axis.padded_size)
            values = np.tri(*shape) * (rng.standard_normal(shape) + 1j * rng.standard_normal(shape))
            return values * (norm / np.linalg.norm(values, axis=1, keepdims=True))

        identity = constructions.identity(radices)
        m, k = triangular(np.sqrt(axis.kernel_size)), triangular(np.sqrt(2 * axis.kernel_size))
        return {"K": [_butterfly(k)], "L": [identity], "M": [_butterfly(m.T)]}


STARTS = {
    "convolution": CausalConvolution,
    "zero": CausalZero,
    "random_triangular": RandomTriangular,
    "random_unitary": RandomTriangular,
}


def _butterfly(matrix):
    """Return a dense matrix as a butterfly of one stage."""
    return [matrix[None, None].astype(complex)]
