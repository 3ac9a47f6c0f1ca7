"""Fourier neural operators, and the same networks with convolutions or searched operations."""

import math

import keras
from keras import ops

from keras_xd import layers
from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.core.type_aliases import Activation, Shape, Tensor
from keras_xd.models.blocks import checked_shape


@check_types
def fno(
    input_shape: tuple[int | None, ...],
    outputs: int = 1,
    width: int = 64,
    modes: int | tuple[int, ...] = 16,
    blocks: int = 4,
    operation: str = "fourier",
    padding: str = "circular",
    projection: int = 128,
    name: str = "fno",
    normalization: str | None = "batch",
    continuation: int | tuple[int, ...] | keras.layers.Layer = 0,
    local_kernel: int = 0,
    factorization: str | None = None,
    rank: float = 0.4,
    activation: Activation = "relu",
    lifting: int = 0,
    channel_mlp: int = 0,
) -> keras.Model:
    """Return a Fourier neural operator, or the network of the same shape with other operations.

    A Dense layer lifts the channels to `width`. Each block adds an operation that mixes points to
    a Dense layer that mixes the channels of each point alone, and normalises the sum as in the
    published networks, or not; an activation follows every block but the last. Two Dense layers,
    of `projection` units with the activation and of `outputs` units, end the network. Initial
    weights are drawn as in the published networks.

    With `activation="gelu"`, `lifting`, `channel_mlp` and `normalization=None` it is the network of
    neuraloperator 2.

    The operations are named `spectral1` … or `convolution1` …, and have no bias. A convolution's
    kernel is one larger than `modes`. Convolutions of padding "circular" are the published
    baseline, a plain Keras model; those of padding "same" differ near the borders. For the XD
    search of the paper rewrite the latter, with

        keras_xd.rewrite(fno(…, operation="convolution", padding="same"), padding="circular")

    which is the circular network exactly, until its operations are trained.

    With `operation="xd"` the operations are searched from Fourier operators: `XDConv` layers of
    `2 * modes - 1` weights on each axis, which begin as the factors of the lowest `modes`
    frequencies, without frequency bias and channel gates, as in the paper's experiments. Give the
    model to `keras_xd.SearchModel`; there is nothing to rewrite.

    Args:
        input_shape: `(*sizes, channels)` with one, two or three spatial sizes. Sizes may be
            `None`; the weights are those of all sizes.
        outputs: number of output channels.
        width: number of channels between.
        modes: frequencies kept on each spatial axis, one number or one for each axis.
        blocks: number of blocks.
        operation: `"fourier"` (`keras_xd.layers.SpectralConv`), `"convolution"` or `"xd"`.
        padding: of the convolutions, `"circular"` or `"same"`.
        projection: number of units of the last hidden layer.
        name: name of the model.
        normalization: of the sums, `"batch"` or `None`. Operators are often learned far better
            without: the statistics of a batch are noise to a single function.
        continuation: for functions that are not periodic: how many points
            `keras_xd.layers.FourierContinuation` adds behind each axis before the blocks, cropped
            after them, or such a layer. An eighth of the size is usual.
        local_kernel: size of a convolution that each block adds as well, for what is sharper than
            the modes; 0 for none. It is named `local1` …, and `rewrite` searches it too.
        factorization: of the operations' weights, `"tucker"` or `None`. An XD-operation gets fewer
            channels, between two matrices of all channels; its own matrices factorise the axes.
        rank: with a factorization, how many weights it has, as a share in (0, 1] of those without
            (`tucker_rank` of `keras_xd.layers.SpectralConv`).
        activation: of the blocks and the hidden layers.
        lifting: units of a hidden layer before `lift`, 0 for none.
        channel_mlp: units of the hidden layer of two Dense layers behind each block, to whose
            outputs the block's inputs are added, each channel times a trained number; 0 for none.

    Returns:
        A `keras.Model` from `(batch, *sizes, channels)` to `(batch, *sizes, outputs)`, whatever
        Keras' image data format; 550,081 trainable parameters at `(256, 2)`, and 304,321 with
        convolutions.

    Example:

    ```python
    import numpy as np
    from keras_xd import models

    model = models.fno((None, 2), width=8, modes=4)
    print(model(np.zeros((1, 32, 2))).shape)  # (1, 32, 1)
    ```

    Reference:
        Li et al., "Fourier neural operator for parametric partial differential equations",
        ICLR 2021; Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021; Kossaifi
        et al., "Multi-Grid Tensorized Fourier Neural Operator for High-Resolution PDEs", TMLR 2024.
    """
    sizes, modes, outputs, width, projection = _checked(
        input_shape, modes, operation, outputs=outputs, width=width, projection=projection
    )
    blocks = validation.positive_integer(blocks, "blocks")
    validation.one_of(padding, ("circular", "same"), "padding")
    validation.one_of(normalization, ("batch", None), "normalization")
    local_kernel = validation.nonnegative_integer(local_kernel, "local_kernel")
    validation.one_of(factorization, (None, "tucker"), "factorization")
    rank = validation.number_within(rank, "(]", 0, 1, "rank")
    lifting = validation.nonnegative_integer(lifting, "lifting")
    channel_mlp = validation.nonnegative_integer(channel_mlp, "channel_mlp")
    if factorization is not None and operation == "convolution":
        raise ValueError(
            "The weights of convolutions are not factorised. "
            f"Received: factorization={factorization!r}, operation={operation!r}"
        )
    tucker_rank = None if factorization is None else rank
    continuation = _continuation(continuation)
    if continuation is not None:
        sizes = continuation.compute_output_shape((None, *sizes, width))[1:-1]
    _check_kernel(sizes, operation, modes, input_shape)

    x = inputs = keras.Input(input_shape, name="function")
    if lifting:
        x = _dense(lifting, "lifting", activation)(x)
    x = _dense(width, "lift")(x)
    if continuation is not None:
        x = continuation(x)
    for block in range(1, blocks + 1):
        block_inputs, last = x, block == blocks
        parts = [
            _mixed(x, width, modes, operation, block, padding, tucker_rank),
            _dense(width, f"pointwise{block}")(x),
        ]
        if local_kernel:
            kernel_size = (local_kernel,) * len(modes)
            parts.append(_convolution(x, width, kernel_size, "same", f"local{block}"))
        x = _joined(parts, normalization, block, None if last else activation)
        if channel_mlp:
            x = _dense(channel_mlp, f"mlp{block}", activation)(x)
            gated = ChannelGate(name=f"gate{block}")(block_inputs)
            parts = [_dense(width, f"mlp_outputs{block}")(x), gated]
            x = keras.layers.Add(name=f"mlp_add{block}")(parts)
            x = x if last else _activated(x, activation, f"mlp_activation{block}")
    if continuation is not None:
        x = _cropped(x, continuation, len(modes))
    x = _dense(projection, "projection", activation)(x)
    return keras.Model(inputs, _dense(outputs, "outputs")(x), name=name)


