import math

import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.layers.ccnn import margins


def model_of(rendering, network):
    inputs = keras.Input((16, 2))
    x = layers.CKConv1D(
        network, rendering=rendering, learn_resolution=True, padding="circular", seed=2
    )(inputs)
    x = layers.FourierUpsampling(16)(x)
    return keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="ones")(x))


def test_a_model_trains_on_what_lies_under_its_masks(rng):
    network = layers.KernelNetwork(units=4, features=4, seed=1)
    x, y = (rng.normal(size=(4, 16, n)).astype("float32") for n in (2, 1))
    losses = {}
    for rendering in ("static", "dynamic"):
        model = model_of(rendering, network.from_config(network.get_config()))
        conv = model.layers[1]
        eager = rendering == "static"  # which needs no graphs to be made again
        model.compile(keras.optimizers.SGD(1e-3), "mse", run_eagerly=eager)
        model.fit(x, y, verbose=0)
        conv.resolution_mask.length.assign([-0.3])
        assert layers.ccnn.rendering.update_rendering(model) == (rendering == "dynamic")
        assert not layers.ccnn.rendering.update_rendering(model)
        history = model.fit(x, y, verbose=0)
        losses[rendering] = [*history.history["loss"], model.evaluate(x, y, verbose=0)]
        outputs = conv(x)
        assert outputs.shape[1] == 16 if rendering == "static" else outputs.shape[1] < 12
        np.testing.assert_allclose(model.predict(x, verbose=0), model(x), atol=1e-5)
    np.testing.assert_allclose(losses["static"], losses["dynamic"], rtol=1e-5)


def test_dynamic_rendering_under_xla_is_refused():
    model = model_of("dynamic", layers.KernelNetwork(units=4, features=4))
    model.compile("sgd", "mse", jit_compile=True)
    with pytest.raises(ValueError, match="jit_compile=True.*16"):
        layers.ccnn.rendering.update_rendering(model)
    static = model_of("static", layers.KernelNetwork(units=4, features=4))
    static.compile("sgd", "mse", jit_compile=True)
    assert not layers.ccnn.rendering.update_rendering(static)


def test_a_margin_gives_masks_room_and_changes_no_output(rng):
    arguments = {"learn": "KW", "kernel_size": 33, "initial_kernel_size": 5, "seed": 2}
    x = rng.normal(size=(2, 40, 24)).astype("float32")
    outputs, taps = {}, {}
    for name, margin in (("static", None), ("tight", 0.0), ("wide", 0.5)):
        rendering = "static" if margin is None else "dynamic"
        network = layers.KernelNetwork(units=4, features=4, seed=1)
        block = layers.CCNNBlock(network, rendering=rendering, initial_width=9, **arguments)
        block.build(x.shape)
        layers.ccnn.rendering.update_rendering(block, margin or 0.0)
        if margin is not None:
            sizes = block.convolution.kernel.shape[0], block(x).shape, block._counts
            room = {0.0: (5, 9), 0.5: (5 + 2 * 3, 9 + 5)}[margin]
            assert sizes == (room[0], x.shape, (room[1],) * 3)
        static = layers.CCNNBlock.finalize(block)
        assert static.convolution.kernel_size == (5,) and static.widths == (9, 9, 9)
        np.testing.assert_allclose(static(x), block(x), atol=1e-5)
        # A mask that grows within the margin is not cut.
        block.convolution.kernel_mask.length.assign([0.14])
        block.width_masks[1].length.assign([0.0])
        outputs[name] = block(x)
        taps[name] = block.finalize().convolution.kernel_size
    np.testing.assert_allclose(outputs["wide"], outputs["static"], atol=1e-5)
    assert np.abs(outputs["tight"] - outputs["static"]).max() > 1e-3
    assert taps == {"static": (9,), "tight": (5,), "wide": (9,)}


@pytest.mark.parametrize("margin", [0.0, 0.2, 0.25, 1.0, 9.0])
@pytest.mark.parametrize("start, stop", [(0, 1), (3, 4), (10, 15), (0, 17), (16, 17)])
def test_supports_grow_by_their_share_within_the_axis(start, stop, margin):
    used = np.zeros(17, bool)
    used[start:stop] = True
    for _ in range(math.ceil(margin * (stop - start))):  # one point at each side
        used = np.convolve(used, [1, 1, 1], "same") > 0
    ((first, last),) = margins.widened_supports([(start, stop)], margin, [17])
    np.testing.assert_array_equal(np.flatnonzero(used), np.arange(first, last))


def test_counts_grow_by_their_share_within_the_axis():
    assert margins.widened_counts((1, 4, 23, 24), 0.25, 24) == (2, 5, 24, 24)
    assert margins.widened_counts((1, 4, 23, 24), 0.0, 24) == (1, 4, 23, 24)


@pytest.mark.parametrize("wrong", [-0.1, math.inf, math.nan, "1", None, True])
def test_margins_are_numbers_of_0_or_more(wrong):
    with pytest.raises(ValueError, match="`margin` must be a"):
        layers.ccnn.rendering.update_rendering(keras.layers.Dense(1), wrong)
