"""Channels that no block changes go around the blocks, and outputs stay what they were."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_xd
from keras_xd.finalizing.streams import split_streams
from keras_xd.layers import StaticCCNNBlock, StaticCKConv
from keras_xd_tests import sample_models

RELATIVE_ERROR = 1e-6
SIZES = {1: (16,), 2: (6, 8)}


def block(name, widths, rank=1, **kwargs):
    taps = (3,) * rank
    convolution = StaticCKConv(taps, (1,) * rank, data_format="channels_last")
    return StaticCCNNBlock(widths, convolution, name=name, **kwargs)


def residual(rank=1, channels=10, widths=((4, 6, 3), (2, 3, 5)), dense=False, **kwargs):
    """Two blocks and an identity between linear layers."""
    inputs = keras.Input((*SIZES[rank], 2), name="signal")
    x = layers.Dense(channels, name="encoder")(inputs)
    x = block("block1", widths[0], rank, **kwargs)(x)
    x = layers.Identity(name="block2")(x)
    x = block("block3", widths[1], rank, **kwargs)(x)
    if not dense:
        pooling = (layers.GlobalAveragePooling1D, layers.GlobalMaxPooling2D)[rank - 1]
        x = pooling(data_format="channels_last", name="pool")(x)
    return keras.Model(inputs, layers.Dense(3, name="decoder")(x), name="residual")


def data(model, rng, batch=3):
    shape = (batch, *model.input_shape[1:])
    return rng.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("rank", [1, 2])
def test_same_outputs_of_fewer_channels(rank, dense, rng):
    model = sample_models.randomize(residual(rank, dense=dense), rng)
    found = split_streams(model)
    sample_models.assert_same_outputs(model, found, data(model, rng), RELATIVE_ERROR)
    widths = [found.get_layer(f"block{n}").output.shape[-1] for n in (1, 2, 3)]
    assert widths == [5, 5, 5]
    assert [layer.name for layer in model.layers if layer.name not in names(found)] == []
    assert ("pool_others" in names(found)) is not dense
    assert model.get_layer("block1").output.shape[-1] == 10
    assert found.count_params() == model.count_params()


def names(model):
    return [layer.name for layer in model.layers]


def test_what_is_read_in_the_middle_has_all_channels(rng):
    inputs = keras.Input((16, 10))
    first = block("block1", (4, 4, 4))(inputs)
    second = block("block2", (6, 2, 2))(first)
    outputs = [layers.Dense(2)(first), second, layers.GlobalAveragePooling1D()(inputs)]
    model = sample_models.randomize(keras.Model(inputs, outputs), rng)
    found = split_streams(model)
    assert found.get_layer("block1").output.shape[-1] == 6
    x = data(model, rng)
    for before, after in zip(model(x), found(x), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


def shared():
    inputs = keras.Input((16, 10))
    twice = block("twice", (4, 4, 4))
    return keras.Model(inputs, twice(twice(inputs)))


def other_type():
    """The channels beside the block would keep another type than it gives them."""
    inputs = keras.Input((16, 10))
    return keras.Model(inputs, block("block", (4, 4, 4), dtype="float64")(inputs))


def sequential_inside():
    inner = keras.Sequential([keras.Input((16, 10)), block("block", (4, 4, 4))])
    inputs = keras.Input((16, 10))
    return keras.Model(inputs, inner(inputs))


@pytest.mark.parametrize(
    "make",
    [
        lambda: residual(channels=5),
        other_type,
        lambda: keras_xd.models.resnet20((8, 8, 3), 10),
        shared,
        sequential_inside,
    ],
)
def test_nothing_to_split(make):
    model = make()
    assert split_streams(model) is model


@pytest.mark.parametrize("dense", [False, True])
def test_finalized_networks_are_split(dense, tmp_path, rng):
    space = keras_xd.models.ccnn(3, 12, (16, 2), 4, learn="KWD", dense=dense, initial_blocks=2)
    sample_models.randomize(space, rng)
    found = keras_xd.finalize(space)
    assert isinstance(found, keras_xd.finalizing.finalizer.FinalizedModel)
    x = data(space, rng)
    sample_models.assert_same_outputs(space, found, x, 1e-5)
    assert found.get_layer("block1").output.shape[-1] < 12
    assert type(found.get_layer("block3")) is layers.Identity
    found.save(tmp_path / "found.keras")
    again = keras.models.load_model(tmp_path / "found.keras")
    sample_models.assert_same_outputs(found, again, x, RELATIVE_ERROR)
