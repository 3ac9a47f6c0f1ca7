import functools

import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.core.searchable import architecture_variables, flatten_layers, freeze_architecture
from keras_xd.finalizing.finalizer import finalize
from keras_xd.graph import cloning
from keras_xd.layers.k.k_operation import KOpConv
from keras_xd.testing import assert_close
from keras_xd_tests.layers.xd import definition


@pytest.mark.parametrize("rank, size, stride", [(1, 13, 1), (1, 12, 2), (2, 5, 1)])
def test_from_scratch_equals_the_definition(rank, size, stride, rng):
    """Re(K_1 diag(M w) K_2 x) with dense matrices multiplied out stage by stage, in NumPy."""
    options = {"strides": stride, "padding": "circular", "warm_start": "random_unitary", "seed": 3}
    layer = KOpConv(rank, 2, 3, **options)
    x = rng.standard_normal((2, *[size] * rank, 3)).astype("float32")
    outputs = np.array(layer(x))
    assert layer.depth == (9, 9, 9)
    matrices = definition.dense_matrices(layer)
    # K makes up for the real part, which halves the variance.
    for name, scale in (("K", 2), ("L", size**rank), ("M", 1)):
        matrix = functools.reduce(np.kron, matrices[name]) / np.sqrt(scale)
        np.testing.assert_allclose(matrix @ matrix.conj().T, np.eye(size**rank), atol=1e-5)
    assert_close(outputs, definition.outputs(layer, x))


def test_a_convolution_is_finalized_to_dense_matrices():
    layer = layers.KOpConv1D(4, 3, padding="same")
    layer.build((None, 8, 2))
    assert layer.depth == (1, 1, 1) and type(layer.finalize()) is layers.StaticXD


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
    if "operation" not in arguments:
        with pytest.raises(ValueError, match=message):
            layers.KOperation(**arguments)


@pytest.mark.parametrize("radix", [1, ((2, 3), 1)])
def test_bad_radix(radix):
    with pytest.raises(ValueError, match="`radix` must be"):
        layers.KOperation(radix=radix)
