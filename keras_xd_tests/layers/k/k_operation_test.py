import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd import layers
from keras_xd.core.searchable import architecture_variables, flatten_layers, freeze_architecture
from keras_xd.finalizing.finalizer import finalize
from keras_xd.graph import cloning
from keras_xd.kmatrix import constructions
from keras_xd.testing import assert_close, check_layer

TWINS = {
    1: (keras.layers.Conv1D, layers.KOpConv1D),
    2: (keras.layers.Conv2D, layers.KOpConv2D),
    3: (keras.layers.Conv3D, layers.KOpConv3D),
}


@pytest.mark.parametrize(
    "sizes, arguments",
    [
        ((13,), {"padding": "causal"}),
        ((16,), {"padding": "same", "strides": 3}),
        ((31,), {"dilation_rate": 2, "groups": 2}),
        ((7, 9), {"padding": "same"}),
        ((13, 8), {"strides": (2, 1), "activation": "tanh"}),
        ((11, 11), {"padding": "same", "dilation_rate": 2, "use_bias": False}),
        ((5, 6, 7), {"padding": "same", "strides": 2}),
    ],
    ids=str,
)
def test_warm_start_equals_keras(sizes, arguments, rng):
    convolution_class, k_class = TWINS[len(sizes)]
    convolution = convolution_class(4, 3, bias_initializer="normal", **arguments)
    inputs = rng.standard_normal((2, *sizes, 2)).astype("float32")
    expected = np.array(convolution(inputs))
    layer = k_class.from_config(convolution.get_config())
    layer.build(inputs.shape)
    layer.kernel.assign(convolution.kernel)
    if layer.bias is not None:
        layer.bias.assign(convolution.bias)
    assert layer.depth == (1, 1, 1)
    assert_close(np.array(layer(inputs)), expected)
    assert type(layer.finalize()) is layers.StaticXD
    assert_close(np.array(layer.finalize()(inputs)), expected)


@pytest.mark.parametrize("rank, size, stride", [(1, 13, 1), (1, 12, 2), (2, 5, 1)])
def test_from_scratch_equals_the_definition(rank, size, stride, rng):
    """Re(K_1 diag(M w) K_2 x) with dense matrices multiplied out stage by stage, in NumPy."""
    layer = layers.KOpConv(
        rank,
        2,
        3,
        strides=stride,
        padding="circular",
        warm_start="random_unitary",
        seed=3,
        use_bias=False,
    )
    x = rng.standard_normal((2, *[size] * rank, 3)).astype("float32")
    outputs = np.array(layer(x))
    assert layer.depth == (9, 9, 9)

    def dense(name):
        result = np.eye(1)
        for axis, plan in enumerate(layer.plans):
            (weight,) = [w for w in layer.architecture_variables if w.name == f"{name}{axis}"]
            stages = constructions.butterflies_of(keras.ops.convert_to_numpy(weight), plan.radices)
            product = np.eye(plan.n)
            for index, butterfly in enumerate(map(constructions.butterfly_dense, stages)):
                product = product @ (butterfly if index % 2 else butterfly.T)
            result = np.kron(result, product)
        return result

    k_1, m, k_2 = dense("K").T, dense("L"), dense("M")
    unitary = np.eye(size**rank)
    # K makes up for the real part, which halves the variance.
    for matrix in (k_1 / np.sqrt(2), m / np.sqrt(size**rank), k_2):
        np.testing.assert_allclose(matrix @ matrix.conj().T, unitary, atol=1e-5)
    kernel = keras.ops.convert_to_numpy(layer.kernel)
    placed = np.zeros([size] * rank + list(kernel.shape[-2:]))
    for tap in np.ndindex(*kernel.shape[:rank]):
        place = tuple((g.left - j) % size for g, j in zip(layer.geometry, tap, strict=True))
        placed[place] = kernel[tap]
    spectrum = np.einsum("fn,nji->fji", m, placed.reshape(-1, 3, 2))
    frequencies = np.einsum("fn,bnj->bfj", k_2, x.reshape(2, -1, 3))
    product = np.einsum("fji,bfj->bfi", spectrum, frequencies)
    expected = np.einsum("nf,bfi->bni", k_1, product).real.reshape(2, *[size] * rank, 2)
    if rank == 1:
        expected = expected[:, ::stride]
    assert_close(outputs, expected)


