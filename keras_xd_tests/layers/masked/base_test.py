"""What all masked layers have in common: parts that layers share, sizes, what they become."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd.layers import MaskedConv1D, MaskedConv2D, MaskedDense
from keras_xd.layers.masked.relative_mask import RelativeMask
from keras_xd.testing import assert_close


def chain(**options):
    """Two convolutions with a mask of the channels between them, and one of the depth."""
    width, depth = RelativeMask(name="width"), RelativeMask(temperature=8.0, name="depth")
    shared = {"depth_mask": depth, "block": (1, 3)}
    inputs = keras.Input((8, 2))
    x = MaskedConv1D(6, 5, output_width=width, mask_kernel=True, name="first", **shared)(inputs)
    x = keras.layers.ReLU()(x)
    x = MaskedConv1D(3, 1, input_width=width, name="second", **options)(x)
    return keras.Model(inputs, x)


def lengths(model, kernel, width, depth):
    first = model.get_layer("first")
    first.kernel_mask.length.assign([kernel])
    first.output_width.length.assign([width])
    first.depth_mask.length.assign([depth])
    return first, model.get_layer("second")


def test_multiply_adds_by_hand():
    model = chain()
    first, second = lengths(model, 0.3, 0.2, -0.1)
    taps = 5 * 0.3 * np.sqrt(-2 * np.log(0.1))
    channels = 6 * (0.2 + np.log(9) / 25 + 1) / 2
    share = np.clip(3 * (-0.1 + np.log(9) / 8 + 1) / 2 - 1, 0, 1)
    assert 0 < share < 1
    # What is left: 3 of 5 taps, 4 of 6 channels, the second of three blocks.
    by_hand = 4 * 3 * 2 * 4 * 1, 4 * 4 * 3
    np.testing.assert_allclose(first.complexity((None, 8, 2)), by_hand[0], rtol=1e-5)
    np.testing.assert_allclose(second.complexity((None, 4, 6)), by_hand[1], rtol=1e-5)
    np.testing.assert_allclose(keras_xd.complexity(model), sum(by_hand), rtol=1e-5)
    described = keras_xd.describe(model)
    np.testing.assert_allclose(described["first"]["kernel_size/0"], taps, rtol=1e-5)
    np.testing.assert_allclose(described["first"]["output_channels"], channels, rtol=1e-5)
    np.testing.assert_allclose(described["second"]["input_channels"], channels, rtol=1e-5)
    np.testing.assert_allclose(described["first"]["gate"], share, rtol=1e-5)
    assert described["first"]["taps/0"] == 3


def test_counts_have_the_gradients_of_the_sizes():
    model = chain()
    first, second = lengths(model, 0.3, 0.2, -0.1)
    masks = [first.kernel_mask, first.output_width, first.depth_mask]
    with tf.GradientTape() as tape:
        count = keras_xd.complexity(model)
    found = tape.gradient(count, [mask.length.value for mask in masks])
    of_taps, of_channels = 5 * np.sqrt(-2 * np.log(0.1)), 6 / 2
    expected = [4 * 2 * 4 * of_taps, (4 * 3 * 2 + 4 * 3) * of_channels, 4 * 3 * 2 * 4 * 3 / 2]
    np.testing.assert_allclose(np.ravel(found), expected, rtol=1e-5)


def test_masks_multiply_the_kernel(rng):
    model = chain()
    first, second = lengths(model, 0.4, 0.2, 1.0)
    x = rng.standard_normal((2, 8, 2)).astype("float32")
    taps = np.exp(-((np.linspace(-1, 1, 5) / 0.4) ** 2) / 2)
    begin = np.exp(np.linspace(-1, 1, 5) ** 2 * np.log(0.85))
    taps = np.where(taps < 0.1, 0, taps / begin)
    kernel = np.asarray(first.kernel) * taps[:, None, None]
    windows = np.stack([x[:, i : i + 5] for i in range(4)], axis=1)
    hidden = np.maximum(np.einsum("nokc,kcf->nof", windows, kernel) + np.asarray(first.bias), 0)
    points, start = np.linspace(-1, 1, 6), 1 + np.log(0.85 / 0.15) / 25
    channels = (1 + np.exp(25 * (points - start))) / (1 + np.exp(25 * (points - 0.2)))
    channels = np.where(1 / (1 + np.exp(25 * (points - 0.2))) < 0.1, 0, channels)
    assert np.count_nonzero(taps) == 3 and np.count_nonzero(channels) == 4
    expected = (hidden * channels) @ np.asarray(second.kernel)[0] + np.asarray(second.bias)
    assert_close(np.asarray(model(x)), expected.astype("float32"))


def test_parts_stay_shared_in_copies_and_files(tmp_path, rng):
    model = chain()
    lengths(model, 0.4, 0.2, -0.1)
    model.save(tmp_path / "model.keras")
    x = rng.standard_normal((2, 8, 2)).astype("float32")
    for copy in (keras.models.load_model(tmp_path / "model.keras"), keras_xd.resize(model, (9, 2))):
        first, second = copy.get_layer("first"), copy.get_layer("second")
        assert first.output_width is second.input_width
        names = [variable.name for variable in keras_xd.architecture_variables(copy)]
        assert sorted(names) == ["offset", "offset", "width"]
        assert first.block == (1, 3)
        assert_close(
            np.asarray(first.masked_kernel), np.asarray(model.get_layer("first").masked_kernel)
        )
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(x), model(x))


def test_trimmed_for_some_channels(rng):
    layer = MaskedConv2D(4, 3, padding="same", mask_kernel=True, name="conv")
    x = rng.standard_normal((1, 5, 5, 3)).astype("float32")
    layer(x)
    layer.bias.assign(rng.standard_normal(4))
    layer.kernel_mask.length.assign([0.2, 0.9])
    layer.bias.trainable = False
    around, plain = layer.trimmed(x.shape, np.array([0, 2]), np.array([1, 3]), scale=0.5)
    x[..., 1] = 0
    assert not around and plain.kernel_size == (1, 3) and not plain.bias.trainable
    assert_close(np.asarray(plain(x[..., [0, 2]])), 0.5 * np.asarray(layer(x))[..., [1, 3]])


def test_finalized_alone_it_keeps_taps_that_padding_needs(rng):
    x = rng.standard_normal((1, 9, 2)).astype("float32")
    for padding, taps in (("same", 3), ("valid", 5)):
        layer = MaskedConv1D(2, 5, padding=padding, mask_kernel=True)
        expected = layer(x)
        layer.kernel_mask.length.assign([0.3])
        assert not np.allclose(expected, layer(x))
        plain = layer.finalize()
        assert type(plain) is keras.layers.Conv1D and plain.kernel_size == (taps,)
        assert_close(np.asarray(plain(x)), np.asarray(layer(x)))


def test_float64_is_kept(rng):
    layer = MaskedConv1D(2, 5, mask_kernel=True, dtype="float64")
    x = rng.standard_normal((1, 9, 2))
    layer(x)
    layer.kernel_mask.length.assign([0.3])
    layer.bias.assign(rng.standard_normal(2))
    np.testing.assert_allclose(layer.finalize()(x), layer(x), rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_width": 3}, "`input_width` must be a RelativeMask or None. Received: input_wi"),
        ({"block": (0, 2)}, "`block` must be the number of a block.*depth_mask=None"),
        ({"depth_mask": RelativeMask()}, "`block` must be the number of a block.*block=None"),
        ({"initial_value": 2}, r"`initial_value` must be a number in \[0.1, 0.85\]"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        MaskedConv1D(2, 3, mask_kernel=True, **options)


def test_a_mask_of_another_size_is_refused():
    width = RelativeMask()
    MaskedDense(4, output_width=width).build((None, 2))
    with pytest.raises(ValueError, match="of 4 points for an axis of 5"):
        MaskedDense(4, input_width=width).build((None, 5))
