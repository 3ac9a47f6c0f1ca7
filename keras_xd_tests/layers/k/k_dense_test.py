import keras
import numpy as np
import pytest

from keras_xd import kmatrix, layers
from keras_xd.kmatrix import constructions
from keras_xd.layers.k.k_dense import KDense, KLayer
from keras_xd.testing import assert_close, check_layer
from keras_xd_tests.layers.variants import check_variant


def dense_kernel(layer, inputs):
    """The kernel of the Dense layer that equals a KDense, multiplied out in NumPy."""
    weights = keras.ops.convert_to_numpy(layer.kernel)
    if weights.shape[1] == 1:
        weights = np.concatenate([weights, np.zeros_like(weights)], axis=1)
    product = np.eye(layer.plan.n)
    for index, stages in enumerate(constructions.butterflies_of(weights, layer.plan.radices)):
        butterfly = constructions.butterfly_dense(stages)
        product = product @ (butterfly if index % 2 else butterfly.T)
    return product.real[: layer.units, :inputs].T


@pytest.mark.parametrize(
    "inputs, units, depth, radix, size, warm_start",
    [
        (16, 16, 1, None, 16, "random_orthogonal"),
        (13, 7, 3, None, 15, "random_unitary"),
        (13, 7, 3, None, 15, "identity"),
        (10, 37, 2, 6, 40, "random_orthogonal"),
        (5, 5, 2, 5, 5, "random_unitary"),
        (300, 280, 3, None, 300, "random_unitary"),
        (280, 300, 2, None, 300, "random_orthogonal"),
    ],
)
def test_equals_the_definition(inputs, units, depth, radix, size, warm_start, rng):
    options = {"activation": "tanh", "bias_initializer": "normal", "seed": 5}
    x = rng.standard_normal((3, inputs))
    for dtype, tolerance in (("float32", 1e-5), ("float64", 1e-14)):
        layer = KDense(units, depth, radix, warm_start=warm_start, **options, dtype=dtype)
        outputs = np.array(layer(x.astype(dtype)))
        expected = np.tanh(x @ dense_kernel(layer, inputs) + keras.ops.convert_to_numpy(layer.bias))
        assert_close(outputs, expected, tolerance)
    assert layer.plan.n >= max(inputs, units)
    assert layer.plan.n == kmatrix.padded_size(max(inputs, units), radix)
    assert size >= layer.plan.n


def test_starts(rng):
    x = rng.standard_normal((4, 12)).astype("float32")
    assert_close(np.array(KDense(12, depth=3, warm_start="identity")(x)), x)
    padded = np.array(KDense(20, warm_start="identity")(x))
    assert_close(padded, np.pad(x, [(0, 0), (0, 8)]))
    orthogonal = KDense(12, seed=1)
    norms = np.linalg.norm(np.array(orthogonal(x)), axis=1)
    np.testing.assert_allclose(norms, np.linalg.norm(x, axis=1), rtol=1e-5)
    again = KDense.from_config(orthogonal.get_config())
    np.testing.assert_array_equal(np.array(again(x)), np.array(orthogonal(x)))
    other = np.array(KDense(12, seed=2)(x))
    assert np.abs(other - np.array(again(x))).max() > 0.1


def test_more_axes_and_unknown_sizes(rng):
    layer = KDense(5)
    inputs = keras.Input((None, 4, 7), name="inputs")
    model = keras.Model(inputs, layer(inputs))
    assert model.output.shape == (None, None, 4, 5)
    x = rng.standard_normal((2, 3, 4, 7)).astype("float32")
    assert_close(model.predict(x, verbose=0), x @ dense_kernel(layer, 7))


@pytest.mark.parametrize(
    "arguments, shape",
    [
        (
            {
                "units": 5,
                "depth": 2,
                "radix": (2, 4),
                "activation": "gelu",
                "warm_start": "random_unitary",
                "bias_initializer": keras.initializers.RandomNormal(seed=1),
                "kernel_regularizer": keras.regularizers.L2(1e-3),
                "bias_regularizer": keras.regularizers.L1(1e-3),
                "activity_regularizer": keras.regularizers.L2(1e-3),
                "kernel_constraint": keras.constraints.MaxNorm(3.0),
                "seed": 3,
            },
            (4, 3, 8),
        ),
        ({"units": 8, "warm_start": "identity", "use_bias": False}, (4, 6)),
    ],
    ids=["unitary", "identity"],
)
def test_layer_checks(arguments, shape):
    check_layer(KDense, arguments, shape, run_jit="depth" in arguments)


