"""Continuous kernel convolutions, whose kernel sizes and resolutions are learned."""

import math
from typing import Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core import shapes, shared_objects, validation
from keras_xd.core.configured import bias_of
from keras_xd.core.searchable import SearchableLayer
from keras_xd.core.type_aliases import (
    Config,
    Description,
    InitialSize,
    Regularizer,
    Shape,
    Sizes,
    Tensor,
)
from keras_xd.layers.ccnn import margins
from keras_xd.layers.ccnn.continuous_kernel import SCALINGS, ContinuousKernel
from keras_xd.layers.ccnn.finalized_ck_conv import LongConvolution, LongOptions, StaticCKConv
from keras_xd.layers.ccnn.kernel_network import KernelNetwork
from keras_xd.layers.fourier import fft_convolution
from keras_xd.layers.masked import masks
from keras_xd.layers.masked.differentiable_mask import DifferentiableMask

PADDINGS = ("same", "causal", "circular")
RENDERINGS = ("static", "dynamic")


class CKConvOptions(LongOptions, total=False):
    """Keyword arguments of a `CKConv` after the size of its kernel."""

    padding: str
    learn_kernel_size: bool
    initial_kernel_size: InitialSize
    temperature: float
    rendering: str
    architecture_regularizer: Regularizer
    seed: int | None
    kernel_scaling: str


