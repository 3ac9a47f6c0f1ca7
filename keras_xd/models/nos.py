"""The networks of the neural operator search: of relaxed cells, and of derived ones."""

from collections.abc import Sequence

import keras

from keras_xd import layers
from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.layers.cells.genotypes import NOS_OPERATIONS, Genotype
from keras_xd.models.blocks import convolution, normalization

AUXILIARY_POOL = 5


@check_types
def nos_search_network(
    cells: int = 8,
    channels: int = 16,
    input_shape: tuple[int, int, int] = (32, 32, 3),
    classes: int = 10,
    operations: Sequence[str] = NOS_OPERATIONS,
    partial_channels: int | None = None,
    seed: int | None = None,
    name: str = "nos_search_network",
    calibration_gate: str | None = None,
    relaxation: str = "softmax",
    update: str = "softmax",
    tiers: int = 2,
) -> keras.Model:
    """Return the small network that cells are searched in.

    A 3 × 3 convolution to `3 * channels` with normalization, `cells` heterogeneous cells, each of
    the outputs of the two before it, average pooling and a dense layer. Cells number
    `cells // 3` and `2 * cells // 3` (from 0) are reduction cells: they halve both sizes and
    double the channels. All cells of a kind share their architecture weights: two variables in the
    whole network, four where edges have weights.

    The cells are named `cell1`, `cell2`, …, and what comes before each reduction cell and the last
    cell's outputs are those of the layers `stage1`, `stage2` and `stage3`, as
    `keras_xd.training.AttentionTransfer` expects.

    Args:
        cells: number of cells, at least 3.
        channels: channels of each node of the first cells; a cell has four times as many outputs.
        input_shape: height, width and channels of one image.
        classes: number of outputs, which are logits.
        operations: names of the operations, see `keras_xd.layers.ArchitectureLogits`. The seven of
            `keras_xd.genotypes.FEATURE_OPERATIONS` are those of DARTS.
        partial_channels: integer `k` saves memory: operations act on 1 / k of the channels. By
            default 4 with the relaxation `"partial"`, else 1.
        seed: an integer makes the first architecture weights reproducible.
        calibration_gate: as in `keras_xd.layers.HeterogeneousCell`.
        relaxation: what the cells compute in a step, all operations by `"softmax"` or less, and by
            what they are derived: see `keras_xd.layers.ArchitectureLogits`.
        update, tiers: as in `ArchitectureLogits`.

    Example:

    >>> import keras_xd
    >>> names = ("identity", "max_pooling_3")
    >>> model = keras_xd.models.nos_search_network(3, 2, (8, 8, 3), operations=names)
    >>> tuple(keras_xd.architecture_variables(model)[0].shape)  # 18 edges, 2 operations
    (18, 2)
    >>> [model.get_layer(f"stage{stage}").output.shape[1:] for stage in (1, 2, 3)]
    [(8, 8, 8), (4, 4, 16), (2, 2, 32)]

    Reference:
        "Neural Operator Search", 2020, section 4.2; Liu et al., "DARTS", 2019.
    """
    cells, channels, input_shape, classes = _checked(cells, channels, input_shape, classes)
    architectures = [
        layers.ArchitectureLogits(
            reduction,
            operations,
            None if seed is None else seed + reduction,
            relaxation,
            update,
            tiers,
            name=f"{kind}_cells",
        )
        for reduction, kind in enumerate(("normal", "reduction"))
    ]

    def cell(filters, reduction, previous_reduction, name):
        return layers.HeterogeneousCell(
            filters,
            architectures[reduction],
            reduction,
            previous_reduction,
            partial_channels,
            calibration_gate,
            name=name,
        )

    inputs = keras.Input(input_shape, name="image")
    x = _convolution(inputs, 3 * channels, 3, 1, "stem")
    outputs, _ = _stacked(cell, [x, x], cells, channels, False)
    return keras.Model(inputs, _classified(outputs[-1], classes), name=name)


