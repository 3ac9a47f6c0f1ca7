"""Streams that get narrower where their last channels are zero, with the same outputs."""

import keras
import pytest
from keras import layers

import keras_xd
from keras_xd.finalizing.streams import trim_streams
from keras_xd.layers import StaticCCNNBlock, StaticCCNNEncoder, StaticCKConv
from keras_xd_tests import sample_models

RELATIVE_ERROR = 1e-6


def block(name, widths):
    convolution = StaticCKConv((3,), (1,), data_format="channels_last")
    return StaticCCNNBlock(widths, convolution, name=name)


def stream(width, widths=((4, 6, 3), (2, 3, 5)), dense=False, units=10):
    """An encoder of 10 channels, two blocks, an identity and a decoder."""
    inputs = keras.Input((16, 2), name="signal")
    x = StaticCCNNEncoder(units, width, name="encoder")(inputs)
    x = block("block1", widths[0])(x)
    x = layers.Identity(name="block2")(x)
    x = block("block3", widths[1])(x)
    if not dense:
        x = layers.GlobalAveragePooling1D(data_format="channels_last", name="pool")(x)
    return keras.Model(inputs, layers.Dense(3, name="decoder")(x), name="stream")


def data(rng):
    return rng.standard_normal((3, 16, 2)).astype("float32")


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("width, expected", [(7, 7), (5, 5), (3, 5)])
def test_same_outputs_of_fewer_channels(width, expected, dense, rng):
    model = sample_models.randomize(stream(width, dense=dense), rng)
    before = sample_models.fingerprint(model)
    found = trim_streams(model)
    sample_models.assert_same_outputs(model, found, data(rng), RELATIVE_ERROR)
    assert sample_models.fingerprint(model) == before
    names = [layer.name for layer in found.layers]
    assert names == [layer.name for layer in model.layers]
    assert {found.get_layer(n).output.shape[-1] for n in names[1:5]} == {expected}
    assert found.get_layer("decoder").kernel.shape == (expected, 3)
    assert found.get_layer("encoder").width == width
    assert found.count_params() == model.count_params() - 3 * (10 - expected)


def test_streams_without_zeros_stay():
    for model in (stream(10), stream(4, widths=((10, 2, 3), (2, 3, 5)))):
        assert trim_streams(model) is model


@pytest.mark.parametrize("kind", ["output", "addition", "twice", "last axis"])
def test_streams_that_others_read_stay(kind, rng):
    inputs = keras.Input((16, 2))
    x = StaticCCNNEncoder(10, 4)(inputs)
    x = block("block", (3, 3, 3))(x)
    if kind == "addition":
        x = layers.Dense(2)(layers.Add()([x, layers.Dense(10)(inputs)]))
    elif kind == "twice":
        dense = layers.Dense(2)
        x = layers.Add()([dense(x), dense(layers.Dense(10)(inputs))])
    elif kind == "last axis":
        x = layers.Dense(2)(layers.GlobalAveragePooling1D(data_format="channels_first")(x))
    model = keras.Model(inputs, x)
    assert trim_streams(model) is model


def test_a_search_ends_with_a_narrow_stream(tmp_path, rng):
    space = keras_xd.models.ccnn(2, 12, (16, 2), 3, learn="KWDE", seed=0)
    sample_models.randomize(space.get_layer("encoder").linear, rng)
    found = keras_xd.finalize(space)
    assert found.get_layer("block1").output.shape[-1] == 6
    sample_models.assert_same_outputs(space, found, data(rng), 1e-5)
    found.save(tmp_path / "found.keras")
    loaded = keras.models.load_model(tmp_path / "found.keras")
    sample_models.assert_same_outputs(found, loaded, data(rng), RELATIVE_ERROR)
