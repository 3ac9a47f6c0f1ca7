"""The residual block of continuous convolutional networks, all of whose sizes can be learned."""

import math
from typing import Any, Unpack

import keras
import numpy as np
from keras import ops

from keras_xd.core import shapes, shared_objects, validation
from keras_xd.core.configured import ConfiguredLayer
from keras_xd.core.searchable import SearchableLayer
from keras_xd.core.type_aliases import (
    Config,
    Description,
    InitialSize,
    LayerOptions,
    Shape,
    Sizes,
    Tensor,
)
from keras_xd.layers.ccnn import margins
from keras_xd.layers.ccnn.batch_statistics import STATISTICS, BatchStatisticsNormalization
from keras_xd.layers.ccnn.ck_conv import PADDINGS, RENDERINGS, CKConv
from keras_xd.layers.ccnn.continuous_kernel import SCALINGS
from keras_xd.layers.ccnn.finalized_block import (
    COUNTINGS,
    StaticCCNNBlock,
    add_linear,
    add_to_first,
    block_activations,
    block_multiply_adds,
)
from keras_xd.layers.ccnn.finalized_ck_conv import CONVOLUTIONS
from keras_xd.layers.ccnn.kernel_network import KernelNetwork
from keras_xd.layers.fourier.upsampling import FourierUpsampling
from keras_xd.layers.masked import masks
from keras_xd.layers.masked.depth_mask import DepthMask
from keras_xd.layers.masked.differentiable_mask import DifferentiableMask

WIDTHS = ("input", "middle", "output")


