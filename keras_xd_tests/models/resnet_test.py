"""ResNet-20: sizes by hand, names, shortcuts, files, bad arguments."""

import keras
import numpy as np
import pytest

from keras_xd import models


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    return models.resnet20((32, 32, 3), 10)


def convolutions(model):
    return [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]


def test_parameters(model):
    kernels = 9 * (3 * 16 + 6 * 16 * 16 + 16 * 32 + 5 * 32 * 32 + 32 * 64 + 5 * 64 * 64)
    channels = 7 * 16 + 6 * 32 + 6 * 64
    trainable = sum(int(np.prod(v.shape)) for v in model.trainable_variables)
    assert trainable == kernels + 2 * channels + 65 * 10 == 269_722
    assert model.count_params() == trainable + 2 * channels


@pytest.mark.parametrize("size", [12, 13])
def test_shortcut_takes_every_second_pixel_and_pads_channels(rng, size):
    """With all convolutions zero, blocks are ReLU of their shortcut."""
    model = models.resnet20((size, size, 3), 10)
    inside = keras.Model(
        model.input,
        [model.get_layer("conv_relu").output, model.get_layer("stage2_block1_relu2").output],
    )
    for layer in convolutions(model)[1:]:
        layer.kernel.assign(np.zeros(layer.kernel.shape))
    first, second = map(np.array, inside(rng.normal(size=(2, size, size, 3))))
    assert second.shape == (2, (size + 1) // 2, (size + 1) // 2, 32)
    np.testing.assert_array_equal(second[..., 8:24], first[:, ::2, ::2])
    assert not second[..., :8].any() and not second[..., 24:].any()


def test_strided_convolution_is_centred_on_the_shortcut_pixels(rng):
    model = models.resnet20((12, 12, 3), 10)
    layer = model.get_layer("stage2_block1_conv1")
    kernel = np.zeros((3, 3, 16, 32))
    kernel[1, 1] = np.eye(16, 32)
    layer.kernel.assign(kernel)
    inside = keras.Model(model.input, [model.get_layer("stage1_block3_relu2").output, layer.output])
    before, after = map(np.array, inside(rng.normal(size=(2, 12, 12, 3))))
    np.testing.assert_array_equal(after[..., :16], before[:, ::2, ::2])


def filters(model):
    return [model.get_layer(f"stage{n}_block1_conv1").filters for n in (1, 2, 3)]


def test_an_odd_width_pads_one_channel_more_behind():
    model = models.resnet20((4, 4, 3), 10, width=3)
    assert filters(model) == [3, 6, 12]
    before, after = (model.get_layer(f"stage{n}_block{m}_relu2") for n, m in ((1, 3), (2, 1)))
    model.get_layer("stage2_block1_conv2_normalization").gamma.assign([0.0] * 6)
    found = keras.Model(model.input, [before.output, after.output])(keras.ops.ones((1, 4, 4, 3)))
    x, y = map(keras.ops.convert_to_numpy, found)
    np.testing.assert_array_equal(y[..., 1:4], x[:, ::2, ::2])
    assert not y[..., :1].any() and not y[..., 4:].any()
