"""The wider LeNet: sizes by hand, what is tied, bad arguments."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import models


def test_parameters_and_shapes():
    model = models.wide_lenet((32, 32, 3), 10)
    convolutions = (9 * 3 + 1) * 32 + (9 * 32 + 1) * 64 + (9 * 64 + 1) * 128
    normalizations = 4 * (32 + 64 + 128 + 128)
    dense = (8 * 8 * 128 + 1) * 128 + 129 * 10
    assert model.count_params() == convolutions + normalizations + dense == 1_144_650
    assert model.output_shape == (None, 10)
    for name in ("conv2", "conv3"):  # of one size, so that one operation fits both
        assert model.get_layer(name).input.shape[1:3] == (16, 16)
        assert model.get_layer(name).output.shape[1:3] == (16, 16)


def test_the_order_of_layers():
    names = [layer.name for layer in models.wide_lenet((8, 8, 1), 2).layers]
    assert names[1:9] == [
        *("conv1", "normalization1", "pool1", "conv2", "normalization2", "conv3"),
        *("normalization3", "pool3"),
    ]
    assert names[9:] == ["flatten", "dense1", "normalization4", "classifier"]


@pytest.mark.parametrize("start", ["convolution", "random_unitary"])
def test_tied_operations(start, rng):
    model = models.wide_lenet((8, 8, 3), 4, filters=(2, 3, 4), units=5)
    shared = keras_xd.layers.KOperation(depth=1, warm_start=start)
    space = keras_xd.rewrite(model, "k_operation", only=["conv2", "conv3"], operation=shared)
    second, third = space.get_layer("conv2"), space.get_layer("conv3")
    for one, other in zip(second.architecture_variables, third.architecture_variables, strict=True):
        assert one is other
    assert len(keras_xd.architecture_variables(space)) == 6
    inputs = rng.normal(size=(2, 8, 8, 3)).astype("float32")
    same = np.allclose(space(inputs), model(inputs), atol=1e-4)
    assert same == (start == "convolution")


def test_reloads(tmp_path, rng):
    model = models.wide_lenet((8, 8, 1), 3, filters=(2, 2, 2), units=4)
    inputs = rng.normal(size=(2, 8, 8, 1)).astype("float32")
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(restored(inputs), model(inputs))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_shape": (28, 28)}, "Received: input_shape="),
        ({"input_shape": (3, 28, 1)}, r"Received: input_shape=\(3, 28, 1\)"),
        ({"classes": 0}, "Received: classes=0"),
        ({"filters": (2, 2)}, r"Received: filters=\(2, 2\)"),
        ({"units": 0}, "Received: units=0"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        models.wide_lenet(**{"input_shape": (8, 8, 1), "classes": 3, **options})