@check_types
def nos_network(
    genotype: Genotype,
    cells: int = 20,
    channels: int = 36,
    input_shape: tuple[int, int, int] = (32, 32, 3),
    classes: int = 10,
    auxiliary: bool = True,
    drop_path: float = 0.3,
    seed: int | None = None,
    name: str = "nos_network",
    calibration_gate: str | None = None,
) -> keras.Model:
    """Return the network that derived cells are evaluated in.

    Its stem, its cells in their places and its end are those of `nos_search_network`, with the
    operations of a genotype alone, whose normalizations have scales and offsets. With `auxiliary`
    it has a second output `auxiliary`, logits made of the outputs of the second reduction cell:
    ReLU, 5 × 5 average pooling with strides 3, a 1 × 1 convolution to 128 and a 2 × 2 convolution
    to 768 channels, each with normalization and ReLU, the mean over what is left, and a dense
    layer. Train it with the weight 0.4 in the loss, and drop it afterwards by
    `keras.Model(model.input, model.outputs[0])`.

    In training paths are dropped with the probability `drop_path`, or a growing one: see
    `keras_xd.callbacks.DropPathSchedule`.

    Args:
        genotype: a `keras_xd.genotypes.Genotype`, such as that of
            `keras_xd.layers.derived_genotype(search)`.
        cells: number of cells, at least 3.
        channels: channels of each node of the first cells.
        input_shape: height, width and channels of one image.
        classes: number of outputs, which are logits.
        auxiliary: whether there is the second output. Images must be at least 29 pixels high and
            wide for it.
        drop_path: the probability, from 0 to below 1.
        seed: an integer makes the drop-path reproducible.
        calibration_gate: as in `keras_xd.layers.HeterogeneousCell`.

    Example:

    >>> import keras_xd
    >>> import numpy as np
    >>> genotype = keras_xd.genotypes.random_genotype(np.random.default_rng(0))
    >>> model = keras_xd.models.nos_network(genotype, cells=3, channels=2)
    >>> model.output_names, [output.shape for output in model.outputs]
    (['classifier', 'auxiliary'], [(None, 10), (None, 10)])

    Reference:
        "Neural Operator Search", 2020, section 4.3 and appendix A.2; Liu et al., "DARTS", 2019.
    """
    cells, channels, input_shape, classes = _checked(cells, channels, input_shape, classes)
    inputs = keras.Input(input_shape, name="image")
    x = _convolution(inputs, 3 * channels, 3, 1, "stem")
    cell = _derived(genotype, drop_path, seed, calibration_gate)
    outputs = _evaluated(cell, [x, x], cells, channels, classes, 3 if auxiliary else None)
    return keras.Model(inputs, outputs, name=name)


