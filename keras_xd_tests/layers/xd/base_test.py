import pathlib

import keras
import numpy as np
import pytest

from keras_xd import layers, regularizers
from keras_xd_tests.layers.xd import precision_cases

ROOT = pathlib.Path(__file__).parents[2]


def test_the_architecture_regularizer_counts_every_architecture_variable(rng):
    layer = layers.XDConv1D(
        2,
        3,
        frequency_bias=True,
        channel_gates=True,
        architecture_regularizer=keras.regularizers.L2(0.1),
        kernel_regularizer=keras.regularizers.L2(0.3),
    )
    layer(np.zeros((1, 9, 2), "float32"))
    expected = 0.3 * np.sum(keras.ops.convert_to_numpy(layer.kernel) ** 2)
    expected += 0.1 * sum(
        np.sum(keras.ops.convert_to_numpy(w) ** 2) for w in layer.architecture_variables
    )
    np.testing.assert_allclose(float(sum(layer.losses)), expected, rtol=1e-5)
    copy = layers.XDConv1D.from_config(layer.get_config())
    assert isinstance(copy.architecture_regularizer, keras.regularizers.L2)


def test_penalties_know_the_start_and_the_plan(rng):
    near = regularizers.NearStart(0.5)
    layer = layers.XDConv1D(2, 3, channel_gates=True, architecture_regularizer=near)
    layer.build((None, 9, 2))
    assert float(sum(layer.losses)) == 0
    steps = [rng.standard_normal(w.shape).astype("float32") for w in layer.architecture_variables]
    for variable, step in zip(layer.architecture_variables, steps, strict=True):
        variable.assign_add(step)
    expected = 0.5 * sum(np.sum(step**2) for step in steps)
    np.testing.assert_allclose(float(sum(layer.losses)), expected, rtol=1e-4)
    permutation = regularizers.NearPermutation(1.0, free=0)
    layer = layers.XDConv1D(2, 3, depth=2, architecture_regularizer=permutation)
    layer.build((None, 9, 2))
    assert len(layer.losses) == 3 and float(sum(layer.losses)) > 0
    config = layers.XDConv1D.from_config(layer.get_config()).get_config()
    assert config == layer.get_config()


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


def relative_error(outputs, expected):
    outputs = keras.ops.convert_to_numpy(keras.ops.cast(outputs, "float64"))
    return np.linalg.norm(outputs - expected) / np.linalg.norm(expected)


def with_equal_weights(name, dtype, weights):
    twin, layer, shape = precision_cases.pair(name, dtype)
    for variable, other, value in zip(
        twin.weights, (layer.kernel, layer.bias), weights, strict=True
    ):
        variable.assign(value)
        other.assign(value)
    return twin, layer, shape


def random_weights(name, rng):
    twin, _, shape = precision_cases.pair(name, "float64")
    return [rng.standard_normal(w.shape) for w in twin.weights], rng.standard_normal(shape)


@pytest.mark.parametrize(
    "name, policy",
    # Weights in bfloat16 too, for every second case.
    [(name, "mixed_bfloat16") for name in precision_cases.CASES]
    + [(name, "bfloat16") for name in list(precision_cases.CASES)[::2]],
)
def test_bfloat16_is_as_exact_as_in_a_convolution_of_keras(name, policy, rng):
    weights, x = random_weights(name, rng)
    exact, _, _ = with_equal_weights(name, "float64", weights)
    expected = keras.ops.convert_to_numpy(exact(x))
    twin, layer, _ = with_equal_weights(name, policy, weights)
    allowed = 2 * relative_error(twin(x), expected)
    assert 1e-3 < allowed < 3e-2
    for found in (layer, layer.finalize(), layer.finalize("kernel")):
        outputs = found(x)
        assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
        assert relative_error(outputs, expected) < allowed


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_integers_are_numbers_like_others(policy, rng):
    """Keras casts no integers, such as pixels, to the type that a layer computes in."""
    x = rng.integers(0, 256, size=(2, 12, 3))
    layer = layers.XDConv1D(4, 3, dtype=policy)
    expected = layer(x.astype("float32"))
    for integers in (x, x.astype("uint8")):
        for found in (layer, layer.finalize(), layer.finalize("kernel")):
            assert relative_error(found(integers), expected) < 1e-2
            assert found(integers).dtype == expected.dtype


@pytest.mark.parametrize("name", precision_cases.CASES)
def test_float64_is_exact(name, rng):
    weights, x = random_weights(name, rng)
    twin, layer, _ = with_equal_weights(name, "float64", weights)
    expected = keras.ops.convert_to_numpy(twin(x))
    assert {keras.backend.standardize_dtype(v.dtype) for v in layer.variables} == {"float64"}
    for found in (layer, layer.finalize(), layer.finalize("kernel")):
        assert relative_error(found(x), expected) < 1e-14


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "bfloat16"])
def test_training_in_bfloat16_with_clipped_gradients(policy, rng, tmp_path):
    """Of `bfloat16` the architecture is kept in float32, beside weights in bfloat16."""
    layer = layers.XDConv1D(2, 3, padding="same", dtype=policy)
    model = keras.Sequential([keras.Input((9, 2)), layer])
    options = {"run_eagerly": True} if policy == "bfloat16" else {"jit_compile": False}
    model.compile(keras.optimizers.SGD(0.1, clipnorm=1.0), "mse", **options)
    x = rng.standard_normal((4, 9, 2)).astype("float32")
    before = [keras.ops.convert_to_numpy(v) for v in layer.variables]
    model.fit(x, x, epochs=2, verbose=0)
    for variable, value in zip(layer.variables, before, strict=True):
        assert np.any(keras.ops.convert_to_numpy(variable) != value), variable.path
    matrices = {keras.backend.standardize_dtype(v.dtype) for v in layer.architecture_variables}
    assert matrices == {"float32"}
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))
