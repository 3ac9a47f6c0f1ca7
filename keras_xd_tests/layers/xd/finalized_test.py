"""The finalized forms of an XD-operation, of which `finalized_low_rank_test` checks the third."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import keras_xd
from keras_xd import layers
from keras_xd.layers.xd import functional
from keras_xd.layers.xd.finalized import StaticOperation
from keras_xd.testing import assert_close, check_layer

# Layers of every kind and the shape of their inputs: one and several groups of blocks, strides,
# channels in groups and first, frequency bias and gates, three axes, transposed and causal ones.
CASES = {
    "1-D": (lambda: layers.XDConv1D(3, 4, padding="causal", depth=3), (2, 300, 2)),
    "strided": (lambda: layers.XDConv2D(4, 3, strides=2, groups=2, padding="same"), (2, 9, 10, 4)),
    "2-D": (lambda: layers.XDConv2D(3, 3, padding="same", activation="relu"), (2, 32, 32, 2)),
    "2-D, several groups": (lambda: layers.XDConv2D(2, 3, depth=2), (2, 8, 200, 2)),
    "gates": (
        lambda: layers.XDConv2D(3, 3, data_format="channels_first", frequency_bias=False),
        (2, 2, 7, 8),
    ),
    "bias and gates": (
        lambda: layers.XDConv2D(3, 3, frequency_bias=True, channel_gates=True),
        (2, 7, 8, 2),
    ),
    "3-D": (lambda: layers.XDConv3D(2, 2, channel_gates=False), (2, 8, 5, 6, 2)),
    "depthwise": (lambda: layers.XDDepthwiseConv2D(3, depth_multiplier=2), (2, 9, 8, 3)),
    "transposed": (lambda: layers.XDConv2DTranspose(3, 3, strides=2, padding="same"), (2, 6, 5, 2)),
    "triangular": (lambda: layers.XDCausalConv1D(3, 2, depth=2), (2, 20, 2)),
    "K-operation": (lambda: layers.KOpConv2D(3, 3, padding="circular", depth=2), (2, 12, 12, 2)),
    "Fourier": (
        lambda: layers.XDConv1D(3, 9, padding="circular", warm_start="fourier_operator"),
        (2, 64, 2),
    ),
}
FORMS = {
    "spectrum": layers.StaticXD,
    "kernel": layers.StaticKernelXD,
    "low_rank": layers.StaticLowRankXD,
}
every_form = pytest.mark.parametrize("keep", FORMS)


def moved(name, rng):
    """Return a built layer whose architecture has moved, and the shape of its inputs."""
    make, shape = CASES[name]
    layer = make()
    layer.build(shape)
    for variable in layer.architecture_variables:
        scale = 0.05 * float(np.std(variable)) + 0.01
        variable.assign_add(scale * rng.standard_normal(variable.shape))
    if layer.use_bias:
        layer.bias.assign(rng.standard_normal(layer.bias.shape))
    return layer, shape


def own_arguments(static):
    """Return the arguments that a finalized layer has beyond those of every layer."""
    config = static.get_config()
    return {name: config[name] for name in config.keys() - {"name", "dtype", "trainable"}}


def circular(**options):
    layer = layers.XDConv1D(2, 3, padding="circular", **options)
    layer.build((None, 12, 1))
    return layer


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_those_of_the_searched_layer_and_sizes_as_forecast(name, rng):
    layer, shape = moved(name, rng)
    inputs = rng.standard_normal(shape).astype("float32")
    expected = np.array(layer(inputs))
    for keep in ("spectrum", "kernel"):
        static = layer.finalize(keep)
        assert type(static) is FORMS[keep] and static.name == layer.name
        assert_close(np.array(static(inputs)), expected)
        assert static.compute_output_shape(shape) == layer.compute_output_shape(shape)
        again = type(static).from_config(static.get_config())
        again.build(shape)
        again.set_weights(static.get_weights())
        np.testing.assert_array_equal(again(inputs), static(inputs))
        sizes = layer.finalized_sizes(shape, keep)
        assert sizes.form == keep
        assert sizes.parameters == static.count_params()
        assert sizes.multiply_adds == static.multiply_adds(shape)
        assert sizes.forming == (static.forming_multiply_adds() if keep == "kernel" else 0)
    assert static.count_params() <= layer.count_params()
    assert layer.finalize().multiply_adds(shape) == layer.complexity(shape)
    chosen = layer.finalized_sizes(shape, "auto")
    assert chosen == layer.finalized_sizes(shape, chosen.form)


@pytest.mark.parametrize("storage, bound", [("float16", 2e-3), ("bfloat16", 2e-2)])
@every_form
def test_half_precision_is_stored_and_float32_computed(keep, storage, bound, rng, tmp_path):
    tolerance = 0.1 if keep == "low_rank" else None
    layer, shape = moved("2-D", rng)
    inputs = rng.standard_normal(shape).astype("float32")
    static = layer.finalize(keep, storage, tolerance)
    assert type(static) is FORMS[keep]
    expected = np.array(layer.finalize(keep, tolerance=tolerance)(inputs))
    outputs = static(inputs)
    assert keras.backend.standardize_dtype(outputs.dtype) == "float32"
    error = np.max(np.abs(np.array(outputs) - expected)) / np.max(np.abs(expected))
    assert 0 < error < bound
    stored = [w for w in static.weights if w is not static.bias]
    assert {keras.backend.standardize_dtype(w.dtype) for w in stored} == {storage}
    assert static.trainable_weights == [static.bias]
    model = keras.Sequential([keras.Input(shape[1:]), static])
    model.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    np.testing.assert_array_equal(np.array(loaded(inputs)), np.array(model(inputs)))


@every_form
def test_numbers_beyond_float16_are_refused(keep, rng):
    layer, _ = moved("2-D", rng)
    layer.kernel.assign(layer.kernel * 1e6)
    layer.finalize(keep, "bfloat16", 0.1 if keep == "low_rank" else None)
    with pytest.raises(ValueError, match=r"larger than 65504.*weight_dtype='float16'"):
        layer.finalize(keep, "float16")


@every_form
def test_all_forms_take_over_what_the_layer_is(keep, rng):
    options = {"name": "conv", "trainable": False, "activity_regularizer": "l2"}
    layer = layers.XDConv2D(4, 3, padding="same", groups=2, activation="relu", **options)
    layer.build((None, 16, 16, 2))
    layer.bias.assign(rng.normal(size=4))
    static = layer.finalize(keep)
    assert type(static) is FORMS[keep] and isinstance(static, StaticOperation)
    np.testing.assert_array_equal(*map(ops.convert_to_numpy, (static.bias, layer.bias)))
    assert not static.trainable_variables and static.activity_regularizer is not None
    assert (static.channels, static.filters, static.groups) == (2, 4, 2)
    assert static.activation is layer.activation and static.name == "conv"
    with pytest.raises(ValueError, match="32|17"):
        static(np.zeros((1, 16, 17, 2), "float32"))
    assert circular(use_bias=False).finalize(keep).bias is None


@every_form
def test_what_the_search_has_found_is_not_reset(keep):
    space = keras.Sequential([keras.Input((16, 16, 2)), layers.XDConv2D(4, 3, padding="same")])
    with pytest.raises(ValueError, match="finalized layer"):
        keras_xd.reset_weights(keras_xd.finalize(space, form=keep))


@pytest.mark.parametrize("keep, name", [("spectrum", "strided"), ("kernel", "bias and gates")])
def test_layer_checks(keep, name, rng):
    layer, shape = moved(name, rng)
    static = layer.finalize(keep)
    if keep == "kernel":
        assert static.trainable_weights == [static.kernel, static.bias]
    check_layer(FORMS[keep], own_arguments(static), shape, run_jit=keep == "kernel")


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
    assert_close(ops.convert_to_numpy(model(inputs)), np.load(DATA / f"{name}_outputs.npy"))


@pytest.mark.parametrize(
    ("layer_class", "shape", "pieces"),
    [(layers.XDConv1D, (2, 12, 2), [4, 4, 4]), (layers.XDConv2D, (2, 6, 5, 2), [1] * 6)],
)
def test_a_file_keeps_its_pieces(layer_class, shape, pieces, rng, monkeypatch, tmp_path):
    """The limit by which a spectrum is cut is no part of the format."""
    inputs = rng.normal(size=shape).astype("float32")
    space = keras.Sequential([keras.Input(shape[1:]), layer_class(3, 3, padding="circular")])
    monkeypatch.setattr(functional, "LARGEST_PIECE", 64)
    model = keras_xd.finalize(space, form="spectrum")
    expected = ops.convert_to_numpy(model(inputs))
    model.save(tmp_path / "model.keras")
    monkeypatch.setattr(functional, "LARGEST_PIECE", 2**21)
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_close(ops.convert_to_numpy(loaded(inputs)), expected)
    static = next(layer for layer in loaded.layers if isinstance(layer, layers.StaticXD))
    assert static.get_config()["pieces"] == tuple(pieces)
    assert len(static.spectrum) == len(pieces)


@pytest.mark.parametrize("place", ["n", "synthesis", ("analysis", "shapes"), None])
def test_entries_of_axes_are_complete(place):
    config = circular().finalize().get_config()
    axis = json.loads(json.dumps(config["axes"][0]))
    if isinstance(place, tuple):
        del axis[place[0]][place[1]]
    elif place:
        del axis[place]
    else:
        axis["analysis"] = [1]
    with pytest.raises(ValueError, match="`axes` must be a list of dictionaries.*shapes.*Received"):
        layers.StaticXD(**{**config, "axes": [axis]})


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: circular().finalize("all"), "form='all'"),
        (lambda: circular().finalize(weight_dtype="int8"), "storage='int8'"),
        (lambda: circular().finalize(tolerance=0.1), r"form=\"low_rank\".*=0.1, form='spectrum'"),
        (lambda: circular().finalize("kernel", tolerance=0.1), "form='kernel'"),
        (lambda: circular().finalized_sizes((None, 12, 1), "both"), "form='both'"),
        *(
            (lambda tolerance=t: circular().finalize("low_rank", None, tolerance), f"tolerance={t}")
            for t in (0, 1.0, float("nan"))
        ),
        (lambda: circular().finalize("low_rank", None, "0.1"), "tolerance='0.1'"),
        (
            lambda: layers.StaticXD(**{**circular().finalize().get_config(), "pieces": [5, 6]}),
            r"add up .*Received: pieces=\(5, 6\), n=12",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_nothing_depends_on_weights_alone():
    """Every operation of the graph but reading a weight has the input among its ancestors."""
    layer = layers.XDConv2D(3, 3, padding="same", depth=3)
    layer.build((None, 8, 8, 2))
    traced = tf.function(layer.finalize(), autograph=False)
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