@keras.saving.register_keras_serializable(package="keras_xd")
class CCNNBlock(ConfiguredLayer, SearchableLayer):
    """Residual block whose kernel size, resolution, three widths and existence are learned.

        h = conv(normalize(x)) + bias             depthwise, a continuous kernel, downsampled
        h = gelu(m_middle · linear(m_input · h))  then dropout
        h = gelu(m_output · linear(h))            then upsampled
        y = x + m_depth[index] · h

    The convolution is a `CKConv`. The width masks `m` are sigmoid masks over the channels, which
    begin with half of them; they come after the bias and before the nonlinearity, so that a
    masked channel is zero. Inputs and outputs have all channels and the full resolution. The depth
    mask, one for all blocks of a network, makes a block the identity where it is zero.

    With `rendering="dynamic"` only channels under the masks at the last update are computed, and
    nothing of a block that is gone: see `update_rendering`.

    Args:
        network: a `KernelNetwork`, which other blocks may share, or `None` for one of its own.
        learn: what is learned, letters of `K` (kernel size), `R` (resolution), `W` (widths).
        depth: the `masked.depth_mask.DepthMask` of the network; `None`: the block is always there.
        index: the number of the block in `depth`.
        kernel_size, padding, initial_kernel_size: as in `CKConv2D`.
        initial_width: number of channels that the width masks begin with; `None`: half of them.
        width_temperature, resolution_temperature: steepness of the masks. A mask takes at least
            2.57 / temperature of its axis.
        dropout: share of the entries that are set to zero in training.
        statistics: what inference normalizes by, `"moving"` or `"batch"`: see `use_statistics`.
        rendering: `"static"` or `"dynamic"`.
        counting: what `complexity` counts: `"counts"`, the whole channels and blocks under the
            masks; `"per_channel"`, those, with the convolution for each channel, as it is carried
            out, and not once, as in the paper; or `"continuous"`, the paper's continuous sizes.
        seed: an integer makes the first weights reproducible.
        kernel_scaling: as in `CKConv2D`.
        convolution_method: as `convolution` in `CKConv2D`.

    Input shape:
        `(batch, *spatial, channels)`, of one or two spatial axes, whatever Keras' image data
        format; all sizes but the batch's must be known.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> block = layers.CCNNBlock(learn="KW")
    >>> block(np.ones((2, 32, 10))).shape
    TensorShape([2, 32, 10])
    >>> found = block.describe()
    >>> found["width/middle"], found["kernel_size/0"] < 4
    (5.0, True)

    Reference:
        Romero and Zeghidour, "DNArch", 2023, section 2.4 and figures 5, 8 and 9.
    """

    def __init__(
        self,
        network: KernelNetwork | None = None,
        learn: str = "KRW",
        depth: DepthMask | None = None,
        index: int = 0,
        kernel_size: Sizes | None = None,
        padding: str = "same",
        initial_kernel_size: InitialSize = None,
        initial_width: float | None = None,
        width_temperature: float = 25.0,
        resolution_temperature: float = 25.0,
        dropout: float = 0.0,
        statistics: str = "moving",
        rendering: str = "static",
        counting: str = "counts",
        seed: int | None = None,
        *,
        kernel_scaling: str = "mask",
        convolution_method: str = "auto",
        **kwargs: Unpack[LayerOptions],
    ):
        super().__init__(**kwargs)
        self.network = shared_objects.restored(network, KernelNetwork, "network")
        self.learn = validation.letters(learn, "KRW", "learn")
        self.depth = shared_objects.restored(depth, DepthMask, "depth")
        self.index = index if self.depth is None else self.depth.checked_index(index)
        if not validation.is_integer(index):
            raise ValueError(f"`index` must be an integer. Received: index={index!r}")
        sizes = {"kernel_size": kernel_size, "initial_kernel_size": initial_kernel_size}
        for name, value in sizes.items():
            if value is not None and np.asarray(value).dtype.kind not in "iuf":
                raise ValueError(
                    f"`{name}` must be a number, a tuple of numbers or None. "
                    f"Received: {name}={value!r}"
                )
        self.kernel_size = kernel_size
        self.padding = validation.one_of(padding, PADDINGS, "padding")
        self.initial_kernel_size = initial_kernel_size
        self.initial_width = initial_width
        self.width_temperature = width_temperature
        self.resolution_temperature = resolution_temperature
        self.dropout = validation.real_number(dropout, "dropout")
        self.statistics = validation.one_of(statistics, STATISTICS, "statistics")
        self.rendering = validation.one_of(rendering, RENDERINGS, "rendering")
        self.counting = validation.one_of(counting, COUNTINGS, "counting")
        self.kernel_scaling = validation.one_of(kernel_scaling, SCALINGS, "kernel_scaling")
        self.convolution_method = validation.one_of(
            convolution_method, CONVOLUTIONS, "convolution_method"
        )
        self.seed = validation.seed(seed)
        masks.sigmoid_range(width_temperature)
        masks.sigmoid_range(resolution_temperature)
        self.normalization = BatchStatisticsNormalization(
            statistics, name="normalization", dtype=self.dtype_policy
        )
        self.dropping = keras.layers.Dropout(
            dropout, seed=seed, name="dropping", dtype=self.dtype_policy
        )
        self.width_masks = ()
        if "W" in learn:
            self.width_masks = tuple(
                DifferentiableMask(
                    temperature=width_temperature, initial_size=initial_width, name=f"{place}_mask"
                )
                for place in WIDTHS
            )
        self._rendered = None

    def build(self, input_shape: Shape) -> None:
        rank = validation.one_of(len(input_shape) - 2, (1, 2), "number of spatial axes")
        channels, sizes = shapes.split_shape(input_shape, rank, "channels_last", self.name)
        self.input_spec = shapes.input_spec(sizes, channels, "channels_last")
        self.normalization.build(input_shape)
        self.convolution = CKConv(
            rank,
            self.network,
            self.kernel_size,
            padding=self.padding,
            learn_kernel_size="K" in self.learn,
            initial_kernel_size=self.initial_kernel_size,
            learn_resolution="R" in self.learn,
            temperature=self.resolution_temperature,
            convolution=self.convolution_method,
            rendering=self.rendering,
            kernel_scaling=self.kernel_scaling,
            data_format="channels_last",
            seed=self.seed,
            name="convolution",
            dtype=self.dtype_policy,
        )
        before = self._rendered or {"convolution": {"input_shape": input_shape}}
        self.convolution.build_from_config(before["convolution"])
        for mask in self.width_masks:
            mask.build(input_shape)
        if self.depth is not None and not self.depth.built:
            self.depth.build((None, self.depth.blocks))
        self.upsampling = FourierUpsampling(
            sizes, data_format="channels_last", name="upsampling", dtype=self.dtype_policy
        )
        # The kernels begin for the channels that the masks leave.
        left = [mask.initial_sizes[0] for mask in self.width_masks[:2]] or [channels] * 2
        self.linear = add_linear(self, (channels,) * 3, left, self.seed)
        self._channels = channels
        self._counts = tuple(before.get("counts", (channels,) * 3))
        self._present = before.get("present", True)

    @property
    def shared_parts(self) -> dict[str, Any]:
        """What a copy of a model must copy once for all layers, by the name of the argument."""
        parts = {"network": self.network, "depth": self.depth}
        return {name: part for name, part in parts.items() if part is not None}

    @property
    def architecture_variables(self) -> list[keras.Variable]:
        """The variables of the width masks, of the convolution's masks and of the depth mask."""
        depth = [] if self.depth is None else [self.depth]
        inside = [*self.width_masks, self.convolution, *depth]
        return [variable for layer in inside for variable in layer.architecture_variables]

    @property
    def widths(self) -> list[float | Tensor]:
        """The sizes of the width masks, differentiable scalars where they are learned."""
        if not self.width_masks:
            return [self._channels] * 3
        return [mask.sizes[0] for mask in self.width_masks]

    @property
    def width_values(self) -> list[Tensor]:
        """The three width masks, ones where widths are not learned."""
        if not self.width_masks:
            return [ops.ones((self._channels,))] * 3
        return [mask.values[0] for mask in self.width_masks]

    @property
    def gate(self) -> float | Tensor:
        """See `DepthMask.gate`."""
        return 1.0 if self.depth is None else self.depth.gate(self.index)

    @property
    def largest_size(self) -> tuple[int, ...]:
        """The number of taps of the largest kernel, of each axis."""
        return self.convolution.largest_size

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if not self._present:
            return inputs + ops.cast(self._zero(), inputs.dtype)
        first, middle, last = self._counts
        (middle_kernel, middle_bias), (output_kernel, output_bias) = (
            [ops.convert_to_tensor(weight) for weight in pair] for pair in self.linear
        )
        x = self.normalization(inputs, training=training)
        x = self._masked(self.convolution.convolve(x[..., :first]), 0)
        x = ops.matmul(x, middle_kernel[:first, :middle]) + middle_bias[:middle]
        x = ops.gelu(self._masked(x, 1), approximate=False)
        x = self.dropping(x, training=training)
        x = ops.matmul(x, output_kernel[:middle, :last]) + output_bias[:last]
        x = self.upsampling(ops.gelu(self._masked(x, 2), approximate=False))
        if self.depth is not None:
            x = self.depth(x, index=self.index)
        return add_to_first(inputs, x)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

    def update_rendering(self, margin: float = 0.0) -> bool:
        """Fit what dynamic rendering computes to the masks: see `CKConv2D`."""
        if self.rendering == "static":
            return False
        before = self._counts, self._present
        self._counts = margins.widened_counts(self._current_counts(), margin, self._channels)
        self._present = self._is_present()
        changed = before != (self._counts, self._present)
        return self.convolution.update_rendering(margin) or changed

    def get_build_config(self) -> Config | None:
        config = super().get_build_config()
        if config is None or self.rendering == "static":
            return config
        rendered = {
            "convolution": self.convolution.get_build_config(),
            "counts": self._counts,
            "present": self._present,
        }
        return {**config, "rendered": rendered}

    def build_from_config(self, config: Config) -> None:
        config = dict(config or {})
        self._rendered = config.pop("rendered", None)
        super().build_from_config(config)

    def complexity(self, input_shape: Shape) -> float | Tensor:
        """Multiply–adds of one sample, differentiable in the sizes of all masks but the kernel's.

        With `L` points, resolution `r` and `a`, `b`, `c` channels under the width masks it is

            L a + r log2 r + r a b + 2 r b + r b c + r c

        for normalization, convolution, linear layer, GELU and dropout, linear layer, GELU; 0 if the
        depth mask leaves the block out. Channels are whole numbers with gradients of sizes, so
        that a search counts what it leaves. With `counting="per_channel"` the convolution counts
        as in `CKConv2D.complexity`, for `a` channels. With `counting="continuous"` all sizes are
        continuous, `r` is `L` for the mask that a search begins with, and the block counts by its
        part of the size of the depth mask: see `DepthMask.gate`.

        Reference:
            Section 2.5.1, equation 10; appendix C, where the base of the logarithm is open.
        """
        one, r = (*input_shape[:-1], 1), math.prod(self.convolution.resolutions)
        of_channel = self.convolution.complexity(one) if self.counting == "per_channel" else None
        present, counts = self._left()
        if self.counting == "continuous":
            r = math.prod(self.convolution.resolutions_since_start)
            present, counts = self.gate, self.widths
        return present * block_multiply_adds(math.prod(one[1:]), r, counts, of_channel)

    def parameters(self) -> float | Tensor:
        """Return how many weights the pruned block has.

        `a (k + 5) + a b + b + b c + c + 1` for `a`, `b`, `c` channels and `k` taps, with gradients;
        four of 5 are statistics and scales.
        """
        present, (a, b, c) = self._left()
        taps = math.prod(self.convolution.counts)
        return present * (a * (taps + 5) + a * b + b + b * c + c + 1)

    def activations(self, input_shape: Shape) -> float | Tensor:
        """Return how many entries a sample's tensors have in the pruned block.

        With the names of `complexity`: `max(a, c) L` for outputs, as others pass by, plus
        `a L + r (a + 2 b + 2 c)`.
        """
        present, counts = self._left()
        r = math.prod(self.convolution.resolutions)
        return present * block_activations(math.prod(input_shape[1:-1]), r, counts)

    def finalize(self) -> keras.layers.Layer:
        """Return the block without what its masks set to zero, a built layer, same outputs.

        A `StaticCCNNBlock` of the channels and taps under the masks, whose values are folded into
        the weights, or `keras.layers.Identity` where the depth mask is zero; of what is rendered.
        """
        shape = self.get_build_config()["input_shape"]
        dynamic = self.rendering == "dynamic"
        if not (self._present if dynamic else self._is_present()):
            identity = keras.layers.Identity(name=self.name, dtype=self.dtype_policy.name)
            identity.build(shape)
            return identity
        counts = tuple(map(min, self._counts, self._current_counts()))
        return StaticCCNNBlock.from_layer(self, counts)

    def describe(self) -> Description:
        """Return the sizes that the block has come to.

        `width/<place>` and `channels/<place>` are the size of a width mask and the channels under
        it, at the places input, middle and output; `depth` is the depth mask's value, 0 for one
        that is gone; the rest is `describe()` of the convolution.
        """
        value = 1.0 if self.depth is None else float(self.depth.value(self.index))
        result = {"depth": value}
        sizes = zip(WIDTHS, self.widths, self._current_counts(), strict=True)
        for place, size, count in sizes:
            result[f"width/{place}"] = float(size)
            result[f"channels/{place}"] = float(count)
        return {**result, **self.convolution.describe()}

    @classmethod
    def from_config(cls, config: Config) -> "CCNNBlock":
        # Files of version 0.1 have the former kernels, and do not say so: see `CKConv2D`.
        config = {"kernel_scaling": "taps", **config}
        if config.pop("per_channel", False):  # its name and values up to version 0.2
            config["counting"] = "per_channel"
        return super().from_config(config)

    def _masked(self, x, place):
        if not self.width_masks:
            return x
        return x * ops.cast(self.width_masks[place].values[0][: x.shape[-1]], x.dtype)

    def _left(self):
        """Return 1 or, if it is left out, 0; and the channels."""
        counts = [mask.counts[0] for mask in self.width_masks] or [self._channels] * 3
        return 1.0 if self.depth is None else self.depth.presence[self.index], counts

    def _current_counts(self):
        """Return the channels under each width mask."""
        return tuple(masks.support(values)[1] for values in self.width_values)

    def _is_present(self):
        return self.depth is None or bool(self.depth.presence[self.index] > 0)

    def _zero(self):
        """Return 0 with a gradient for every variable that a call would use."""
        return 0.0 * sum(ops.sum(ops.convert_to_tensor(v)) for v in self.trainable_variables)
