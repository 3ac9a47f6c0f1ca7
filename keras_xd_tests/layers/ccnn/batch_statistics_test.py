import keras
import numpy as np
import pytest

from keras_xd import layers


def test_inference_normalizes_by_the_batch(rng):
    x = rng.normal(3.0, 2.0, size=(4, 5, 6, 3)).astype("float32")
    layer = layers.BatchStatisticsNormalization(epsilon=1e-3, momentum=0.9)
    layer.build(x.shape)
    gamma, beta = rng.normal(size=(2, 3))
    layer.gamma.assign(gamma)
    layer.beta.assign(beta)
    mean, variance = x.mean(axis=(0, 1, 2)), x.var(axis=(0, 1, 2))
    expected = (x - mean) / np.sqrt(variance + 1e-3) * gamma + beta
    np.testing.assert_allclose(layer(x), expected, atol=1e-4)
    np.testing.assert_allclose(layer(x, training=True), expected, atol=1e-4)
    np.testing.assert_allclose(layer.moving_mean, 0.1 * mean, rtol=1e-4)
    frozen = layers.BatchStatisticsNormalization(epsilon=1e-3, trainable=False)
    np.testing.assert_allclose(frozen(x, training=True), (expected - beta) / gamma, atol=1e-4)


def test_large_batches_round_no_further_than_a_sample(rng):
    x = rng.normal(3.0, 2.0, size=(128, 32, 32, 3)).astype("float32")
    exact = x.astype("float64")
    expected = (exact - exact.mean(axis=(0, 1, 2))) / exact.std(axis=(0, 1, 2))
    outputs = layers.BatchStatisticsNormalization(epsilon=0.0)(x)
    np.testing.assert_allclose(outputs, expected, atol=3e-6)


@pytest.mark.parametrize("policy", ["float32", "float64", "mixed_bfloat16"])
def test_scale_and_shift_are_the_normalization(policy, rng):
    layer = layers.BatchStatisticsNormalization("moving", dtype=policy)
    layer.build((None, 5))
    layer.set_weights([rng.uniform(0.5, 2.0, size=5) for _ in range(4)])
    x = rng.normal(size=(7, 5))
    scale, shift = layer.scale_and_shift()
    assert keras.backend.standardize_dtype(scale.dtype) == layer.variable_dtype
    tolerance = {"float32": 1e-5, "float64": 1e-12, "mixed_bfloat16": 0.03}[policy]
    np.testing.assert_allclose(layer(x), x * scale + shift, atol=tolerance)


@pytest.mark.parametrize("statistics", ["moving", "batch"])
@pytest.mark.parametrize("trainable", [True, False])
@pytest.mark.parametrize("training", [True, False, None])
def test_when_moving_statistics_are_used(statistics, trainable, training, rng):
    layer = layers.BatchStatisticsNormalization(statistics, trainable=trainable)
    x = rng.normal(3.0, size=(7, 5)).astype("float32")
    layer.build(x.shape)
    # The averages of a new layer are 0 and 1, by which almost nothing changes.
    same = np.abs(np.asarray(layer(x, training=training)) - x).max() < 0.01
    assert same == layer.uses_moving_statistics(training)


def test_statistics_are_set_in_the_whole_model(rng):
    x = rng.normal(3.0, 2.0, size=(8, 3)).astype("float32")
    inner = keras.Sequential([keras.Input((3,)), layers.BatchStatisticsNormalization()])
    model = keras.Sequential([keras.Input((3,)), inner])
    by_batch = model.predict(x, verbose=0)
    assert layers.ccnn.batch_statistics.use_statistics(model, "moving") is model
    np.testing.assert_allclose(model.predict(x, verbose=0), x / np.sqrt(1.001), rtol=1e-5)
    layers.ccnn.batch_statistics.use_statistics(model, "batch")
    np.testing.assert_allclose(model.predict(x, verbose=0), by_batch, atol=1e-6)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="statistics='none'"):
        layers.BatchStatisticsNormalization("none")
    with pytest.raises(ValueError, match="renorm=True"):
        layers.BatchStatisticsNormalization(renorm=True)
    model = keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization()])
    with pytest.raises(ValueError, match="without them"):
        layers.ccnn.batch_statistics.use_statistics(model, "moving")
    with pytest.raises(ValueError, match="statistics='none'"):
        layers.ccnn.batch_statistics.use_statistics(model, "none")