@pytest.mark.parametrize(
    "arguments, shape, message",
    [
        ({"units": 0}, (None, 4), "`units` must be an integer of at least 1"),
        ({"depth": 0}, (None, 4), "`depth` must be an integer of at least 1"),
        ({"warm_start": "dft"}, (None, 4), "`warm_start` must be one of 'random_orthogonal'"),
        ({"radix": (2, 2)}, (None, 9), "multiply to at least 9.*product 4"),
        ({"radix": 1}, (None, 9), "`radix` must be None"),
        ({}, (None, None), "must have a known size.*None, None"),
    ],
    ids=str,
)
def test_bad_input(arguments, shape, message):
    with pytest.raises(ValueError, match=message):
        KDense(**{"units": 4, **arguments}).build(shape)


@pytest.mark.parametrize(("inputs", "units"), [(33, 60), (64, 10)])
def test_random_unitary_outputs_have_the_variance_of_a_dense_layer(inputs, units, rng):
    x = rng.normal(size=(250, inputs))
    found, expected = [], []
    for seed in range(6):
        keras.utils.set_random_seed(seed)
        found.append(np.var(np.asarray(KDense(units, warm_start="random_unitary", seed=seed)(x))))
        expected.append(np.var(np.asarray(keras.layers.Dense(units)(x))))
    assert 0.93 < np.sqrt(np.mean(found) / np.mean(expected)) < 1.07


@pytest.mark.parametrize("inputs, units, depth, radix", [(12, 20, 2, None), (30, 7, 1, (5, 6))])
def test_it_is_a_family_of_structured_layers(inputs, units, depth, radix, rng):
    x = rng.normal(size=(3, 2, inputs)).astype("float32")
    layer = KDense(units, depth, radix, bias_initializer="normal")
    expected = layer(x)
    sizes = {"radix": radix, "depth": depth}
    other = layers.StructuredDense(
        units, "kaleidoscope", sizes=sizes, learning_rates="equal", activation="linear"
    )
    other.build(x.shape)
    other.set_weights(layer.get_weights())
    assert_close(np.array(other(x)), np.array(expected))
    assert other.multiply_adds(x.shape) == layer.multiply_adds(x.shape)


def kernel_of_pair(weights, n, radix=None):
    """The kernel that one K-matrix of a K-layer is for an axis of n entries."""
    single = KDense(n, len(weights), radix, use_bias=False, dtype="float64")
    single.build((None, n))
    single.kernel.assign(weights)
    return dense_kernel(single, n)


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize("sizes", [(6,), (5, 8), (2, 3, 4)])
def test_a_k_layer_is_a_sum_over_pairs_of_channels(sizes, data_format, rng):
    """Beside a loop over single channels, each axis multiplied by its matrix in NumPy."""
    options = {"data_format": data_format, "bias_initializer": "normal", "activation": "tanh"}
    layer = KLayer(2, depth=3, seed=4, **options)
    x = rng.standard_normal((2, *sizes, 3))
    last = data_format == "channels_last"
    outputs = np.asarray(layer((x if last else np.moveaxis(x, -1, 1)).astype("float32")))
    expected = np.zeros((2, *sizes, 2)) + np.asarray(layer.bias)
    for j in range(3):
        for i in range(2):
            mapped = x[..., j]
            for axis, (n, kernel) in enumerate(zip(sizes, layer.kernels, strict=True)):
                matrix = kernel_of_pair(kernel[2 * j + i], n)
                mapped = np.moveaxis(np.moveaxis(mapped, axis + 1, -1) @ matrix, -1, axis + 1)
            expected[..., i] += mapped
    assert_close(outputs if last else np.moveaxis(outputs, 1, -1), np.tanh(expected))
    pairs = 3 * 2
    assert layer.multiply_adds((None, *sizes, 3) if last else (None, 3, *sizes)) == sum(
        pairs * np.prod(sizes) * n for n in sizes
    )


def test_k_layer_checks(rng):
    arguments = {"filters": 2, "activation": "gelu"}
    options = {"depth": 2, "radix": 4, "use_bias": False, "seed": 3}
    check_layer(KLayer, {**arguments, **options}, (2, 6, 3), run_jit=False)
    check_variant(KLayer, arguments, (2, 3, 5, 2), rng)


@pytest.mark.parametrize(
    ("arguments", "shape", "message"),
    [
        ({"filters": 0}, (None, 4, 4, 1), "`filters` must be an integer of at least 1"),
        ({}, (None, None, 4, 1), "needs every spatial size to be known.*None, None, 4, 1"),
        ({"filters": 2**20}, (None, 64, 64, 2**20), "at most 268,435,456 numbers"),
        ({"data_format": "first"}, (None, 4, 4, 1), "`data_format` must be one of"),
    ],
)
def test_bad_input_of_k_layers(arguments, shape, message):
    with pytest.raises(ValueError, match=message):
        KLayer(**{"filters": 4, **arguments}).build(shape)