@check_types
def nos_imagenet_network(
    genotype: Genotype,
    cells: int = 14,
    channels: int = 48,
    input_shape: tuple[int, int, int] = (224, 224, 3),
    classes: int = 1000,
    auxiliary: bool = True,
    drop_path: float = 0.0,
    seed: int | None = None,
    name: str = "nos_imagenet_network",
    calibration_gate: str | None = None,
) -> keras.Model:
    """Return the network that derived cells are evaluated in on large images.

    Like `nos_network`, but three 3 × 3 convolutions with strides 2, to `channels / 2`, `channels`
    and `channels`, come before the cells, and the pooling of the auxiliary output has strides 2.

    Args:
        channels: channels of each node of the first cells, an even number.
        auxiliary: whether there is the second output. Images must be at least 193 pixels high and
            wide for it.
        genotype, cells, input_shape, classes, drop_path, seed, name, calibration_gate: as in
            `nos_network`.

    Example:

    >>> import keras_xd
    >>> import numpy as np
    >>> genotype = keras_xd.genotypes.random_genotype(np.random.default_rng(0))
    >>> model = keras_xd.models.nos_imagenet_network(
    ...     genotype, 3, 2, (64, 64, 3), auxiliary=False
    ... )
    >>> model.get_layer("stage3").output.shape
    (None, 2, 2, 32)

    Reference:
        "Neural Operator Search", 2020, section 4.3 and appendix A.2.2; Liu et al., "DARTS", 2019.
    """
    cells, channels, input_shape, classes = _checked(cells, channels, input_shape, classes)
    if channels % 2:
        raise ValueError(f"`channels` must be even. Received: channels={channels}")
    inputs = keras.Input(input_shape, name="image")
    x = _convolution(inputs, channels // 2, 3, 2, "stem1")
    x = keras.layers.ReLU(name="stem1_relu")(x)
    first = _convolution(x, channels, 3, 2, "stem2")
    second = _convolution(keras.layers.ReLU(name="stem2_relu")(first), channels, 3, 2, "stem3")
    cell = _derived(genotype, drop_path, seed, calibration_gate)
    strides = 2 if auxiliary else None
    outputs = _evaluated(cell, [first, second], cells, channels, classes, strides)
    return keras.Model(inputs, outputs, name=name)


def _checked(cells, channels, input_shape, classes):
    cells = validation.positive_integer(cells, "cells")
    if cells < 3:
        raise ValueError(f"`cells` must be at least 3, for three stages. Received: cells={cells}")
    return (
        cells,
        validation.positive_integer(channels, "channels"),
        validation.integer_tuple(input_shape, 3, "input_shape"),
        validation.positive_integer(classes, "classes"),
    )


def _derived(genotype, drop_path, seed, calibration_gate):
    """Return a function that makes the cells of a genotype."""
    numbers = iter(range(10**9))

    def cell(filters, reduction, previous_reduction, name):
        number = next(numbers)
        return layers.DerivedCell(
            genotype.reduction if reduction else genotype.normal,
            filters,
            reduction,
            previous_reduction,
            drop_path,
            seed=None if seed is None else seed + number,
            calibration_gate=calibration_gate,
            name=name,
        )

    return cell


def _stacked(make_cell, two, cells, channels, previous_reduction):
    """Return the outputs of all cells and the numbers of the two reduction cells."""
    places, stage, outputs = (cells // 3, 2 * cells // 3), 1, []
    for number in range(cells):
        reduction = number in places
        if reduction:
            two[1] = keras.layers.Identity(name=f"stage{stage}")(two[1])
            channels, stage = 2 * channels, stage + 1
        x = make_cell(channels, reduction, previous_reduction, f"cell{number + 1}")(two)
        outputs.append(x)
        two, previous_reduction = [two[1], x], reduction
    outputs[-1] = keras.layers.Identity(name="stage3")(outputs[-1])
    return outputs, places


def _evaluated(make_cell, two, cells, channels, classes, auxiliary_strides):
    """Return the logits of a network of derived cells, and the auxiliary ones if there are any."""
    outputs, places = _stacked(make_cell, two, cells, channels, two[0] is not two[1])
    logits = _classified(outputs[-1], classes)
    if auxiliary_strides is None:
        return logits
    return [logits, _auxiliary(outputs[places[1]], auxiliary_strides, classes)]


def _classified(x, classes):
    x = keras.layers.GlobalAveragePooling2D(data_format="channels_last", name="pool")(x)
    return keras.layers.Dense(classes, name="classifier")(x)


def _auxiliary(x, strides, classes):
    """Return logits made of the features in the middle of a network."""
    if min(x.shape[1:3]) < AUXILIARY_POOL + strides:
        raise ValueError(
            f"The auxiliary output needs features of {AUXILIARY_POOL + strides} pixels or more "
            "behind the second reduction cell: give larger images or `auxiliary=False`. Received: "
            f"features of {x.shape[1:3]}"
        )
    x = keras.layers.ReLU(name="auxiliary_relu1")(x)
    x = keras.layers.AveragePooling2D(
        AUXILIARY_POOL, strides, data_format="channels_last", name="auxiliary_pool"
    )(x)
    x = keras.layers.ReLU(name="auxiliary_relu2")(_convolution(x, 128, 1, 1, "auxiliary_conv1"))
    x = _convolution(x, 768, 2, 1, "auxiliary_conv2", "valid")
    x = keras.layers.ReLU(name="auxiliary_relu3")(x)
    x = keras.layers.GlobalAveragePooling2D(data_format="channels_last", name="auxiliary_mean")(x)
    return keras.layers.Dense(classes, name="auxiliary")(x)


def _convolution(x, filters, kernel_size, strides, name, padding="same"):
    """A convolution without bias, and normalization."""
    last = {"data_format": "channels_last"}
    x = convolution(x, filters, kernel_size, strides, name, padding, **last)
    return normalization(x, f"{name}_normalization", **last)
