import keras
import numpy as np
import pytest
from keras import ops

from keras_xd import layers
from keras_xd.testing import assert_close


def test_the_architecture_regularizer_counts_every_architecture_variable(rng):
    extras = {"frequency_bias": True, "channel_gates": True}
    penalties = {"architecture_regularizer": keras.regularizers.L2(0.1), "kernel_regularizer": "l2"}
    layer = layers.XDConv1D(2, 3, **extras, **penalties)
    layer(np.zeros((1, 9, 2), "float32"))
    expected = 0.01 * np.sum(ops.convert_to_numpy(layer.kernel) ** 2)
    expected += 0.1 * sum(
        np.sum(ops.convert_to_numpy(w) ** 2) for w in layer.architecture_variables
    )
    np.testing.assert_allclose(float(sum(layer.losses)), expected, rtol=1e-5)
    copy = layers.XDConv1D.from_config(layer.get_config())
    assert isinstance(copy.architecture_regularizer, keras.regularizers.L2)


def test_large_matrices_are_described_by_an_overview(rng):
    layer = layers.XDConv1D(1, 3, padding="circular", depth=2)
    layer.build((None, 1100, 1))
    for variable in layer.architecture_variables:
        variable.assign_add(0.02 * rng.standard_normal(variable.shape))
    described = layer.describe()
    assert not [name for name in described if name.startswith("matrix/")]
    dense = np.array(layer.kmatrices["K"][0].dense())
    values = np.abs(dense[0] + 1j * dense[1]).T
    overview = described["magnitude/K0"]
    assert overview.shape == (367, 367)  # every third column, three rows each
    np.testing.assert_allclose(overview[4, 7], np.sqrt(np.mean(values[12:15, 21] ** 2)), rtol=1e-4)
    np.testing.assert_allclose(overview[-1, 0], np.sqrt(np.mean(values[1098:, 0] ** 2)), rtol=1e-4)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_integers_are_numbers_like_others(policy, rng):
    """Keras casts no integers, such as pixels, to the type that a layer computes in."""
    x = rng.integers(0, 256, size=(2, 12, 3))
    layer = layers.XDConv1D(4, 3, dtype=policy)
    expected = layer(x.astype("float32"))
    for integers in (x, x.astype("uint8")):
        for found in (layer, layer.finalize(), layer.finalize("kernel")):
            assert found(integers).dtype == expected.dtype
            outputs, same = (np.array(ops.cast(y, "float32")) for y in (found(integers), expected))
            assert_close(outputs, same, 2e-2)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "bfloat16"])
def test_training_in_bfloat16_with_clipped_gradients(policy, rng, tmp_path):
    """Of `bfloat16` the architecture is kept in float32, beside weights in bfloat16."""
    layer = layers.XDConv1D(2, 3, padding="same", dtype=policy)
    model = keras.Sequential([keras.Input((9, 2)), layer])
    options = {"run_eagerly": True} if policy == "bfloat16" else {"jit_compile": False}
    model.compile(keras.optimizers.SGD(0.1, clipnorm=1.0), "mse", **options)
    x = rng.standard_normal((4, 9, 2)).astype("float32")
    before = [ops.convert_to_numpy(v) for v in layer.variables]
    model.fit(x, x, epochs=2, verbose=0)
    for variable, value in zip(layer.variables, before, strict=True):
        assert np.any(ops.convert_to_numpy(variable) != value), variable.path
    matrices = {keras.backend.standardize_dtype(v.dtype) for v in layer.architecture_variables}
    assert matrices == {"float32"}
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))
