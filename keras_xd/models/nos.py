"""The networks of the neural operator search: of relaxed cells, and of derived ones."""

from collections.abc import Sequence

import keras

from keras_xd import layers
from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.layers.cells.architecture_logits import ArchitectureLogits
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
        operations: names of the operations, two at least, one of which makes features. The seven of
            `keras_xd.genotypes.FEATURE_OPERATIONS` are those of DARTS; XD-operations are added by
            `(*NOS_OPERATIONS, "xd_3")`, where no operations are drawn.
        partial_channels: integer `k` saves memory: operations act on 1 / k of the channels. By
            default 4 with the relaxation `"partial"`, else 1.
        seed: an integer makes the first architecture weights reproducible.
        calibration_gate: as in `keras_xd.layers.HeterogeneousCell`.
        relaxation: what the cells compute in a step. `"softmax"`: all operations, weighted by their
            probabilities. `"gumbel"`: one for each edge, drawn, with the derivatives of a softmax
            at a temperature (see `keras_xd.callbacks.TemperatureSchedule`). `"sampled"`: two for
            each edge, drawn, weighted by the softmax of their logits; one where only weights are
            trained. `"single_path"`: one discrete cell, drawn, whose edges have probabilities too.
            `"partial"`: all operations, on a part of the channels, times probabilities of the
            edges. `"perturbation"`: as `"softmax"`, but
            `keras_xd.callbacks.PerturbationSelection` decides what is derived. In inference those
            that draw compute the most likely operations.
        update: `"softmax"`, or of the relaxations `"softmax"` and `"partial"`
            `"exponentiated_gradient"`: a step of `keras.optimizers.SGD(η)` is that of GAEA, as in
            `keras_xd.layers.MixedOperation2D`.
        tiers: 1, with the same relaxations, for the cells of DARTS: a block is what its first tier
            makes. GAEA PC-DARTS is the relaxation `"partial"` with this update and one tier.

    Raises:
        ValueError: for arguments outside these rules.

    Example:

    >>> import keras_xd
    >>> names = ("identity", "max_pooling_3")
    >>> model = keras_xd.models.nos_search_network(3, 2, (8, 8, 3), operations=names)
    >>> tuple(keras_xd.architecture_variables(model)[0].shape)  # 18 edges, 2 operations
    (18, 2)
    >>> [model.get_layer(f"stage{stage}").output.shape[1:] for stage in (1, 2, 3)]
    [(8, 8, 8), (4, 4, 16), (2, 2, 32)]

    Reference:
        "Neural Operator Search", 2020, section 4.2; Liu et al., "DARTS", 2019; Dong and Yang
        (`"gumbel"`), 2019; Cai et al., "ProxylessNAS", 2019 (`"sampled"`); Xu et al., "PC-DARTS",
        2020 (`"partial"`); Wang et al., "Rethinking Architecture Selection in Differentiable NAS",
        2021 (`"perturbation"`); Li et al., "Geometry-Aware Gradient Algorithms", 2021 (GAEA).
    """
    cells, channels, input_shape, classes = _checked(cells, channels, input_shape, classes)
    architectures = [
        ArchitectureLogits(
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
    stem: str = "cifar",
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

    Large images have `stem="imagenet"`: three 3 × 3 convolutions with strides 2, to `channels / 2`,
    `channels` and `channels`, come before the cells, and the pooling of the auxiliary output has
    strides 2. The paper's network is `nos_network(genotype, 14, 48, (224, 224, 3), 1000,
    drop_path=0.0, stem="imagenet")`.

    Args:
        genotype: a `keras_xd.genotypes.Genotype`, such as that of
            `keras_xd.layers.derived_genotype(search)`.
        cells: number of cells, at least 3.
        channels: channels of each node of the first cells; with `stem="imagenet"` an even number.
        input_shape: height, width and channels of one image.
        classes: number of outputs, which are logits.
        auxiliary: whether there is the second output. Images must be at least 29 pixels high and
            wide for it, with `stem="imagenet"` 193.
        drop_path: the probability, from 0 to below 1.
        seed: an integer makes the drop-path reproducible.
        calibration_gate: as in `keras_xd.layers.HeterogeneousCell`.
        stem: `"cifar"` or `"imagenet"`.

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
    large = validation.one_of(stem, ("cifar", "imagenet"), "stem") == "imagenet"
    inputs = keras.Input(input_shape, name="image")
    if large:
        two = _large_stem(inputs, channels)
    else:
        two = [_convolution(inputs, 3 * channels, 3, 1, "stem")] * 2
    cell = _derived(genotype, drop_path, seed, calibration_gate)
    outputs, places = _stacked(cell, two, cells, channels, large)
    logits = _classified(outputs[-1], classes)
    if auxiliary:
        logits = [logits, _auxiliary(outputs[places[1]], 2 if large else 3, classes)]
    return keras.Model(inputs, logits, name=name)


def _large_stem(inputs, channels):
    """Return two features of a quarter and an eighth of the size of large images."""
    if channels % 2:
        raise ValueError(f"`channels` must be even. Received: channels={channels}")
    x = _convolution(inputs, channels // 2, 3, 2, "stem1")
    x = keras.layers.ReLU(name="stem1_relu")(x)
    first = _convolution(x, channels, 3, 2, "stem2")
    second = _convolution(keras.layers.ReLU(name="stem2_relu")(first), channels, 3, 2, "stem3")
    return [first, second]


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
