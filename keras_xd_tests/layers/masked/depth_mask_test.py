import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd.layers.masked import masks
from keras_xd.layers.masked.depth_mask import DepthMask, StaticDepthMask


def built(blocks, size=None, **kwargs):
    mask = DepthMask(blocks, **kwargs)
    mask.build((None, blocks))
    if size is not None:
        mask.length.assign([masks.sigmoid_offset(0.1, 2 * size / blocks - 1, mask.temperature)])
    return mask


def test_a_search_begins_with_half_of_the_blocks():
    mask = built(8)
    values = [float(mask.value(index)) for index in range(8)]
    assert np.count_nonzero(values) == 4 and values == sorted(values, reverse=True)
    assert float(mask.sizes[0]) == pytest.approx(4, rel=1e-5)
    # The coordinates of 8 blocks are 2/7 apart, and the mask falls to 0.1 at 0.
    expected = 1 - 1 / (1 + np.exp(-8.0 * (-1 / 7 + np.log(9) / 8)))
    assert values[3] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("size", [2.57, 4.3, 7.9])
def test_shares_sum_to_the_size(size):
    mask = built(8, size)
    shares = [float(mask.gate(index)) for index in range(8)]
    np.testing.assert_allclose(shares, np.clip(size - np.arange(8), 0, 1), atol=1e-5)
    assert sum(shares) == pytest.approx(size, rel=1e-5)


@pytest.mark.parametrize("size, moving", [(4.3, 4), (8.0, 7), (8.4, 7)])
def test_the_slope_is_that_of_the_size_in_one_block(size, moving):
    """Also beyond all blocks, so that a full network can shrink."""
    mask = built(8, size)
    slopes = []
    for index in range(8):
        with tf.GradientTape() as tape:
            share = mask.gate(index)
        slopes.append(float(tape.gradient(share, mask.length.value)[0]))
    # d size / d offset = 8 / 2.
    np.testing.assert_allclose(slopes, [4.0 * (index == moving) for index in range(8)])


def test_a_model_shares_it_and_is_finalized(tmp_path, rng):
    x = rng.normal(size=(2, 3)).astype("float32")
    depth, inputs = DepthMask(2, initial_size=1.5, name="depth"), keras.Input((3,))
    y = inputs
    for index in range(2):
        y = y + depth(keras.layers.Dense(3)(y), index=index)
    model = keras.Model(inputs, y)
    assert [v.path for v in keras_xd.architecture_variables(model)] == ["depth/offset"]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(x), model(x), atol=1e-6)
    plain = keras_xd.finalize(model)
    assert type(plain.get_layer("depth")) is StaticDepthMask
    np.testing.assert_allclose(plain(x), model(x), atol=1e-6)
    assert keras_xd.complexity(model) == 2 * 3 + 2 * 9
    assert not plain.get_layer("depth").trainable_variables


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"blocks": 0}, "blocks=0"),
        ({"blocks": 1}, "`blocks` must be an integer.*Received: blocks=1"),
        ({"blocks": 4, "temperature": 2.0}, "temperature=2.0, which takes 1.285"),
    ],
)
def test_bad_arguments_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        DepthMask(**kwargs)


def test_bad_sizes_and_numbers_are_refused():
    with pytest.raises(ValueError, match="from 2.571 to 8 of 8 points. Received: initial_size=2"):
        built(8, initial_size=2)
    for index in (4, -1, 1.0):
        with pytest.raises(ValueError, match=f"from 0 to 3. Received: index={index}, blocks=4"):
            built(4).value(index)