def test_gradients_by_finite_differences(rng):
    operation = layers.KOperation(depth=2, warm_start="random_unitary", seed=3)
    first = layers.KOpConv2D(2, 3, padding="circular", operation=operation)
    second = layers.KOpConv2D(2, 2, padding="circular", operation=operation)
    x = rng.standard_normal((2, 5, 6, 2)).astype("float32")
    weight = rng.standard_normal((2, 5, 6, 2)).astype("float32")
    model = keras.Sequential([first, second])
    model.build(x.shape)

    @tf.function(autograph=False)
    def loss():
        return tf.reduce_sum(weight * model(x) ** 2)

    variables = model.trainable_variables
    assert len(variables) == 4 + 6
    with tf.GradientTape() as tape:
        value = loss()
    gradients = tape.gradient(value, [v.value for v in variables])
    for variable, gradient in zip(variables, gradients, strict=True):
        start, norm = keras.ops.convert_to_numpy(variable), np.linalg.norm(gradient)
        step = 1e-2 * np.array(gradient) / norm
        variable.assign(start + step)
        above = float(loss())
        variable.assign(start - step)
        below = float(loss())
        variable.assign(start)
        np.testing.assert_allclose((above - below) / 2e-2, norm, rtol=5e-3, err_msg=variable.path)


@pytest.mark.parametrize(
    "arguments, shape",
    [
        ({"rank": 1, "filters": 4, "kernel_size": 3, "padding": "same", "groups": 2}, (4, 9, 2)),
        (
            {
                "rank": 2,
                "filters": 3,
                "kernel_size": 3,
                "padding": "circular",
                "strides": 2,
                "depth": (3, 1, 2),
                "radix": ((2, 3), 5),
                "warm_start": "random_unitary",
                "seed": 1,
                "data_format": "channels_first",
            },
            (4, 2, 6, 5),
        ),
    ],
    ids=["warm", "random"],
)
def test_layer_checks(arguments, shape):
    """Without XLA, which compiles the same of `XDConv`."""
    check_layer(layers.KOpConv, arguments, shape, run_jit=False)


def shared_model(**arguments):
    """Three layers with one operation; the first one and the last one are in nested models."""
    operation = layers.KOperation(**arguments)
    inputs = keras.Input((4, 3, 2), name="images")
    options = {"padding": "circular", "operation": operation}
    first = layers.KOpConv2D(4, 3, activation="relu", **options)
    x = keras.Sequential([keras.Input((4, 3, 2)), first])(inputs)
    branch = layers.KOpConv2D(4, (1, 3), name="branch", groups=2, **options)(x)
    x = keras.layers.Add()([x, branch])
    inside = keras.Sequential(
        [keras.Input((4, 3, 4)), layers.KOpConv2D(3, 2, strides=2, **options)]
    )
    return keras.Model(inputs, inside(x)), operation


def assert_shared(model):
    found = [layer for layer in flatten_layers(model) if isinstance(layer, layers.KOpConv2D)]
    assert len(found) == 3
    (operation,) = {id(layer.operation): layer.operation for layer in found}.values()
    for layer in found:
        pairs = zip(layer.architecture_variables, operation.variables, strict=True)
        assert all(mine is its for mine, its in pairs)
    return found