@keras.saving.register_keras_serializable(package="keras_xd")
class CKConv(ContinuousKernel, LongConvolution, SearchableLayer):
    """As `CKConv2D`, of any `rank`."""

    def __init__(
        self,
        rank: int,
        network: KernelNetwork | None = None,
        kernel_size: Sizes | None = None,
        padding: str = "same",
        learn_kernel_size: bool = True,
        initial_kernel_size: InitialSize = None,
        *,
        temperature: float = 25.0,
        rendering: str = "static",
        architecture_regularizer: Regularizer = None,
        seed: int | None = None,
        kernel_scaling: str = "mask",
        **kwargs: Unpack[LongOptions],
    ):
        super().__init__(**kwargs)
        self.rank = validation.one_of(rank, (1, 2), "rank")
        self.kernel_scaling = validation.one_of(kernel_scaling, SCALINGS, "kernel_scaling")
        self.network = network = shared_objects.restored(network, KernelNetwork, "network")
        self.kernel_network = self.own_network(seed) if network is None else network
        if kernel_size is not None:
            kernel_size = validation.integer_tuple(kernel_size, rank, "kernel_size")
        self.kernel_size = kernel_size
        self.padding = validation.one_of(padding, PADDINGS, "padding")
        if padding == "causal" and rank > 1:
            raise ValueError(
                f"`padding='causal'` is for one axis only. Received: rank={rank}, padding='causal'"
            )
        self.learn_kernel_size = validation.boolean(learn_kernel_size, "learn_kernel_size")
        self.initial_kernel_size = initial_kernel_size
        self.temperature = validation.real_number(temperature, "temperature")
        self.rendering = validation.one_of(rendering, RENDERINGS, "rendering")
        self.architecture_regularizer = keras.regularizers.get(architecture_regularizer)
        self.seed = validation.seed(seed)
        shared = {
            "axis": tuple(range(1, rank + 1)),
            "architecture_regularizer": self.architecture_regularizer,
        }
        self.kernel_mask = self.resolution_mask = None
        if learn_kernel_size:
            self.kernel_mask = DifferentiableMask(
                profile="gaussian",
                centre=1.0 if padding == "causal" else 0.0,
                initial_size=initial_kernel_size,
                name="kernel_mask",
                **shared,
            )
        if self.learn_resolution:
            self.resolution_mask = DifferentiableMask(
                temperature=temperature, initial_size="full", name="resolution_mask", **shared
            )

    def build(self, input_shape: Shape) -> None:
        channels, self._sizes = self._split_shape(input_shape)
        self.input_spec = shapes.input_spec(self._sizes, channels, self.data_format)
        self._taps = self.kernel_size or self._sizes
        self._lengths = fft_convolution.transform_lengths(
            self._sizes, self._taps, self.circular, self.learn_resolution
        )
        points = list(self._taps)
        if self.kernel_mask is not None:
            self.kernel_mask.build((None, *self._taps, channels))
            points = self.kernel_mask.initial_sizes
        if self.resolution_mask is not None:
            self.resolution_mask.build((None, *(n // 2 + 1 for n in self._lengths), 1))
        network = self.kernel_network
        if not network.built:
            network.build((None, self.rank))
        elif network.input_spec.axes[-1] != self.rank:
            raise ValueError(
                "Layers that share a `KernelNetwork` must have the same number of spatial axes. "
                f"Received: layer '{self.name}' of {self.rank}, network '{network.name}' of "
                f"{network.input_spec.axes[-1]}"
            )
        self.add_head(channels, math.prod(points))
        self.bias = bias_of(self, (channels,))
        self._supports = [(0, k) for k in self._taps]
        self._bins = None

    @property
    def circular(self) -> bool:
        """Whether the input is continued periodically."""
        return self.padding == "circular"

    @property
    def shared_parts(self) -> Config:
        """What a copy of a model must copy once for all layers, by the name of the argument."""
        return {} if self.network is None else {"network": self.network}

    @property
    def architecture_variables(self) -> list[keras.Variable]:
        """The widths of the kernel's mask, then the offsets of the resolution's, where learned."""
        return [v for mask in self._masks() for v in mask.architecture_variables]

    @property
    def largest_size(self) -> tuple[int, ...]:
        """The number of taps of the largest kernel, of each axis."""
        return tuple(self._taps)

    @property
    def kernel_sizes(self) -> list[float | Tensor]:
        """The size of the kernel along each axis, differentiable scalars where it is learned."""
        return list(self._taps) if self.kernel_mask is None else self.kernel_mask.sizes

    @property
    def counts(self) -> list[int | Tensor]:
        """The number of taps under the mask, of each axis, with the gradients of `kernel_sizes`."""
        return list(self._taps) if self.kernel_mask is None else self.kernel_mask.counts

    @property
    def resolutions(self) -> list[float | Tensor]:
        """The size of the output along each axis, differentiable scalars where it is learned."""
        return self._resolutions()

    @property
    def resolutions_since_start(self) -> list[float | Tensor]:
        """`resolutions` as equation 10 has them: the size of the input at the mask's start."""
        return self._resolutions(masks.sigmoid_range(self.temperature)[1])

    @property
    def kernel(self) -> Tensor:
        """The kernel as it is used, a float tensor `(*taps, channels)`."""
        return self.rendered_kernel(self._supports)

    def call(self, inputs: Tensor) -> Tensor:
        return self.convolve(inputs)

    def convolve(self, inputs: Tensor) -> Tensor:
        """Return what a call does, of the first channels only where the inputs lack the others."""
        channels, _ = self._split_shape(inputs.shape)
        return self._convolve(
            inputs,
            self.rendered_kernel(self._supports, channels),
            [left - start for left, (start, _) in zip(self._left, self._supports, strict=True)],
            None if self.resolution_mask is None else self.resolution_mask.values,
            self._bins,
        )

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        channels, sizes = self._split_shape(input_shape)
        if self.learn_resolution and self.rendering == "dynamic":
            sizes = [None] * self.rank
        return shapes.joined_shape(input_shape[0], sizes, channels, self.data_format)

    def update_rendering(self, margin: float = 0.0) -> bool:
        """Set what dynamic rendering computes to the taps and frequencies under the masks.

        Returns whether anything changed; a mask that grows beyond them is cut until the next call.
        The function `update_rendering` does it for a model and retraces its functions.
        """
        before = self._supports, self._bins
        if self.rendering == "dynamic":
            self._supports = margins.widened_supports(self.supports(), margin, self._taps)
            if self.resolution_mask is not None:
                bins = [masks.support(values)[1] for values in self.resolution_mask.values]
                self._bins = fft_convolution.fast_bins(bins, self._sizes, self.circular)
        return before != (self._supports, self._bins)

    def get_build_config(self) -> Config | None:
        config = super().get_build_config()
        if config is None or self.rendering == "static":
            return config
        return {**config, "supports": self._supports, "bins": self._bins}

    def build_from_config(self, config: Config) -> None:
        config = dict(config or {})
        supports, bins = config.pop("supports", None), config.pop("bins", None)
        super().build_from_config(config)
        if supports is not None:
            self._supports, self._bins = [tuple(support) for support in supports], bins

    def complexity(self, input_shape: Shape) -> float | Tensor:
        """Multiply–adds of one sample, differentiable in the sizes that they depend on.

        Those that the finalized layer does: directly `channels · Π sizes · Π taps`, by FFT
        `channels · (T(P) + T(Q))` with `T(n) = n (log2 n + 1)`, for the transform of `P` points
        there, that of `Q` points back and the product of the spectra. `P` and `Q` are `Π (size +
        taps // 2)`, with causal padding `size + taps - 1`, with learned resolutions `Π 2 size` and
        `Π 2 resolution`, in circular padding `Π size` and `Π resolution`. A direct convolution with
        learned resolutions makes `size + taps - 1` points of each axis (if circular, `size`), all
        of which a filter reads for each point that is left. Taps are the whole number under the
        mask. With "auto" it is that of the way taken. What is made once a batch, the kernel, its
        spectrum and filters, is not counted.
        """
        taps = self.counts
        if self.kernel_mask is None:
            reach = fft_convolution.reaches(taps, self._left)
        elif self.padding == "causal":
            reach = [k - 1 for k in taps]
        else:  # as many taps are cut off at both ends
            reach = [(k - whole % 2) / 2 for k, whole in zip(taps, self._taps, strict=True)]
        return self._multiply_adds(input_shape, taps, self.resolutions, reach)

    def finalize(self) -> keras.layers.Layer:
        """Return a built `StaticCKConv` with the taps under the mask, same outputs."""
        supports = margins.overlap(self.supports(), self._supports)
        return StaticCKConv.from_layer(
            self,
            self.rendered_kernel(supports),
            [left - start for left, (start, _) in zip(self._left, supports, strict=True)],
            None if self.resolution_mask is None else self.resolution_mask.values,
            self._bins,
        )

    def describe(self) -> Description:
        """Return `kernel_size/<axis>`, `taps/<axis>`, `resolution/<axis>` and the `kernel`.

        `taps` is the number under the mask, and the kernel holds these.
        """
        supports = self.supports()
        result = {}
        for axis, (start, stop) in enumerate(supports):
            result[f"kernel_size/{axis}"] = float(self.kernel_sizes[axis])
            result[f"taps/{axis}"] = float(stop - start)
            result[f"resolution/{axis}"] = float(self.resolutions[axis])
        return {**result, "kernel": ops.convert_to_numpy(self.rendered_kernel(supports))}

    def random_architecture(self, generator: np.random.Generator) -> list[np.ndarray]:
        """Return what the masks draw."""
        return [value for mask in self._masks() for value in mask.random_architecture(generator)]

    @classmethod
    def from_config(cls, config: Config) -> "CKConv":
        # Files of version 0.1 have kernels of the former form, and do not say so.
        return super().from_config({"kernel_scaling": "taps", **config})

    @property
    def _left(self):
        """Taps before the output's point, of each axis."""
        return [k - 1 if self.padding == "causal" else (k - 1) // 2 for k in self._taps]

    def _masks(self):
        return [mask for mask in (self.kernel_mask, self.resolution_mask) if mask is not None]

    def _resolutions(self, initial=None):
        """Return the size of the output along each axis: see `masks.sigmoid_size`."""
        if self.resolution_mask is None:
            return list(self._sizes)
        offsets = ops.unstack(ops.convert_to_tensor(self.resolution_mask.length), self.rank)
        sizes = [
            masks.sigmoid_size(n, offset, self.temperature, initial=initial)
            for n, offset in zip(self._sizes, offsets, strict=True)
        ]
        pairs = zip(sizes, self._sizes, strict=True)
        return [masks.clip_straight_through(size, 1, n) for size, n in pairs]


class _RankedCKConv(CKConv):
    """A `CKConv` whose rank is that of the class."""

    fixed = ("rank",)

    def __init__(
        self,
        network: KernelNetwork | None = None,
        kernel_size: Sizes | None = None,
        **kwargs: Unpack[CKConvOptions],
    ):
        super().__init__(self.fixed_rank, network, kernel_size, **kwargs)


@keras.saving.register_keras_serializable(package="keras_xd")
class CKConv1D(_RankedCKConv):
    """As `CKConv2D`, over one spatial axis."""

    fixed_rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class CKConv2D(_RankedCKConv):
    """Depthwise convolution with a continuous kernel, a Gaussian mask, and learned downsampling.

    The kernel of `K` taps on each axis is a function of coordinates from -1 to 1, made by a small
    network that layers may share, times a mask that is learned:

        w(c) = m(c) · (A · standardized(network(c)) + a / Σ_c m(c))
        m(c) = exp(-Σ_d (c_d - μ_d)² / (2 width_d²))
        y[t] = Σ_j w(c_j) x[t + j - left] + bias       for each channel

    The mask is zero below 0.1, and its width, one for each axis, is learned. `μ` is 0, or with
    `padding="causal"` 1, the present. `left` is that of a Keras convolution: `(K - 1) // 2`, for
    "causal" `K - 1`. With an odd `K` the kernel is symmetric around its middle tap.

    With `learn_resolution=True` the product of the spectra is multiplied by a sigmoid mask
    over the frequencies of each axis, 0 at the coordinate -1 and the highest at 1, which begins
    with 0.85 there. What is above the mask's edge need not be computed:

    - `rendering="static"`: all is computed at full size. The outputs are band-limited signals of
      the size of the inputs.
    - `rendering="dynamic"`: only the taps and frequencies under the masks are computed, and the
      outputs are samples at the fewest points that hold these frequencies (if not circular, the
      next number without prime factors above 5); `FourierUpsampling` brings them back to the size
      of the inputs. The sizes are Python numbers, set by `update_rendering()`; before, everything
      is computed. A traced function keeps them.

    With `padding="circular"` the dynamic outputs, upsampled, are those of static rendering. With
    zeros around the inputs they are the same function at each `L / n`-th point of `L`, but
    upsampling continues the `n` samples periodically, static rendering does not. In both a
    pointwise nonlinearity between makes a difference.

    Args:
        network: a `KernelNetwork`, which other layers may share, or `None` for one of its own.
        kernel_size: number of taps of the largest kernel, an integer or one for each axis;
            `None`: the size of the inputs.
        padding: `"same"` (zeros around the inputs), `"circular"`, or of `CKConv1D` `"causal"`
            (zeros before them). The outputs have the size of the inputs.
        learn_kernel_size: whether there is a mask on the kernel.
        initial_kernel_size: as `initial_size` in `DifferentiableMask`; `None` is a width of 0.0325.
        learn_resolution: whether there is a mask on the frequencies.
        temperature: steepness of the masks on the frequencies.
        convolution: `"direct"`, `"fourier"`, or `"auto"`: by FFT where that takes less than a
            quarter of the multiply–adds, as it is slower at them; in dynamic rendering with the
            taps of the moment, and where the resolution is learned. Directly, frequencies are
            masked by convolving with the inverse transform of the mask, at the points that are
            left: the same outputs, for a product with a matrix of an axis' points.
        rendering: `"static"` or `"dynamic"`.
        kernel_scaling: `"mask"`: features have mean 0 and one size under the mask, so that
            outputs begin with the variance of the inputs, whatever the mask and the network (see
            `keras_xd.layers.ccnn.continuous_kernel`); `"taps"`, the form of files of version 0.1:
            `w = m · (A · network + a)`, and `A` begins for the number of taps.
        data_format, activation, use_bias, bias_initializer, bias_regularizer, bias_constraint: as
            in a Keras convolution.
        architecture_regularizer: regularizer of the variables of the masks.
        seed: an integer makes the first weights reproducible, of the layer's own network too.

    Input shape:
        `(batch, height, width, channels)`, or `(batch, channels, height, width)`; all sizes but
        the batch's must be known.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.CKConv2D(learn_resolution=True, temperature=50.0)
    >>> layer(np.ones((2, 64, 64, 3))).shape
    TensorShape([2, 64, 64, 3])
    >>> found = layer.describe()
    >>> round(found["kernel_size/0"], 2), found["resolution/0"]
    (4.46, 64.0)

    Reference:
        Romero and Zeghidour, "DNArch", 2023, sections 2.2 and 2.4; Romero et al., "CKConv", 2022.
    """

    fixed_rank = 2


class _FlexConv(_RankedCKConv):
    """A `CKConv` of Gabor filters, whose frequencies are kept below those that alias."""

    def __init__(
        self,
        network: KernelNetwork | None = None,
        kernel_size: Sizes | None = None,
        alias_penalty: float = 0.001,
        **kwargs: Unpack[CKConvOptions],
    ):
        super().__init__(network, kernel_size, **kwargs)
        if self.kernel_network.kind != "magnet":
            raise ValueError(
                "A FlexConv needs a `KernelNetwork` of kind='magnet'. "
                f"Received: kind={self.kernel_network.kind!r}"
            )
        self.alias_penalty = validation.nonnegative_number(alias_penalty, "alias_penalty")

    def own_network(self, seed: int | None) -> KernelNetwork:
        """Return a network of Gabor filters."""
        # The filters begin around the kernel that the search begins with.
        spread = masks.gaussian_edge(masks.INITIAL_WIDTH)
        return KernelNetwork("magnet", units=32, spread=spread, seed=seed)

    def call(self, inputs: Tensor) -> Tensor:
        outputs = super().call(inputs)
        if self.alias_penalty:
            penalty = self.kernel_network.alias_penalty(self.largest_size)
            self.add_loss(self.alias_penalty * penalty)
        return outputs


@keras.saving.register_keras_serializable(package="keras_xd")
class FlexConv1D(_FlexConv):
    """Convolution of sequences with a kernel of Gabor filters and of learned size.

    It is a `CKConv1D` whose network is a multiplicative anisotropic Gabor network, `"magnet"`, with
    a penalty on filters of frequencies that its grid cannot hold. So a kernel means the same on a
    finer grid.

    Args:
        network: a `KernelNetwork` of `"magnet"`, which other layers may share, or `None` for one of
            its own, of 32 units.
        kernel_size: as in `CKConv2D`.
        alias_penalty: factor of `KernelNetwork.alias_penalty`, which is added to the loss.
        **kwargs: all other arguments of `CKConv1D`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.FlexConv1D(kernel_size=33)
    >>> layer(np.ones((2, 100, 3))).shape, len(layer.losses)
    (TensorShape([2, 100, 3]), 1)

    Reference:
        Romero et al., "FlexConv: Continuous Kernel Convolutions with Differentiable Kernel Sizes",
        2022.
    """

    fixed_rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class FlexConv2D(_FlexConv):
    """As `FlexConv1D`, over two spatial axes."""

    fixed_rank = 2