@check_types
def uno(
    input_shape: tuple[int | None, ...],
    outputs: int = 1,
    width: int = 32,
    modes: int | tuple[int, ...] = 16,
    levels: int = 2,
    operation: str = "fourier",
    projection: int = 128,
    name: str = "uno",
    normalization: str | None = None,
) -> keras.Model:
    """Return a U-shaped neural operator: blocks of `fno` on coarser and coarser grids, and back.

    Each level has half the points and twice the channels of the one above, and is reached by
    band-limited resampling. On the way back a block gets the outputs of its level on the way down
    too. Layers are named as in `fno`; the blocks are numbered from the input to the output.

    Args:
        input_shape: `(*sizes, channels)` with one, two or three known spatial sizes.
        outputs: number of output channels.
        width: number of channels of the finest grid.
        modes: frequencies kept on each axis; a coarser grid keeps at most half as many as it has
            points.
        levels: how many times the grid is halved, 1 or more.
        operation: as in `fno`; convolutions have padding "same", so that `rewrite` searches them.
        projection: number of units of the last hidden layer.
        name: name of the model.
        normalization: as in `fno`.

    Returns:
        A `keras.Model` from `(batch, *sizes, channels)` to `(batch, *sizes, outputs)`.

    Example:

    ```python
    import numpy as np
    from keras_xd import models

    model = models.uno((32, 24, 1), width=8, modes=6)
    print(model(np.zeros((1, 32, 24, 1))).shape)  # (1, 32, 24, 1)
    ```

    Reference:
        Rahman, Ross and Azizzadenesheli, "U-NO: U-shaped Neural Operators", TMLR 2023.
    """
    sizes, modes, outputs, width, projection = _checked(
        input_shape, modes, operation, outputs=outputs, width=width, projection=projection
    )
    levels = validation.positive_integer(levels, "levels")
    validation.one_of(normalization, ("batch", None), "normalization")
    if None in sizes or min(sizes) // 2**levels < 4:
        raise ValueError(
            "Sizes must be known and at least 4 on the coarsest grid. "
            f"Received: input_shape={tuple(input_shape)}, levels={levels}"
        )

    def block(x, level, index):
        here = grids[level]
        channels = width * 2**level
        kept = modes
        if level:  # a convolution has one more weight than modes, which its grid must hold
            kept = tuple(min(mode, size // 2) for mode, size in zip(modes, here, strict=True))
        _check_kernel(here, operation, kept, input_shape)
        mixed = _mixed(x, channels, kept, operation, index, "same")
        parts = [mixed, _dense(channels, f"pointwise{index}")(x)]
        return _joined(parts, normalization, index, "relu")

    grids = [tuple(-(-size // 2**level) for size in sizes) for level in range(levels + 1)]
    inputs = keras.Input(input_shape, name="function")
    x, skipped = _dense(width, "lift")(inputs), []
    for level in range(levels):
        x = block(x, level, level + 1)
        skipped.append(x)
        x = _resampled(x, grids[level + 1], f"down{level + 1}")
    x = block(x, levels, levels + 1)
    for level in reversed(range(levels)):
        x = _resampled(x, grids[level], f"up{level + 1}")
        x = keras.layers.Concatenate(name=f"join{level + 1}")([x, skipped[level]])
        x = block(x, level, 2 * levels + 1 - level)
    x = _dense(projection, "projection", activation="relu")(x)
    return keras.Model(inputs, _dense(outputs, "outputs")(x), name=name)


@keras.saving.register_keras_serializable(package="keras_xd")
class ChannelGate(keras.layers.Layer):
    """Multiplies each channel, the last axis, by a trained number, at first 1."""

    def build(self, input_shape: Shape) -> None:
        self.gate = self.add_weight(name="gate", shape=(input_shape[-1],), initializer="ones")

    def call(self, inputs: Tensor) -> Tensor:
        return inputs * self.gate


def _checked(input_shape, modes, operation, **integers):
    """Return the spatial sizes, modes and integers of a network, if they are sound."""
    form = "(*sizes, channels) of one to three spatial sizes"
    *sizes, _ = checked_shape(input_shape, (2, 3, 4), form)
    validation.one_of(operation, ("fourier", "convolution", "xd"), "operation")
    modes = validation.integer_tuple(modes, len(sizes), "modes")
    return sizes, modes, *(validation.positive_integer(n, name) for name, n in integers.items())


def _continuation(continuation):
    """Return the layer that an argument names, or `None`."""
    if isinstance(continuation, layers.FourierContinuation):
        return continuation
    if isinstance(continuation, keras.layers.Layer):
        raise ValueError(
            "`continuation` must be a number of points, one for each axis, or a "
            f"FourierContinuation layer. Received: continuation={continuation!r}"
        )
    layer = layers.FourierContinuation(continuation, name="continuation")
    return layer if layer.points else None


def _cropped(x, continuation, rank):
    """Return a function without the points that a continuation added."""
    points = continuation.points
    ends = [(0, count) for count in (points if isinstance(points, tuple) else (points,) * rank)]
    if rank == 1:
        return keras.layers.Cropping1D(ends[0], name="cropping")(x)
    kind = keras.layers.Cropping2D if rank == 2 else keras.layers.Cropping3D
    return kind(tuple(ends), data_format="channels_last", name="cropping")(x)


def _resampled(x, sizes, name):
    return layers.FourierResampling(sizes, data_format="channels_last", name=name)(x)


def _mixed(x, width, modes, operation, block, padding, tucker_rank=None):
    """Return the operation of a block that mixes points."""
    if operation == "fourier":
        return layers.SpectralConv(
            len(modes),
            width,
            modes,
            data_format="channels_last",
            tucker_rank=tucker_rank,
            name=f"spectral{block}",
        )(x)
    kernel_size = _kernel_size(operation, modes)
    if operation == "xd":
        if tucker_rank is None:
            return _searched(x, width, kernel_size, f"xd{block}")
        channels = _channel_rank(width, math.prod(kernel_size), tucker_rank)
        options = {"use_bias": False, "kernel_initializer": "orthogonal"}
        x = keras.layers.Dense(channels, name=f"inputs{block}", **options)(x)
        x = _searched(x, channels, kernel_size, f"xd{block}")
        return keras.layers.Dense(width, name=f"mixed{block}", **options)(x)
    return _convolution(x, width, kernel_size, padding, f"convolution{block}")


def _channel_rank(width, places, share):
    """Return how many channels leave a share of an operation's weights, with their two matrices."""
    # places · rank² + 2 · width · rank = share · places · width²
    half = width / places
    return max(int(math.sqrt(half**2 + share * width**2) - half), 1)


def _joined(parts, normalization, block, activation):
    """Return the sum of a block's parts, normalised and with an activation if asked for."""
    x = keras.layers.Add(name=f"add{block}")(parts)
    if normalization == "batch":
        x = keras.layers.BatchNormalization(
            momentum=0.9, epsilon=1e-5, name=f"normalization{block}"
        )(x)
    return _activated(x, activation, f"{'relu' if activation == 'relu' else 'activation'}{block}")


def _activated(x, activation, name):
    if activation is None:
        return x
    if activation == "relu":
        return keras.layers.ReLU(name=name)(x)
    return keras.layers.Activation(activation, name=name)(x)


def _kernel_size(operation, modes):
    """Return the sizes of the kernels of an operation of so many modes."""
    return tuple(2 * mode - 1 if operation == "xd" else mode + 1 for mode in modes)


def _check_kernel(sizes, operation, modes, input_shape):
    """Raise `ValueError` where a kernel is larger than its input."""
    pairs = zip(_kernel_size(operation, modes), sizes, strict=True)
    if operation != "fourier" and any(size is not None and kernel > size for kernel, size in pairs):
        rule = "one larger than `modes`" if operation == "convolution" else "`2 * modes - 1`"
        raise ValueError(
            f"The kernels, {rule}, must not be larger than the input. "
            f"Received: modes={modes}, input_shape={tuple(input_shape)}"
        )


def _published_initializer():
    """Uniform within ± 1 / √(number of inputs), PyTorch's default, which the papers used."""
    return keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")


def _dense(units, name, activation=None):
    return keras.layers.Dense(
        units, activation, kernel_initializer=_published_initializer(), name=name
    )


def _convolution(x, filters, kernel_size, padding, name):
    """A convolution without bias that keeps the sizes."""
    rank = len(kernel_size)
    convolution = getattr(keras.layers, f"Conv{rank}D")
    if padding == "circular":
        for axis, size in enumerate(kernel_size, start=1):
            x = _continue_periodically(x, axis, (size - 1) // 2, size // 2)
        padding = "valid"
    return convolution(
        filters,
        kernel_size,
        padding=padding,
        data_format="channels_last",
        use_bias=False,
        kernel_initializer=_published_initializer(),
        name=name,
    )(x)


def _searched(x, filters, kernel_size, name):
    """An XD-operation without bias that keeps the sizes and begins as a Fourier operator."""
    layer = getattr(layers, f"XDConv{len(kernel_size)}D")
    return layer(
        filters,
        kernel_size,
        padding="circular",
        data_format="channels_last",
        use_bias=False,
        kernel_initializer="keras_xd>SpectralUniform",
        warm_start="fourier_operator",
        frequency_bias=False,
        channel_gates=False,
        name=name,
    )(x)


def _continue_periodically(x, axis, before, after):
    """Put the last `before` points of an axis before it and the first `after` behind it."""
    skipped = (slice(None),) * axis
    parts = [x]
    if before:
        parts.insert(0, x[(*skipped, slice(-before, None))])
    if after:
        parts.append(x[(*skipped, slice(None, after))])
    return ops.concatenate(parts, axis=axis)