@pytest.mark.parametrize("frozen", [False, True])
def test_shared_operation_stays_shared_in_files(frozen, rng, tmp_path):
    model, operation = shared_model(depth=2, warm_start="random_unitary")
    x = rng.standard_normal((4, 4, 3, 2)).astype("float32")
    y = rng.standard_normal((4, 2, 2, 3)).astype("float32")
    if frozen:
        freeze_architecture(model)
    before = [keras.ops.convert_to_numpy(v) for v in operation.variables]
    model.compile(keras.optimizers.Adam(1e-2), "mse", run_eagerly=True)
    model.train_on_batch(x, y)
    for old, new in zip(before, operation.variables, strict=True):
        assert np.array_equal(old, new) == frozen
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    found = assert_shared(restored)
    assert restored.count_params() == model.count_params()
    kernels = 9 * 2 * 4 + 3 * 2 * 4 + 4 * 4 * 3 + 4 + 4 + 3
    matrices = 3 * 2 * 2 * (4 * 4 + 3 * 3)
    assert model.count_params() == kernels + matrices
    assert len(architecture_variables(restored)) == len(architecture_variables(model)) == 6
    assert all(v.trainable != frozen for v in found[0].architecture_variables)
    np.testing.assert_array_equal(restored(x), model(x))
    for each in (model, restored):  # the optimizer's state too: one more step is the same
        each.train_on_batch(x, y)
    for now, then in zip(restored.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(now, then, atol=1e-6)


def test_shared_operation_stays_shared_in_files_of_weights(rng, tmp_path):
    model, other = (shared_model(warm_start="random_unitary")[0] for _ in range(2))
    model.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")
    assert_shared(other)
    x = rng.standard_normal((4, 4, 3, 2)).astype("float32")
    np.testing.assert_array_equal(other(x), model(x))


def test_shared_operation_finalizes(rng):
    model, operation = shared_model(warm_start="random_unitary", depth=3, seed=2)
    x = rng.standard_normal((2, 4, 3, 2)).astype("float32")
    static = finalize(model)
    assert not architecture_variables(static)
    assert_close(keras.ops.convert_to_numpy(static(x)), keras.ops.convert_to_numpy(model(x)))
    second = model.get_layer("branch")
    assert second.describe()["distance_from_start/K"] == 0
    operation.variables[0].assign_add(np.ones(operation.variables[0].shape))
    assert second.describe()["distance_from_start/K"] > 0


def test_clones_of_a_model_share_an_operation_of_their_own(rng):
    model, operation = shared_model(warm_start="random_unitary", depth=2)
    copy, _ = cloning.clone(model, lambda layer: None)
    (first, *_) = assert_shared(copy)
    assert first.operation is not operation
    assert copy.count_params() == model.count_params()
    x = rng.standard_normal((2, 4, 3, 2)).astype("float32")
    np.testing.assert_array_equal(
        keras.ops.convert_to_numpy(copy(x)), keras.ops.convert_to_numpy(model(x))
    )


def test_copies_have_operations_of_their_own(rng):
    layer = layers.KOpConv1D(2, 3, operation=layers.KOperation(radix=(2, 5), depth=3))
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    copy = keras.saving.deserialize_keras_object(config)
    assert copy.operation is not layer.operation
    assert copy.operation.get_config() == layer.operation.get_config()
    for each in (layer, copy):
        each.build((None, 10, 1))
    assert copy.architecture_variables[0] is not layer.architecture_variables[0]


def test_seed_of_an_operation_is_kept():
    operation = layers.KOperation(warm_start="random_unitary")
    assert operation.depth == (9, 9, 9)
    assert layers.KOperation.from_config(operation.get_config()).seed == operation.seed is not None
    assert layers.KOperation().get_config() == {
        "depth": (1, 1, 1),
        "radix": None,
        "warm_start": "convolution",
        "seed": None,
    }


def test_sizes_of_a_shared_operation_must_agree():
    operation = layers.KOperation()
    first = layers.KOpConv1D(2, 3, padding="same", operation=operation, name="first")
    first.build((None, 16, 1))
    layers.KOpConv1D(4, 2, padding="same", operation=operation).build((None, 17, 1))
    with pytest.raises(
        ValueError, match="'second' of sizes 36 = 2·2·3·3.*'first' made.*18 = 2·3·3"
    ):
        layer = layers.KOpConv1D(2, 3, padding="same", operation=operation, name="second")
        layer.build((None, 32, 1))
    with pytest.raises(ValueError, match="of sizes 18 = 2·3·3 × 18 = 2·3·3, an operation"):
        layers.KOpConv2D(2, 3, padding="circular", operation=operation).build((None, 18, 18, 1))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"operation": layers.KOperation(), "depth": 3}, "belong to the shared.*depth=3"),
        ({"operation": layers.KOperation(), "seed": 3}, "belong to the shared.*seed=3"),
        ({"operation": "conv"}, "`operation` must be a KOperation.*'conv'"),
        ({"warm_start": "identity"}, "neither a frequency bias.*needs an XDConv.*'identity'"),
        ({"warm_start": "zero"}, "neither a frequency bias.*needs an XDConv.*'zero'"),
        ({"depth": (1, 2)}, "`depth` must be a positive integer or a tuple of 3"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.KOpConv1D(2, 3, **arguments)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"warm_start": "average_pooling"}, "neither a frequency bias"),
        ({"depth": 0}, "`depth` must be a positive"),
        ({"radix": 1}, "`radix` must be"),
        ({"radix": ((2, 3), 1)}, "`radix` must be"),
    ],
    ids=str,
)
def test_bad_operation(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.KOperation(**arguments)
