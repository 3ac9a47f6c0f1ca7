import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.layers.xd.warm_starts import FourierOperator
from keras_xd.testing import assert_close, check_layer

# Layers of every kind and the shape of their inputs: one and several groups of blocks, strides,
# channels in groups and first, frequency bias and gates, three axes, transposed and causal ones.
CASES = {
    "1-D": (lambda: layers.XDConv1D(3, 4, padding="causal", depth=3), (2, 300, 2)),
    "1-D, depth 1": (lambda: layers.XDConv1D(3, 5, padding="same"), (2, 1024, 2)),
    "strided": (lambda: layers.XDConv2D(4, 3, strides=2, groups=2, padding="same"), (2, 9, 10, 4)),
    "2-D": (lambda: layers.XDConv2D(3, 3, padding="same", activation="relu"), (2, 32, 32, 2)),
    "2-D, depth 3": (lambda: layers.XDConv2D(3, 3, padding="same", depth=3), (2, 32, 32, 2)),
    "2-D, several groups": (lambda: layers.XDConv2D(2, 3, depth=2), (2, 8, 200, 2)),
    "gates": (
        lambda: layers.XDConv2D(3, 3, data_format="channels_first", channel_gates=True),
        (2, 2, 7, 8),
    ),
    "bias and gates": (
        lambda: layers.XDConv2D(3, 3, frequency_bias=True, channel_gates=True),
        (2, 7, 8, 2),
    ),
    "3-D": (lambda: layers.XDConv3D(2, 2, frequency_bias=True), (2, 8, 5, 6, 2)),
    "depthwise": (lambda: layers.XDDepthwiseConv2D(3, depth_multiplier=2), (2, 9, 8, 3)),
    "transposed": (lambda: layers.XDConv2DTranspose(3, 3, strides=2, padding="same"), (2, 6, 5, 2)),
    "triangular": (lambda: layers.XDCausalConv1D(3, 2, depth=2), (2, 20, 2)),
    "K-operation": (lambda: layers.KOpConv2D(3, 3, padding="circular", depth=2), (2, 12, 12, 2)),
    "Fourier": (
        lambda: layers.XDConv1D(3, 9, padding="circular", warm_start=FourierOperator()),
        (2, 64, 2),
    ),
}


FORMS = {
    "spectrum": layers.StaticXD,
    "kernel": layers.StaticKernelXD,
    "low_rank": layers.StaticLowRankXD,
}


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


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_those_of_the_searched_layer_and_sizes_as_forecast(name, rng):
    layer, shape = moved(name, rng)
    inputs = rng.standard_normal(shape).astype("float32")
    static = layer.finalize("kernel")
    assert type(static) is layers.StaticKernelXD and static.name == layer.name
    assert_close(np.array(static(inputs)), np.array(layer(inputs)))
    assert static.compute_output_shape(shape) == layer.compute_output_shape(shape)
    again = layers.StaticKernelXD.from_config(static.get_config())
    again.build(shape)
    again.set_weights(static.get_weights())
    assert_close(np.array(again(inputs)), np.array(static(inputs)))
    # The columns of `L` along a kernel longer than all radices together are more than its stages.
    assert static.count_params() <= layer.count_params()

    # What is forecast are the sizes of both forms.
    whole = layer.finalize("spectrum")
    for keep, form in (("spectrum", whole), ("kernel", static)):
        sizes = layer.finalized_sizes(shape, keep)
        assert sizes.keep == keep
        assert sizes.parameters == form.count_params()
        assert sizes.multiply_adds == form.multiply_adds(shape)
        assert sizes.forming == (form.forming_multiply_adds() if keep == "kernel" else 0)
    chosen = layer.finalized_sizes(shape, "auto")
    assert chosen == layer.finalized_sizes(shape, chosen.keep)


@pytest.mark.parametrize("storage, bound", [("float16", 2e-3), ("bfloat16", 2e-2)])
@pytest.mark.parametrize("keep", ["spectrum", "kernel", "low_rank"])
def test_half_precision_is_stored_and_float32_computed(keep, storage, bound, rng, tmp_path):
    tolerance = 0.1 if keep == "low_rank" else None
    layer, shape = moved("2-D" if keep == "low_rank" else "2-D, depth 3", rng)
    inputs = rng.standard_normal(shape).astype("float32")
    static = layer.finalize(keep, storage, tolerance)
    whole = layer.finalize(keep, tolerance=tolerance)
    assert type(static) is FORMS[keep]
    expected = np.array(whole(inputs))
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


def test_numbers_beyond_float16_are_refused(rng):
    layer, _ = moved("2-D", rng)
    layer.kernel.assign(layer.kernel * 1e6)
    layer.finalize("kernel", "bfloat16")
    with pytest.raises(ValueError, match=r"larger than 65504.*storage='float16'"):
        layer.finalize("kernel", "float16")


@pytest.mark.parametrize(
    "arguments, message",
    [({"form": "all"}, "form='all'"), ({"storage": "int8"}, "storage='int8'")],
)
def test_unknown_forms_are_refused(arguments, message, rng):
    layer, _ = moved("gates", rng)
    with pytest.raises(ValueError, match=message):
        layer.finalize(**arguments)


def test_layer_checks(rng):
    layer, shape = moved("2-D", rng)
    arguments = layer.finalize("kernel").get_config()
    for name in ("name", "dtype", "trainable"):
        del arguments[name]
    check_layer(layers.StaticKernelXD, arguments, shape)


def test_the_kernel_is_trained_further(rng):
    static = moved("2-D", rng)[0].finalize("kernel")
    assert static.trainable_weights == [static.kernel, static.bias]
