import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_xd
from keras_xd import layers
from keras_xd.layers.xd import functional
from keras_xd.testing import assert_close, check_layer


def moved(layer, shape, rng):
    """Build the layer and move its architecture, so that nothing is a Fourier transform."""
    layer.build(shape)
    for variable in layer.architecture_variables:
        change = rng.standard_normal(variable.shape)
        variable.assign_add(0.05 * change)
    return layer


@pytest.mark.parametrize(
    "layer, shape",
    [
        (layers.XDConv1D(3, 4, padding="causal", depth=3), (2, 300, 2)),
        (layers.XDConv2D(4, 3, strides=2, groups=2, padding="same"), (2, 9, 10, 4)),
        (layers.XDConv2D(3, 3, data_format="channels_first", channel_gates=True), (2, 2, 7, 8)),
        (layers.XDConv3D(2, 2, frequency_bias=True, activation="relu"), (2, 4, 5, 6, 2)),
    ],
    ids=["two groups", "strided", "channels first", "3-D"],
)
def test_same_outputs_as_the_searched_layer(layer, shape, rng):
    moved(layer, shape, rng)
    inputs = rng.standard_normal(shape).astype("float32")
    static = layer.finalize()
    assert_close(np.array(static(inputs)), np.array(layer(inputs)))
    assert static.name == layer.name
    assert static.compute_output_shape(shape) == layer.compute_output_shape(shape)
    assert static.multiply_adds(shape) == layer.complexity(shape)


def test_layer_checks(rng):
    layer = moved(layers.XDConv2D(3, 2, padding="same", strides=2), (4, 5, 6, 2), rng)
    arguments = layer.finalize().get_config()
    del arguments["name"], arguments["dtype"], arguments["trainable"]
    check_layer(layers.StaticXD, arguments, (4, 5, 6, 2))


DATA = pathlib.Path(__file__).parents[2] / "data"


@pytest.mark.parametrize("largest", [2**21, 50])
@pytest.mark.parametrize(
    ("name", "shape"), [("finalized_1d", (2, 12, 2)), ("finalized_2d", (2, 6, 5, 2))]
)
def test_files_that_do_not_tell_the_pieces(name, shape, largest, monkeypatch):
    """Files of the first releases, and the outputs that their models had."""
    monkeypatch.setattr(functional, "LARGEST_PIECE", largest)
    inputs = np.sin(np.arange(np.prod(shape))).reshape(shape).astype("float32")
    model = keras.saving.load_model(DATA / f"{name}.keras")
    assert_close(keras.ops.convert_to_numpy(model(inputs)), np.load(DATA / f"{name}_outputs.npy"))


@pytest.mark.parametrize(
    ("layer_class", "shape", "pieces"),
    [(layers.XDConv1D, (2, 12, 2), [4, 4, 4]), (layers.XDConv2D, (2, 6, 5, 2), [1] * 6)],
)
def test_a_file_keeps_its_pieces(layer_class, shape, pieces, rng, monkeypatch, tmp_path):
    """The limit by which a spectrum is cut is no part of the format."""
    inputs = rng.normal(size=shape).astype("float32")
    space = keras.Sequential([keras.Input(shape[1:]), layer_class(3, 3, padding="circular")])
    monkeypatch.setattr(functional, "LARGEST_PIECE", 64)
    model = keras_xd.finalize(space)
    expected = keras.ops.convert_to_numpy(model(inputs))
    model.save(tmp_path / "model.keras")
    monkeypatch.setattr(functional, "LARGEST_PIECE", 2**21)
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_close(keras.ops.convert_to_numpy(loaded(inputs)), expected)
    static = next(layer for layer in loaded.layers if isinstance(layer, layers.StaticXD))
    assert static.get_config()["pieces"] == pieces
    assert len(static.spectrum) == len(pieces)


def test_pieces_must_add_up():
    layer = layers.XDConv1D(2, 3, padding="circular")
    layer.build((None, 12, 1))
    config = layer.finalize().get_config()
    assert config["pieces"] == [12]
    with pytest.raises(ValueError, match=r"add up .*Received: pieces=\(5, 6\), n=12"):
        layers.StaticXD(**{**config, "pieces": [5, 6]})


@pytest.mark.parametrize("place", ["n", "synthesis", ("analysis", "shapes"), None])
def test_entries_of_axes_are_complete(place):
    layer = layers.XDConv1D(2, 3, padding="circular")
    layer.build((None, 12, 1))
    config = layer.finalize().get_config()
    axis = json.loads(json.dumps(config["axes"][0]))
    if isinstance(place, tuple):
        del axis[place[0]][place[1]]
    elif place:
        del axis[place]
    else:
        axis["analysis"] = [1]
    with pytest.raises(ValueError, match="`axes` must be a list of dictionaries.*shapes.*Received"):
        layers.StaticXD(**{**config, "axes": [axis]})


def test_nothing_depends_on_weights_alone():
    """Every operation of the graph but reading a weight has the input among its ancestors."""
    layer = layers.XDConv2D(3, 3, padding="same", depth=3)
    layer.build((None, 8, 8, 2))
    static = layer.finalize()
    traced = tf.function(static, autograph=False)
    graph = traced.get_concrete_function(tf.TensorSpec((None, 8, 8, 2))).graph
    from_input = {graph.inputs[0].name}
    free = {"ReadVariableOp", "Const", "Placeholder", "NoOp"}
    reshaped = {"Identity", "Reshape", "Pack", "ConcatV2", "Shape", "StridedSlice"}
    for operation in graph.get_operations():
        names = {tensor.name for tensor in operation.inputs}
        if names & from_input:
            from_input |= {tensor.name for tensor in operation.outputs}
        elif operation.type not in free | reshaped:
            raise AssertionError(f"{operation.type} works on weights alone: {operation.name}")
    types = {operation.type for operation in graph.get_operations()}
    assert not any("FFT" in kind for kind in types)


def test_wrong_size_is_refused(rng):
    layer = layers.XDConv1D(2, 3)
    layer.build((None, 10, 2))
    static = layer.finalize()
    with pytest.raises(ValueError, match="expected axis 1 of input shape to have value 10"):
        static(np.zeros((1, 12, 2), "float32"))


def test_training_weights_keep_their_flags():
    layer = layers.XDConv1D(2, 3, trainable=False)
    layer.build((None, 10, 2))
    static = layer.finalize()
    assert not static.trainable_variables
    model = keras.Sequential([keras.Input((10, 2)), static])
    assert model.count_params() == sum(int(np.prod(w.shape)) for w in static.weights)
