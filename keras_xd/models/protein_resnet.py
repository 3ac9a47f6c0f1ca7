"""Residual networks for maps of the distances in a protein."""

import keras

from keras_xd.core import validation
from keras_xd.core.argument_types import check_types
from keras_xd.models.blocks import check_dropout, checked_shape

DILATIONS = (1, 2, 4)


@check_types
def protein_resnet(
    input_shape: tuple[int | None, int | None, int],
    depth: int = 18,
    dilated: bool = False,
    width: int = 16,
    dropout: float = 0.3,
    name: str = "protein_resnet",
) -> keras.Model:
    """Return a residual network from features of pairs of residues to their distances.

    Batch normalization, ReLU and a 1 × 1 convolution, then `depth / 2 - 1` blocks of batch
    normalization, ReLU, a 3 × 3 convolution, dropout, ReLU and a 3 × 3 convolution, whose outputs
    are added to their inputs. Batch normalization, ReLU, a 3 × 3 convolution and a ReLU make the
    distances. The convolutions are named `conv`, `block…_conv1`, `block…_conv2` and `outputs`.

    Args:
        input_shape: `(residues, residues, features)`; the number of residues may be `None`, but a
            search over the operations has to know it.
        depth: number of convolutions, even: in the paper 4, 6, 10, 18 and 34.
        dilated: whether the second convolutions have dilations 1, 2, 4, 1, … from block to block,
            as in PDNET, of depth 258 and width 64. Otherwise it is 1 everywhere, as in the
            backbone of the paper.
        width: number of channels between.
        dropout: share of the values that each dropout sets to zero in training.

    Returns:
        A `keras.Model` from `(batch, residues, residues, features)` to
        `(batch, residues, residues, 1)`, whatever Keras' image data format; 38,595 trainable
        parameters with 57 features.

    Example:

    >>> import numpy as np
    >>> from keras_xd import models
    >>> model = models.protein_resnet((None, None, 57), depth=4)
    >>> tuple(model(np.zeros((1, 16, 16, 57))).shape)
    (1, 16, 16, 1)

    Reference:
        Adhikari, "A fully open-source framework for deep learning protein real-valued distances",
        2020; Roberts et al., "Rethinking Neural Operations for Diverse Tasks", 2021, section 5.
    """
    input_shape = checked_shape(input_shape, (3,), "(residues, residues, features)")
    depth = validation.positive_integer(depth, "depth")
    dilated = validation.boolean(dilated, "dilated")
    width = validation.positive_integer(width, "width")
    check_dropout(dropout)
    if depth < 4 or depth % 2:
        raise ValueError(f"`depth` must be an even number of at least 4. Received: {depth=}")

    inputs = keras.Input(input_shape, name="pairs")
    x = _convolution(_activated(inputs, "input"), width, 1, 1, "conv")
    for block in range(1, depth // 2):
        dilation = DILATIONS[(block - 1) % len(DILATIONS)] if dilated else 1
        y = _convolution(_activated(x, f"block{block}"), width, 3, 1, f"block{block}_conv1")
        y = keras.layers.Dropout(dropout, name=f"block{block}_dropout")(y)
        y = keras.layers.ReLU(name=f"block{block}_relu2")(y)
        y = _convolution(y, width, 3, dilation, f"block{block}_conv2")
        x = keras.layers.Add(name=f"block{block}_add")([y, x])
    x = _convolution(_activated(x, "output"), 1, 3, 1, "outputs")
    return keras.Model(inputs, keras.layers.ReLU(name="distances")(x), name=name)


def _activated(x, name):
    """Batch normalization and ReLU."""
    x = keras.layers.BatchNormalization(name=f"{name}_normalization")(x)
    return keras.layers.ReLU(name=f"{name}_relu")(x)


def _convolution(x, filters, kernel_size, dilation, name):
    return keras.layers.Conv2D(
        filters,
        kernel_size,
        padding="same",
        data_format="channels_last",
        dilation_rate=dilation,
        name=name,
    )(x)
