"""Continuous convolutional networks, all of whose sizes can be learned."""

import keras

from keras_xd import layers
from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.layers.masked.depth_mask import DepthMask


@check_types
def ccnn(
    blocks: int,
    channels: int,
    input_shape: tuple[int, ...],
    classes: int,
    learn: str = "KRWD",
    dense: bool = False,
    vocabulary: int | None = None,
    kernel_size: int | None = None,
    padding: str = "same",
    network: layers.KernelNetwork | None = None,
    initial_blocks: float | None = None,
    initial_channels: float | None = None,
    initial_kernel_size: float | None = None,
    temperatures: tuple[float, float, float] = (25.0, 25.0, 8.0),
    dropout: float = 0.0,
    statistics: str = "moving",
    rendering: str = "static",
    counting: str = "counts",
    seed: int | None = None,
    name: str = "ccnn",
    convolution_method: str = "auto",
) -> keras.Model:
    """Return a continuous convolutional network for sequences or images, as a space to search.

    A linear layer at each point (of an embedding of the tokens, where inputs are tokens), batch
    normalization and GELU; `blocks` residual blocks with global continuous kernels, all made by
    one small network; a linear layer, of the mean over all points or at each point. What of the
    blocks is learned says `learn`:

    - `K`: kernel sizes, by a Gaussian mask of width 0.0325 at first. Without it kernels are global.
    - `R`: resolutions, by sigmoid masks on the spectrum, 0.85 at the highest frequency at first.
    - `W`: the three widths of each block, by sigmoid masks on half of the channels at first.
    - `D`: how many of the blocks there are, by one sigmoid mask on half of them at first.
    - `E`: the width of the encoder, by a sigmoid mask on half of the channels at first. Not in the
      paper. With `W` and `E` the residual stream between the blocks gets narrower, too.

    So the paper's CCNN of 4 blocks and 140 channels, with all four learned, is
    `ccnn(8, 280, …)`, and `keras_xd.complexity(ccnn(4, 140, …, learn=""))` the budget for it.
    Parts are named `encoder`, `block1`, …, `decoder`; the masks are in the blocks.

    Args:
        blocks: number of blocks, the largest one where `D` is learned.
        channels: number of channels, the largest one where `W` or `E` is learned.
        input_shape: `(steps, channels)`, `(height, width, channels)`, or with a vocabulary
            `(steps,)`; all known.
        classes: number of outputs, which are logits, or numbers to be predicted.
        learn: string of any of the letters `K`, `R`, `W`, `D`, `E`.
        dense: whether there are outputs at each point.
        vocabulary: number of different tokens, integers, where the inputs are such.
        kernel_size: number of taps of the largest kernel; `None`: the size of the inputs.
        padding: as in `layers.CKConv2D`.
        network: the `layers.KernelNetwork` for all kernels; `None`: 32 Gabor filters (`"magnet"`)
            of half the highest frequency that the grid of taps can hold, `(taps - 1) / 8`.
        initial_blocks, initial_channels, initial_kernel_size: sizes that the masks begin with.
        temperatures: steepness of the masks on frequencies, channels and blocks. A mask takes at
            least 2.57 / temperature of its axis.
        dropout: share of the entries between the linear layers that are set to zero in training.
        statistics: what inference normalizes by, `"moving"` or `"batch"`: see
            `layers.ccnn.batch_statistics.use_statistics`.
        rendering: `"static"` or `"dynamic"`: see `layers.CCNNBlock`.
        counting: what `keras_xd.complexity`, and so a budget, counts: see `layers.CCNNBlock`.
        seed: an integer makes the first weights reproducible, of the default `network` too.
        convolution_method: as `convolution` in `layers.CKConv2D`.

    Returns:
        A `keras.Model` with outputs `(batch, classes)` or `(batch, *spatial, classes)`, whatever
        Keras' image data format.

    Example:

    >>> import keras_xd
    >>> base = keras_xd.models.ccnn(1, 4, (32, 3), classes=10, learn="")
    >>> target = keras_xd.complexity(base)
    >>> space = keras_xd.models.ccnn(2, 8, (32, 3), classes=10)
    >>> space.output_shape, len(keras_xd.architecture_variables(space))
    ((None, 10), 11)
    >>> bool(keras_xd.complexity(space) < 1.5 * target)
    True

    Reference:
        Romero and Zeghidour, "DNArch: Learning Convolutional Neural Architectures by
        Backpropagation", 2023; Romero et al., "Towards a General Purpose CNN for Long Range
        Dependencies in ND", 2022.
    """
    blocks = validation.positive_integer(blocks, "blocks")
    channels = validation.positive_integer(channels, "channels")
    classes = validation.positive_integer(classes, "classes")
    input_shape = _checked_shape(input_shape, vocabulary)
    learn = validation.letters(learn, "KRWDE", "learn")
    if not isinstance(temperatures, (tuple, list)) or len(temperatures) != 3:
        raise ValueError(
            "`temperatures` must be three numbers, of frequencies, channels and blocks. "
            f"Received: temperatures={temperatures!r}"
        )
    tokens = vocabulary is not None
    of_resolution, of_width, of_depth = temperatures
    if network is None:
        network = _network(kernel_size or max(input_shape[: 1 if tokens else -1]), seed)
    depth = None
    if "D" in learn:
        depth = DepthMask(blocks, of_depth, initial_blocks, name="depth")

    inputs = keras.Input(input_shape, dtype="int32" if tokens else None, name="inputs")
    x = inputs
    if tokens:
        draw = keras.initializers.RandomUniform(-0.05, 0.05, seed)
        x = keras.layers.Embedding(vocabulary, channels, draw, name="embedding")(x)
    if "E" in learn:
        start = None if seed is None else seed + 1
        x = layers.CCNNEncoder(
            channels, initial_channels, of_width, statistics, start, counting, name="encoder"
        )(x)
    else:
        x = _linear(channels, seed, "encoder")(x)
        x = layers.BatchStatisticsNormalization(statistics, name="encoder_normalization")(x)
        x = keras.layers.Activation("gelu", name="encoder_gelu")(x)
    for index in range(blocks):
        x = layers.CCNNBlock(
            network,
            learn=learn.replace("D", "").replace("E", ""),
            depth=depth,
            index=index,
            kernel_size=kernel_size,
            padding=padding,
            initial_kernel_size=initial_kernel_size,
            initial_width=initial_channels,
            width_temperature=of_width,
            resolution_temperature=of_resolution,
            dropout=dropout,
            statistics=statistics,
            rendering=rendering,
            counting=counting,
            seed=None if seed is None else seed + 10 * index,
            convolution_method=convolution_method,
            name=f"block{index + 1}",
        )(x)
    if not dense:
        pooling = getattr(keras.layers, f"GlobalAveragePooling{len(x.shape) - 2}D")
        x = pooling(data_format="channels_last", name="pool")(x)
    return keras.Model(inputs, _linear(classes, seed, "decoder")(x), name=name)


def _network(taps, seed):
    """Return Gabor filters of half the highest frequency that a grid of some taps can hold."""
    frequency = max((taps - 1) / 8, 0.5)
    return layers.KernelNetwork("magnet", frequency=frequency, seed=seed, name="kernel_network")


def _checked_shape(input_shape, vocabulary):
    shape = tuple(input_shape) if isinstance(input_shape, (tuple, list)) else ()
    if vocabulary is not None:
        validation.positive_integer(vocabulary, "vocabulary")
    ranks = (2, 3) if vocabulary is None else (1,)
    if len(shape) not in ranks or not all(validation.is_integer(n) and n > 0 for n in shape):
        raise ValueError(
            "`input_shape` must be (steps, channels) or (height, width, channels), and (steps,) "
            "with a vocabulary, positive integers: masks are made for axes of known size. "
            f"Received: input_shape={input_shape!r}, vocabulary={vocabulary!r}"
        )
    return shape


def _linear(units, seed, name):
    draw = keras.initializers.GlorotUniform(None if seed is None else seed + 1)
    return keras.layers.Dense(units, kernel_initializer=draw, name=name)
