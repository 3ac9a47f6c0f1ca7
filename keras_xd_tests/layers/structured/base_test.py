import functools

import keras
import numpy as np
import pytest

from keras_xd import layers


def test_regularizers_act_on_each_factor():
    layer = layers.StructuredDense(
        8, "low_rank", sizes={"rank": 2}, kernel_regularizer=keras.regularizers.L2(0.5)
    )
    layer.build((None, 6))
    expected = sum(0.5 * np.sum(np.square(w)) for w in layer.get_weights()[:2])
    np.testing.assert_allclose(float(sum(layer.losses)), expected, rtol=1e-5)


def test_seeds_make_starts_equal():
    def start(seed):
        layer = layers.StructuredDense(8, "blast", density=0.9, seed=seed)
        layer.build((None, 6))
        return np.array(layer.kernel.dense())

    np.testing.assert_array_equal(start(3), start(3))
    assert np.abs(start(3) - start(4)).max() > 0.01
    keras.utils.set_random_seed(1)
    first, second = start(None), start(None)
    keras.utils.set_random_seed(1)
    np.testing.assert_array_equal(start(None), first)
    assert np.abs(second - first).max() > 0.01


def test_kernels_of_one_layer_start_from_seeds_of_their_own():
    layer = layers.StructuredLSTM(8, seed=3)
    layer.build((None, 5, 8))
    kernels = layer.cell.kernel, layer.cell.recurrent_kernel
    kernel, recurrent = (np.array(one.dense()) for one in kernels)
    assert kernel.shape == recurrent.shape and np.abs(kernel - recurrent).max() > 0.01


EVERY = ("low_rank", "monarch", "block_tensor_train", "blast", "kaleidoscope")


@functools.cache
def change_by_a_step(size, family, learning_rates):
    """Return how much a step of Adam changes the outputs of a sample, root mean square."""
    x = np.random.default_rng(0).normal(size=(1, size)).astype("float32")
    target = np.random.default_rng(1).normal(size=x.shape).astype("float32")
    layer = layers.StructuredDense(
        size, family, density=0.25, learning_rates=learning_rates, seed=0, use_bias=False
    )
    model = keras.Sequential([keras.Input((size,)), layer])
    before = np.array(model(x))
    # So small a step that it is linear, by the sign of the gradient alone.
    model.compile(keras.optimizers.Adam(1e-5, epsilon=1e-14), "mse", run_eagerly=True)
    model.train_on_batch(x, target)
    return np.sqrt(np.mean(np.square(np.array(model(x)) - before)))


@pytest.mark.parametrize("family", EVERY)
def test_a_step_changes_outputs_as_one_of_a_dense_layer(family):
    for size in (64, 1024):
        dense = change_by_a_step(size, "dense", "equal")
        assert 1 / 3 < change_by_a_step(size, family, "spectral") / dense < 3
    if family != "low_rank":  # whose first factor is as the dense kernel
        assert change_by_a_step(1024, family, "equal") < dense / 3


def test_weights_of_other_rates_are_refused(tmp_path):
    def model(learning_rates):
        layer = layers.StructuredDense(12, density=0.7, learning_rates=learning_rates, name="layer")
        return keras.Sequential([keras.Input((18,)), layer])

    one = model("spectral")
    one.save_weights(tmp_path / "found.weights.h5")
    model("spectral").load_weights(tmp_path / "found.weights.h5")
    with pytest.raises(ValueError, match="of the `learning_rates` that .* weights with 'spectral'"):
        model("equal").load_weights(tmp_path / "found.weights.h5")
