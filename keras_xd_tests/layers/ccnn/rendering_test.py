import keras
import numpy as np
import pytest

from keras_xd import layers


def model_of(rendering, network):
    inputs = keras.Input((32, 2))
    x = layers.CKConv1D(
        network, rendering=rendering, learn_resolution=True, padding="circular", seed=2
    )(inputs)
    x = layers.FourierUpsampling(32)(x)
    return keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="ones")(x))


def test_a_model_trains_on_what_lies_under_its_masks(rng):
    network = layers.KernelNetwork(units=4, features=4, seed=1)
    x, y = (rng.normal(size=(4, 32, n)).astype("float32") for n in (2, 1))
    losses = {}
    for rendering in ("static", "dynamic"):
        model = model_of(rendering, network.from_config(network.get_config()))
        conv = model.layers[1]
        eager = rendering == "static"  # which needs no graphs to be made again
        model.compile(keras.optimizers.SGD(1e-3), "mse", run_eagerly=eager)
        model.fit(x, y, epochs=1, verbose=0)
        conv.resolution_mask.length.assign([-0.3])
        assert layers.update_rendering(model) == (rendering == "dynamic")
        assert not layers.update_rendering(model)
        history = model.fit(x, y, epochs=2, verbose=0)
        losses[rendering] = [*history.history["loss"], model.evaluate(x, y, verbose=0)]
        outputs = conv(x)
        assert outputs.shape[1] == 32 if rendering == "static" else outputs.shape[1] < 20
        np.testing.assert_allclose(model.predict(x, verbose=0), model(x), atol=1e-5)
    np.testing.assert_allclose(losses["static"], losses["dynamic"], rtol=1e-5)


def test_dynamic_rendering_under_xla_is_refused():
    model = model_of("dynamic", layers.KernelNetwork(units=4, features=4))
    model.compile("sgd", "mse", jit_compile=True)
    with pytest.raises(ValueError, match="jit_compile=True.*32"):
        layers.update_rendering(model)
    static = model_of("static", layers.KernelNetwork(units=4, features=4))
    static.compile("sgd", "mse", jit_compile=True)
    assert not layers.update_rendering(static)
