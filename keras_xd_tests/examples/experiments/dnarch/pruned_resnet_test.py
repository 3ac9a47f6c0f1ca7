"""Small filters are cut, and the narrow network is the one of the budget."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd_tests import example_scripts

pruned = example_scripts.load("experiments.dnarch.pruned_resnet")


def residual(options, width, blocks=2):
    """Return blocks that are named as those of ResNet-20."""
    x = inputs = keras.Input((options.size, options.size, 3))
    x = keras.layers.Conv2D(width, 3, padding="same", name="conv")(x)
    for number in range(1, blocks + 1):
        name = f"stage1_block{number}"
        y = keras.layers.Conv2D(width, 3, padding="same", use_bias=False, name=f"{name}_conv1")(x)
        y = keras.layers.BatchNormalization(name=f"{name}_conv1_normalization")(y)
        y = keras.layers.ReLU(name=f"{name}_relu1")(y)
        y = keras.layers.Conv2D(width, 3, padding="same", use_bias=False, name=f"{name}_conv2")(y)
        x = keras.layers.Add(name=f"{name}_add")([y, x])
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(inputs, keras.layers.Dense(10, name="classifier")(x))


def test_the_smallest_filters_are_cut(tmp_path):
    options, _ = pruned.parse(["--size", "8", "--output", str(tmp_path)])
    model = residual(options, 8)
    small_ones = {"stage1_block1_conv1": [0, 2, 3, 7], "stage1_block2_conv1": [1, 4, 5, 6]}
    for name, filters in small_ones.items():
        kernel = model.get_layer(name).kernel
        values = keras.ops.convert_to_numpy(kernel).copy()
        values[..., filters] = 0  # such channels are 0 behind normalization and ReLU too
        kernel.assign(values)
    small = pruned.cut_filters(model, 0.55 * keras_xd.complexity(model))
    assert [small.get_layer(name).filters for name in small_ones] == [4, 4]
    x = keras.ops.ones((2, 8, 8, 3))
    np.testing.assert_allclose(small(x), model(x), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="one channel in each block.*Received: budget=9"):
        pruned.cut_filters(model, 9)


def test_the_network_is_resnet_20_of_the_width_for_the_budget(tmp_path):
    options, _ = pruned.parse(["--size", "8", "--output", str(tmp_path)])
    found = pruned.narrow(options, 1000.0, 500.0)
    assert found.get_layer("conv").filters == 11  # 16 / √2
    assert [layer.filters for layer in pruned.inner(found)] == 3 * [11] + 3 * [22] + 3 * [44]
