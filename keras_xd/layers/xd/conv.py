"""XD-operations: convolutions whose Fourier transforms are searched."""

import itertools
import math
from typing import Any, Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core import validation, window_padding
from keras_xd.core.convolutions import ConvolutionOfAnyRank, RankArgument
from keras_xd.core.type_aliases import ConvOptions, KernelOptions, Shape, Sizes
from keras_xd.layers.fourier import fft_convolution
from keras_xd.layers.xd import axis_layout, functional, warm_starts
from keras_xd.layers.xd.base import XDLayer, XDOptions

# What entries of matrices in float32 may differ by, read from a file.
_ROUNDING = 1e-5


class SlidingXDOptions(XDOptions, total=False):
    """Keyword arguments of the layers with windows, beyond those of Keras' convolutions."""

    window_size: Sizes | None


class XDConvOptions(ConvOptions, SlidingXDOptions, total=False):
    """Keyword arguments of an `XDConv` after the size of its kernel."""


class XDConvTransposeOptions(KernelOptions, XDOptions, total=False):
    """Keyword arguments of an `XDConvTranspose` after the size of its kernel."""

    strides: Sizes
    padding: str
    output_padding: Sizes | None
    dilation_rate: Sizes


class SlidingXDLayer(XDLayer):
    """Base class of the XD-operations with the windows of a convolution: `XDConv` and depthwise."""

    methods = (*XDLayer.methods, "fft")

    def __init__(self, *args: Any, window_size: Sizes | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        window_size = self.kernel_size if window_size is None else window_size
        self.window_size = validation.integer_tuple(window_size, self.rank, "window_size")
        if any(w > k for w, k in zip(self.window_size, self.kernel_size, strict=True)):
            raise ValueError(
                "`window_size` must not be larger than `kernel_size`. "
                f"Received: window_size={self.window_size}, kernel_size={self.kernel_size}"
            )

    def build(self, input_shape: Shape) -> None:
        if self.method == "fft" and type(self.warm_start) is not warm_starts.Convolution:
            raise ValueError(
                "`method='fft'` computes the convolution that an operation starts as, which needs "
                f"warm_start='convolution'. Received: warm_start={self.warm_start!r}"
            )
        super().build(input_shape)

    def load_own_variables(self, store: Any) -> None:
        super().load_own_variables(store)
        if self.method == "fft":
            pairs = zip(self.architecture_variables, self.start_values(), strict=True)
            far = max(np.max(np.abs(ops.convert_to_numpy(now) - start)) for now, start in pairs)
            if far > _ROUNDING:
                raise ValueError(
                    "`method='fft'` is for an architecture that has not moved from the "
                    f"convolution. Received: layer '{self.name}' with an entry {far:.2g} away"
                )

    def _operated(self, x):
        if self.method != "fft":
            return super()._operated(x)
        if any(variable.trainable for variable in self.architecture_variables):
            raise ValueError(
                "`method='fft'` is for an architecture that is frozen. "
                f"Received: layer '{self.name}' with trainable architecture variables"
            )
        rank, kernel = self.rank, functional.exact(self._grouped_kernel())
        if self.data_format == "channels_first":
            x = ops.moveaxis(x, 1, -1)
        spans = window_padding.spans(self.kernel_size, self.dilation_rate)
        border = [
            (g.left, g.stride * (g.output_size - 1) + span - g.size - g.left)
            for g, span in zip(self.geometry, spans, strict=True)
        ]
        if self.padding == "circular":
            x, border = window_padding.wrapped(x, border), [(0, 0)] * rank
        costs = self._convolution_costs(kernel.shape[-2] * self.groups, self.geometry)
        if min(costs, key=costs.get) == "taps":
            y = window_padding.convolve(x, kernel, border, self.strides, self.dilation_rate)
        else:
            rows = ops.reshape(kernel, (-1, *kernel.shape[rank:]))
            offsets = _offsets(self.geometry, [before for before, _ in border])
            y = fft_convolution.correlate(x, rows, offsets, self.groups)
            y = window_padding.every(y, self.strides)
            y = y[(slice(None), *(slice(0, g.output_size) for g in self.geometry))]
        y = functional.with_bias(y, self.bias)
        return y if self.data_format == "channels_last" else ops.moveaxis(y, -1, 1)

    def _multiply_adds(self, channels, geometry, plans):
        if self.method == "fft":
            return min(self._convolution_costs(channels, geometry).values())
        return super()._multiply_adds(channels, geometry, plans)

    def _convolution_costs(self, channels, geometry):
        """Return the multiply–adds of a sample by taps and by spectra, of FFTs ten times as many.

        So many take as long as one of a convolution.
        """
        filters, groups = self._output_channels(channels), self._channel_groups(channels)
        wraps = self.padding == "circular"
        before = [0 if wraps else g.left for g in geometry]
        spans = window_padding.spans(self.kernel_size, self.dilation_rate)
        sizes = [g.size + wraps * (span - 1) for g, span in zip(geometry, spans, strict=True)]
        counts = fft_convolution.correlation_multiply_adds(
            (*sizes, channels), _offsets(geometry, before), filters, groups
        )
        places = math.prod(g.output_size * g.kernel_size for g in geometry)
        return {
            "taps": places * channels // groups * filters,
            "spectra": min(counts["products"], fft_convolution.FFT_COST * counts["fft"]),
        }

    def _axis_geometries(self, sizes):
        steps = (self.kernel_size, self.strides, self.dilation_rate)
        least = [self.warm_start.smallest_size(*each) for each in enumerate(self.axis_radices)]
        others = (self.axis_radices, self.window_size, least)
        return tuple(
            axis_layout.axis_geometry(*first, self.padding, *rest)
            for first, rest in zip(
                zip(sizes, *steps, strict=True), zip(*others, strict=True), strict=True
            )
        )


class ConvolutionXDLayer(SlidingXDLayer):
    """Base class of `XDConv` of every rank."""

    like = keras.layers.Conv1D

    def __init__(
        self, filters: int, kernel_size: Sizes, *args: Any, **kwargs: Unpack[XDConvOptions]
    ):
        super().__init__(filters, kernel_size, *args, **kwargs)

    def _arguments(self, args, kwargs):
        paddings = ("valid", "same", "circular") + (("causal",) if self.rank == 1 else ())
        return super()._arguments(args, kwargs, paddings)


@keras.saving.register_keras_serializable(package="keras_xd")
class XDConv(RankArgument, ConvolutionXDLayer, ConvolutionOfAnyRank):
    """As `XDConv2D`, over `rank` spatial axes.

    Args:
        rank: number of spatial axes, 1, 2 or 3.
        *args, **kwargs: those of `XDConv2D`.
    """


@keras.saving.register_keras_serializable(package="keras_xd")
class XDConv1D(ConvolutionXDLayer, keras.layers.Conv1D):
    """As `XDConv2D`, over one spatial axis."""

    rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class XDConv2D(ConvolutionXDLayer, keras.layers.Conv2D):
    """XD-operation: a convolution with searched K-matrices in place of the Fourier transforms.

    A convolution multiplies by a kernel's spectrum between a Fourier transform and its inverse. An
    XD-operation lets the three transforms be any Kaleidoscope matrices `K`, `L`, `M`, shared by all
    channels and trained beside the kernel `w`, as are a bias `b` of the spectrum and gates `C` of
    the channels:

        y_i = Σ_j C[i, j] · Re( K · diag(L w[i, j] + b) · M · x_j )

    For two spatial axes each matrix is a Kronecker product of one K-matrix per axis. `b` and
    `C` let an operation become a skip connection or a pooling, which ignore the kernel. They have
    two parameters per point of the padded input and one per pair of channels, and a step of
    training takes as long as without them: `C ∘ (L w + b) = L (C ∘ w) + b ⊗ C`. Without them the
    layer is a K-operation. With `warm_start="convolution"` the layer is a drop-in for the Keras
    convolution of the same arguments: the same weights `kernel` and `bias`, the same outputs to
    float32 rounding.

    Args:
        padding: `"valid"`, `"same"`, `"causal"` (of `XDConv1D`), as in Keras, or `"circular"`: as
            "same", with the input continued periodically instead of by zeros.
        dilation_rate: integer or tuple; together with strides too, unlike in Keras.
        filters, kernel_size, *args: these and all others of a Keras convolution.
        window_size: integer or tuple, at most `kernel_size` and by default equal to it: the size of
            the window that padding and output sizes are counted for. The weights around it, the
            odd one after it, let the kernel grow beyond that of the convolution it starts from.
        depth: number of butterflies in each K-matrix, an integer or a triple `(K, L, M)`.
        radix: block sizes of the butterflies: `None` (prime factors), the largest block size, a
            tuple of radices for every axis, or a tuple of such tuples, one for each axis.
            `"fastest"`: prime factors of a padded size that is estimated to be fast, such as 33,
            where `None` takes the one with the fewest parameters, 36.
        warm_start: the operation the search begins with: `"convolution"`, `"average_pooling"`,
            `"identity"`, `"zero"`, `"fourier_operator"`, `"random_unitary"` to search from scratch,
            or an object of `keras_xd.layers.warm_starts`.
        frequency_bias: whether there is a bias `b`, at first 0 if the start needs none; `None`:
            only where the start needs it.
        channel_gates: whether there are gates `C`, at first 1 if the start needs none, with groups
            on the connections inside each group; `None`: only where the start needs them.
        architecture_regularizer: regularizer of each of `K`, `L`, `M`, `b` and `C`: Keras' or of
            `keras_xd.regularizers`.
        seed: integer, makes a random start reproducible.
        method: how the K-matrices are computed: `"stages"`: one stage after the other on the data,
            in n log n; `"dense"`: multiplied out to one matrix for each axis; `"auto"`: the groups
            of stages multiplied out that are estimated to be fastest. Or `"fft"`: the architecture
            is frozen where it starts, as the convolution, and that is computed by Keras'
            convolution or by FFT, whichever has fewer multiply–adds (those of FFTs times ten, as
            they take as long); the matrices are not read.

    Input shape:
        `(batch, height, width, channels)`, or `(batch, channels, height, width)`.

    Example:

    >>> import keras, numpy as np
    >>> from keras_xd import layers
    >>> images = np.random.default_rng(0).normal(size=(2, 17, 17, 3)).astype("float32")
    >>> convolution = keras.layers.Conv2D(4, 3, padding="same")
    >>> expected = convolution(images)
    >>> operation = layers.XDConv2D(4, 3, padding="same", depth=3)
    >>> _ = operation(images)
    >>> _ = operation.kernel.assign(convolution.kernel)
    >>> bool(np.allclose(operation(images), expected, atol=1e-5))
    True

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, Definition 3.2 and
        equation 5.
    """

    rank = 2


@keras.saving.register_keras_serializable(package="keras_xd")
class XDConv3D(ConvolutionXDLayer, keras.layers.Conv3D):
    """As `XDConv2D`, over three spatial axes."""

    rank = 3


class TransposedXDLayer(XDLayer):
    """Base class of `XDConvTranspose` of every rank."""

    like = keras.layers.Conv1DTranspose
    kernel_is_grouped = False
    groups = 1

    def __init__(
        self, filters: int, kernel_size: Sizes, *args: Any, **kwargs: Unpack[XDConvTransposeOptions]
    ):
        super().__init__(filters, kernel_size, *args, **kwargs)
        if not self.warm_start.is_transposable:
            raise ValueError(
                "A transposed XD-operation starts as 'convolution', 'zero' or 'random_unitary'. "
                f"Received: warm_start={self.warm_start!r}"
            )

    def _arguments(self, args, kwargs):
        found = super()._arguments(args, kwargs)
        found["output_padding"] = _output_padding(
            found["output_padding"], self.rank, found["strides"], found["padding"]
        )
        return found

    def _kernel_shape(self, channels):
        return (*self.kernel_size, self.filters, channels)

    def _grouped_kernel(self):
        return keras.ops.swapaxes(keras.ops.convert_to_tensor(self.kernel), -1, -2)

    def _axis_geometries(self, sizes):
        steps = (self.kernel_size, self.strides, self.dilation_rate)
        others = (self.output_padding or (None,) * self.rank, self.axis_radices)
        return tuple(
            axis_layout.transposed_axis_geometry(*first, self.padding, *rest)
            for first, rest in zip(
                zip(sizes, *steps, strict=True), zip(*others, strict=True), strict=True
            )
        )


@keras.saving.register_keras_serializable(package="keras_xd")
class XDConvTranspose(RankArgument, TransposedXDLayer, ConvolutionOfAnyRank):
    """As `XDConv2DTranspose`, of any `rank`."""


@keras.saving.register_keras_serializable(package="keras_xd")
class XDConv1DTranspose(TransposedXDLayer, keras.layers.Conv1DTranspose):
    """As `XDConv2DTranspose`, over one spatial axis."""

    rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class XDConv2DTranspose(TransposedXDLayer, keras.layers.Conv2DTranspose):
    """XD-operation in place of a transposed convolution, of any stride and padding.

    The operation of `XDConv2D` on inputs that stand `strides` apart on the axis of the outputs:

        y_i = Σ_j C[i, j] · Re( K · diag(L w[i, j] + b) · M · u_j ),   u_j[stride · s] = x_j[s]

    With `warm_start="convolution"` it is a drop-in for the transposed Keras convolution of the same
    arguments. `M` has only the columns of the inputs, so the zeros between them cost nothing.

    Args:
        padding: `"valid"` or `"same"`, as in Keras, or `"circular"`: as "same", but what would be
            cut off at one end is added at the other.
        dilation_rate: integer or tuple; together with strides too, unlike in Keras.
        filters, kernel_size, *args: these and all others of a transposed Keras convolution.
        depth, radix, frequency_bias, channel_gates, architecture_regularizer, seed: as in
            `XDConv2D`.
        method: `"auto"`, `"dense"` or `"stages"`, as there.
        warm_start: `"convolution"` (the transposed one), `"zero"`, `"random_unitary"`, or an object
            of `keras_xd.layers.warm_starts` made of these.

    Example:

    >>> import keras, numpy as np
    >>> from keras_xd import layers
    >>> images = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype("float32")
    >>> convolution = keras.layers.Conv2DTranspose(4, 5, strides=2, padding="same")
    >>> expected = convolution(images)
    >>> operation = layers.XDConv2DTranspose(4, 5, strides=2, padding="same", depth=3)
    >>> operation(images).shape
    TensorShape([2, 16, 16, 4])
    >>> _ = operation.kernel.assign(convolution.kernel)
    >>> bool(np.allclose(operation(images), expected, atol=1e-5))
    True

    Reference:
        Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, appendix A.
    """

    rank = 2


@keras.saving.register_keras_serializable(package="keras_xd")
class XDConv3DTranspose(TransposedXDLayer, keras.layers.Conv3DTranspose):
    """As `XDConv2DTranspose`, over three spatial axes."""

    rank = 3


def _offsets(geometry, before):
    """Return `(weights, axes)`: the place of each weight of a kernel from its output's."""
    axes = [
        g.dilation * np.arange(g.kernel_size) - b for g, b in zip(geometry, before, strict=True)
    ]
    return np.array(list(itertools.product(*axes)))


def _output_padding(output_padding, rank, strides, padding):
    """Return `None` or a tuple of integers, each at least 0 and less than the stride."""
    if output_padding is None:
        return None
    single = validation.is_integer(output_padding)
    result = (output_padding,) * rank if single else output_padding
    fits = isinstance(result, (tuple, list)) and len(result) == rank
    if not fits or any(
        not validation.is_integer(extra) or not 0 <= extra < stride
        for extra, stride in zip(result, strides, strict=True)
    ):
        raise ValueError(
            "`output_padding` must be None or integers from 0 to less than the strides. "
            f"Received: output_padding={output_padding}, strides={strides}"
        )
    if padding == "circular":
        raise ValueError(
            "With padding='circular' the output has stride times the input's size: "
            f"`output_padding` must be None. Received: output_padding={output_padding}"
        )
    return tuple(int(extra) for extra in result)
