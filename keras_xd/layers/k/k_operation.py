"""K-operations: convolutions whose three Fourier transforms are K-matrices, and nothing else."""

from collections.abc import Callable
from typing import Any, Unpack

import keras
import numpy as np

from keras_xd.core import shared_objects, validation
from keras_xd.core.convolutions import ConvolutionOfAnyRank, RankArgument
from keras_xd.core.type_aliases import Config, ConvOptions, Depth, Radix, Regularizer, Sizes
from keras_xd.layers.xd import axis_layout, causal, warm_starts
from keras_xd.layers.xd.base import XDLayer
from keras_xd.layers.xd.causal import XDCausalConv1D
from keras_xd.layers.xd.conv import ConvolutionXDLayer
from keras_xd.layers.xd.warm_starts import operations

_DEPTH_FROM_SCRATCH = 9


@keras.saving.register_keras_serializable(package="keras_xd")
class KOperation:
    """One K-operation that several layers share: its matrices exist once and are trained together.

    Give it to each layer as `operation=`. The first layer that is built makes the matrices; all
    others must need matrices of the same sizes. Kernels, strides, dilations, channels and filters
    may differ.

    A `.keras` file and `keras_xd.rewrite` keep what is shared. Copying layers one by one from their
    configurations (`from_config`, `keras.models.clone_model`) gives each copy an operation of its
    own.

    Args:
        depth: number of butterflies in each matrix, an integer or a triple `(K_1, M, K_2)`; `None`:
            9 from scratch, else 1.
        radix: block sizes of the butterflies, as in `XDConv2D`.
        warm_start: `"convolution"` or `"random_unitary"`, as in `KOpConv2D`.
        seed: integer, makes a random start reproducible.

    Example:

    >>> import keras, keras_xd
    >>> from keras_xd import layers
    >>> operation = layers.KOperation(warm_start="random_unitary", seed=1)
    >>> inputs = keras.Input((32, 32, 4))
    >>> x = layers.KOpConv2D(4, 5, padding="circular", operation=operation)(inputs)
    >>> x = layers.KOpConv2D(4, 3, padding="circular", operation=operation)(x)
    >>> model = keras.Model(inputs, x)
    >>> len(keras_xd.architecture_variables(model))  # three matrices for each axis
    6

    Reference:
        Roberts et al., "Searching for Convolutions and a More Ambitious NAS", 2020, section 4: one
        operation for all pairs of channels.
    """

    def __init__(
        self,
        depth: int | tuple[int, int, int] | None = None,
        radix: Radix = None,
        warm_start: str | warm_starts.Convolution = "convolution",
        seed: int | None = None,
    ):
        self.warm_start = _without_bias_and_gates(operations.get(warm_start), warm_start)
        self.depth = _depth(depth, self.warm_start)
        self.radix = axis_layout.radix_argument(radix)
        if seed is None and self.warm_start.is_random:
            seed = int(np.random.randint(2**31))  # kept, so that the start can be drawn again
        self.seed = validation.seed(seed)
        self._matrices = {}
        self._sizes = self._first_layer = None

    @property
    def variables(self) -> list[keras.Variable]:
        """The matrices, in the order of `KOpConv.architecture_variables`; empty before a build."""
        return list(self._matrices.values())

    def matrix(
        self, layer: keras.layers.Layer, name: str, create: Callable[[], keras.Variable]
    ) -> keras.Variable:
        """Return the matrix `name` for a layer that is being built, made by `create()` if new."""
        needed = _sizes(layer)
        if self._sizes is None:
            self._sizes, self._first_layer = needed, layer.name
        sizes = self._sizes
        if sizes != needed:
            raise ValueError(
                "Layers that share an operation must have matrices of the same sizes: the same "
                "padded input sizes and radices (padding='circular' or 'valid' leaves a size as it "
                f"is). Received: layer '{layer.name}' of sizes {needed}, an operation that layer "
                f"'{self._first_layer}' made with sizes {sizes}"
            )
        if name not in self._matrices:
            self._matrices[name] = create()
        return self._matrices[name]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {
            "depth": self.depth,
            "radix": self.radix,
            "warm_start": operations.identifier(self.warm_start),
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "KOperation":
        """Make the operation again from `get_config()`, with matrices of its own."""
        return cls(**config)


class KOpConvOptions(ConvOptions, total=False):
    """Keyword arguments of a `KOpConv` after the size of its kernel."""

    window_size: Sizes | None
    depth: Depth | None
    radix: Radix
    warm_start: str | warm_starts.Convolution
    operation: KOperation | None
    architecture_regularizer: Regularizer
    seed: int | None
    method: str


class KOpCausalOptions(ConvOptions, total=False):
    """Keyword arguments of a `KOpCausalConv1D` after the size of its kernel."""

    depth: Depth | None
    warm_start: str
    operation: KOperation | None
    architecture_regularizer: Regularizer
    seed: int | None


class _KOperationLayer(XDLayer):
    """What the layers of K-operations have in common: no `b` and `C`, matrices that are shared."""

    fixed = ("frequency_bias", "channel_gates")
    methods = XDLayer.methods

    def __init__(
        self,
        *args: Any,
        depth: Depth | None = None,
        warm_start: str | warm_starts.Convolution = "convolution",
        operation: KOperation | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        operation = shared_objects.restored(operation, KOperation, "operation")
        if operation is not None:
            radix = kwargs.get("radix")
            if (depth, radix, warm_start, seed) != (None, None, "convolution", None):
                raise ValueError(
                    "`depth`, `radix`, `warm_start` and `seed` belong to the shared operation: "
                    f"give them to KOperation. Received: depth={depth}, radix={radix}, "
                    f"warm_start={warm_start!r}, seed={seed} beside operation={operation!r}"
                )
            depth, seed = operation.depth, operation.seed
            warm_start = operations.identifier(operation.warm_start)
            if "radix" in kwargs:
                kwargs["radix"] = operation.radix
        start = _without_bias_and_gates(self._start(warm_start), warm_start)
        super().__init__(
            *args,
            depth=_depth(depth, start),
            warm_start=warm_start,
            frequency_bias=False,
            channel_gates=False,
            seed=seed,
            **kwargs,
        )
        self.operation = operation

    @property
    def shared_parts(self) -> dict[str, Any]:
        """What a copy of a model must copy once for all layers, by the name of the argument."""
        return {} if self.operation is None else {"operation": self.operation}

    def get_config(self) -> Config:
        config = super().get_config()
        for name in ("depth", "radix", "warm_start", "seed") if self.operation else ():
            config.pop(name, None)
        return {**config, "operation": shared_objects.serialized(self.operation)}

    def _architecture_weight(self, name, value, plan=None):
        def create():
            return super(_KOperationLayer, self)._architecture_weight(name, value, plan)

        return create() if self.operation is None else self.operation.matrix(self, name, create)

    @staticmethod
    def _start(warm_start):
        """Return the start that an argument `warm_start` stands for."""
        return operations.get(warm_start)


class ConvolutionKLayer(_KOperationLayer, ConvolutionXDLayer):
    """Base class of `KOpConv` of every rank."""

    def __init__(
        self, filters: int, kernel_size: Sizes, *args: Any, **kwargs: Unpack[KOpConvOptions]
    ):
        super().__init__(filters, kernel_size, *args, **kwargs)


@keras.saving.register_keras_serializable(package="keras_xd")
class KOpConv(RankArgument, ConvolutionKLayer, ConvolutionOfAnyRank):
    """As `KOpConv2D`, over `rank` spatial axes.

    Args:
        rank: number of spatial axes, 1, 2 or 3.
        *args, **kwargs: those of `KOpConv2D`.
    """


@keras.saving.register_keras_serializable(package="keras_xd")
class KOpConv1D(ConvolutionKLayer, keras.layers.Conv1D):
    """As `KOpConv2D`, over one spatial axis."""

    rank = 1


@keras.saving.register_keras_serializable(package="keras_xd")
class KOpConv2D(ConvolutionKLayer, keras.layers.Conv2D):
    """K-operation in place of a convolution: all it computes is decided by three K-matrices.

    A layer with kernel `w` sums over its input channels

        y_i = Σ_j Re( K_1 · diag(M w[i, j]) · K_2 · x_j )

    with one operation `(K_1, M, K_2)` for all pairs of channels. It is the `XDConv2D` of matrices
    `K = K_1`, `L = M` and `M = K_2` without frequency bias and channel gates, which also name its
    weights. With `warm_start="convolution"` (unitary inverse DFT, unscaled DFT, unitary DFT) it
    equals the Keras convolution of the same arguments.

    Args:
        filters, kernel_size, *args: these and all others of a Keras convolution.
        depth: number of butterflies in each matrix, an integer or a triple `(K_1, M, K_2)`; `None`:
            9 from scratch, else 1.
        radix: block sizes of the butterflies, as in `XDConv2D`.
        warm_start: `"convolution"`; or `"random_unitary"` for a search from scratch, in which every
            stage is Haar-random unitary, `M` is scaled by `√n` as the DFT of a convolution is and
            `K_1` so that the outputs have the variance of a convolution's; or an object of
            `keras_xd.layers.warm_starts` without frequency bias and channel gates.
        operation: a `KOperation` shared with other layers; it has `depth`, `radix`, `warm_start`
            and `seed` of its own, so they are not given here.
        seed: integer, makes a random start reproducible.
        method: `"auto"`, `"dense"` or `"stages"`, as in `XDConv2D`.

    Example:

    >>> import keras, numpy as np
    >>> from keras_xd import layers
    >>> images = np.random.default_rng(0).normal(size=(2, 9, 9, 3)).astype("float32")
    >>> convolution = keras.layers.Conv2D(4, 3, padding="same")
    >>> expected = convolution(images)
    >>> operation = layers.KOpConv2D(4, 3, padding="same")
    >>> _ = operation(images)
    >>> _ = operation.kernel.assign(convolution.kernel)
    >>> bool(np.allclose(operation(images), expected, atol=1e-5))
    True

    Reference:
        Roberts et al., "Searching for Convolutions and a More Ambitious NAS", 2020, Definition
        3.2 and appendix A.
    """

    rank = 2


@keras.saving.register_keras_serializable(package="keras_xd")
class KOpConv3D(ConvolutionKLayer, keras.layers.Conv3D):
    """As `KOpConv2D`, over three spatial axes."""

    rank = 3


@keras.saving.register_keras_serializable(package="keras_xd")
class KOpCausalConv1D(_KOperationLayer, XDCausalConv1D):
    """Causal K-operation on sequences, a drop-in for `keras.layers.Conv1D(padding="causal")`.

    The `XDCausalConv1D` without frequency bias and channel gates: no output depends on later
    inputs, whatever the matrices. Layers that share an `operation` must have the same number of
    steps, kernel size and dilation rate.

    Args:
        filters, kernel_size, *args, **kwargs: as in `XDCausalConv1D`.
        depth, operation, seed: as in `KOpConv2D`.
        warm_start: `"convolution"` or `"random_triangular"`.

    Example:

    >>> import numpy as np
    >>> from keras_xd import layers
    >>> layer = layers.KOpCausalConv1D(8, 5)
    >>> layer(np.ones((2, 20, 3), "float32")).shape, len(layer.architecture_variables)
    (TensorShape([2, 20, 8]), 3)

    Reference:
        Roberts et al., "Searching for Convolutions and a More Ambitious NAS", 2020, Definition 3.2;
        "Rethinking Neural Operations for Diverse Tasks", 2021, section 5.
    """

    fixed = (*_KOperationLayer.fixed, *XDCausalConv1D.fixed)

    def __init__(
        self, filters: int, kernel_size: Sizes, *args: Any, **kwargs: Unpack[KOpCausalOptions]
    ):
        super().__init__(filters, kernel_size, *args, **kwargs)

    @staticmethod
    def _start(warm_start):
        return causal.STARTS[validation.one_of(warm_start, tuple(causal.STARTS), "warm_start")]()


def _without_bias_and_gates(start, warm_start):
    """Return the start, which must not need what a K-operation does not have."""
    if start.needs_frequency_bias or start.needs_channel_gates:
        raise ValueError(
            "A K-operation has neither a frequency bias nor channel gates: this start needs an "
            f"XDConv; a KOpConv takes 'convolution' or 'random_unitary'. Received: {warm_start=}"
        )
    return start


def _depth(depth, start):
    """Return the depths of `K_1`, `M` and `K_2`."""
    if depth is None:
        depth = _DEPTH_FROM_SCRATCH if start.is_random else 1
    return validation.depth(depth, len(operations.MATRICES))


def _sizes(layer):
    """Return size and radices of every axis, which fix the weights' shapes and their meaning."""
    sizes = " × ".join(f"{plan.n} = {'·'.join(map(str, plan.radices))}" for plan in layer.plans)
    if isinstance(layer, XDCausalConv1D):
        (kernel_size,), (dilation,) = layer.kernel_size, layer.dilation_rate
        sizes += f" (causal, kernel_size={kernel_size}, dilation_rate={dilation})"
    return sizes
