"""PyramidNet: sizes by hand, one block against NumPy, names, files, bad arguments."""

import keras
import numpy as np
import pytest

from keras_xd import models


def trainable(model):
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


def counted(depth, alpha, classes):
    """Count the parameters of a PyramidNet of bottlenecks block by block."""
    blocks = (depth - 2) // 3
    total, channels = 3 * 16 * 9 + 2 * 16, 16
    for block in range(1, blocks + 1):
        width = round(16 + alpha * block / blocks)
        total += channels * width + 9 * width * width + width * 4 * width
        total += 2 * (channels + width + width + 4 * width)
        channels = 4 * width
    return total + 2 * channels + (channels + 1) * classes


def test_the_teacher_of_neural_operator_search():
    """One with 3 blocks in place of 12 in each stage, whose stages have the same shapes."""
    assert counted(110, 84, 10) == 2_528_712
    model = models.pyramidnet(29, 84, (32, 32, 3), 10)
    assert trainable(model) == counted(29, 84, 10)
    shapes = [model.get_layer(f"stage{stage}").output.shape for stage in (1, 2, 3)]
    assert shapes == [(None, 32, 32, 176), (None, 16, 16, 288), (None, 8, 8, 400)]
    convolutions = [x for x in model.layers if isinstance(x, keras.layers.Conv2D)]
    # The stem, three in each of the 9 blocks; the dense layer is the 29th.
    assert len(convolutions) == 28 and not any(x.use_bias for x in convolutions)
    strided = [x.name for x in convolutions if x.strides != (1, 1)]
    assert strided == ["stage2_block1_conv2", "stage3_block1_conv2"]


def block_reference(x, kernels):
    """NumPy: a bottleneck block with stride 2 whose normalizations divide by `√(1 + ε)`."""
    scale = 1 / np.sqrt(1 + 1e-5)
    narrow, middle, wide = kernels
    y = np.maximum(x * scale @ narrow[0, 0] * scale, 0)
    padded = np.pad(y, [(0, 0), (1, 1), (1, 1), (0, 0)])
    size = (x.shape[1] + 1) // 2
    y = np.zeros((len(x), size, size, middle.shape[-1]))
    for row in range(size):
        for column in range(size):
            window = padded[:, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
            y[:, row, column] = np.einsum("bhwc,hwcd->bd", window, middle)
    y = np.maximum(y * scale, 0) @ wide[0, 0] * scale
    for row in range(size):
        for column in range(size):
            window = x[:, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
            y[:, row, column, : x.shape[-1]] += window.mean((1, 2))
    return y


@pytest.mark.parametrize("size", [6, 7])
def test_a_strided_block_equals_numpy(rng, size):
    model = models.pyramidnet(11, 9, (size, size, 3), 2)
    kernels = [model.get_layer(f"stage2_block1_conv{n}").kernel.numpy() for n in (1, 2, 3)]
    inside = keras.Model(
        model.input, [model.get_layer("stage1").output, model.get_layer("stage2").output]
    )
    first, second = map(np.array, inside(rng.normal(size=(2, size, size, 3))))
    np.testing.assert_allclose(second, block_reference(first, kernels), rtol=1e-4, atol=1e-4)
