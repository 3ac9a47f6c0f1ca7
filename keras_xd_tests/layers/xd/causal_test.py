import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_xd import layers
from keras_xd.testing import assert_close, check_layer
from keras_xd_tests.layers.xd.drop_in_checks import assert_twin

# Any two of a number of steps, a kernel size and the rest together.
PAIRWISE = [
    ((1, 2, 9)[(row + column) % 3], kernel, *rest)
    for row, kernel in enumerate((1, 2, 5))
    for column, rest in enumerate([(1, 1, 1), (2, 1, 1), (1, 3, 1), (1, 1, 2)])
]


@pytest.mark.parametrize("steps, kernel, strides, dilation, groups", PAIRWISE)
def test_equals_causal_conv1d(steps, kernel, strides, dilation, groups, rng):
    arguments = {
        "filters": 4,
        "kernel_size": kernel,
        "strides": strides,
        "dilation_rate": dilation,
        "groups": groups,
    }
    twin = keras.layers.Conv1D(**arguments, padding="causal")
    layer = layers.XDCausalConv1D(**arguments, depth=(2, 1, 3))
    assert_twin(twin, layer, ["kernel"], rng.standard_normal((2, steps, 2)).astype("float32"))


def moved(layer, rng, shape):
    """Move every weight, also the entries outside the triangles."""
    layer.build(shape)
    for weight in layer.weights:
        weight.assign_add(0.3 * rng.standard_normal(weight.shape))
    return layer


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("start", ["convolution", "random_triangular"])
def test_no_output_depends_on_later_inputs(start, depth, rng):
    layer = layers.XDCausalConv1D(
        3, 2, depth=depth, warm_start=start, frequency_bias=True, channel_gates=True, seed=0
    )
    moved(layer, rng, (None, 12, 2))
    x = rng.standard_normal((1, 12, 2)).astype("float32")
    before = keras.ops.convert_to_numpy(layer(x))
    for step in range(12):
        changed = x.copy()
        changed[:, step:] += rng.standard_normal((1, 12 - step, 2))
        after = keras.ops.convert_to_numpy(layer(changed))
        np.testing.assert_array_equal(after[:, :step], before[:, :step])
        assert np.abs(after[:, step] - before[:, step]).max() > 1e-3
    static = layer.finalize()
    assert_close(static(x), before)
    described = layer.describe()
    for name in ("K", "M"):
        assert np.all(np.triu(described[f"matrix/{name}0"], 1) == 0)


def test_an_ordinary_operation_looks_ahead_once_it_has_moved(rng):
    layer = moved(layers.XDConv1D(3, 2, padding="causal"), rng, (None, 12, 2))
    x = rng.standard_normal((1, 12, 2)).astype("float32")
    changed = x + np.float32(1) * (np.arange(12) == 11)[None, :, None]
    assert np.abs(np.asarray(layer(changed) - layer(x)))[:, :11].max() > 1e-3


def test_every_output_can_learn_from_every_earlier_input(rng):
    layer = moved(layers.XDCausalConv1D(1, 2, use_bias=False), rng, (None, 6, 1))
    matrix = keras.ops.convert_to_numpy(layer(np.eye(6, dtype="float32")[..., None]))[..., 0].T
    assert np.all((np.abs(matrix) > 1e-5) == np.tri(6, dtype=bool))


def test_gradients_by_finite_differences(rng):
    layer = moved(layers.XDCausalConv1D(2, 2, depth=2), rng, (None, 5, 2))
    x = rng.standard_normal((2, 5, 2)).astype("float32")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x) ** 2)
    variables = layer.trainable_variables
    for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
        direction = gradient / tf.norm(gradient)
        change = 0.0
        for sign in (1, -1):
            variable.assign_add(sign * 1e-2 * direction)
            change += sign * float(tf.reduce_sum(layer(x) ** 2))
            variable.assign_sub(sign * 1e-2 * direction)
        np.testing.assert_allclose(change / 2e-2, float(tf.norm(gradient)), rtol=5e-3)


def test_nothing_outside_the_triangles_is_trained(rng):
    layer = layers.XDCausalConv1D(2, 2, depth=2, warm_start="random_triangular", seed=3)
    model = keras.Sequential([keras.Input((5, 2)), layer])
    before = [keras.ops.convert_to_numpy(w) for w in layer.architecture_variables]
    model.compile("adam", "mse", run_eagerly=True)
    model.fit(rng.standard_normal((8, 5, 2)), rng.standard_normal((8, 5, 2)), verbose=0)
    n = layer.geometry[0].padded_size
    for index, name in ((0, "K"), (2, "M")):
        change = keras.ops.convert_to_numpy(layer.architecture_variables[index]) - before[index]
        # Storage of a stage is column by column.
        factors = change.reshape(2, 2, n, n).swapaxes(-1, -2)
        for slot, factor in enumerate(factors):
            lower = (slot % 2 == 0) == (name == "K")
            outside = np.triu(np.ones((n, n)), 1) if lower else np.tril(np.ones((n, n)), -1)
            assert np.all(factor[:, outside > 0] == 0) and np.any(factor != 0)


def test_random_start_is_reproducible_and_keeps_the_scale(rng):
    layer = layers.XDCausalConv1D(1, 4, warm_start="random_triangular", use_bias=False)
    layer.build((None, 60, 1))
    again = layers.XDCausalConv1D.from_config(layer.get_config())
    again.build((None, 60, 1))
    for a, b in zip(layer.architecture_variables, again.architecture_variables, strict=True):
        np.testing.assert_array_equal(a, b)
    layer.kernel.assign(np.full((4, 1, 1), 0.5))
    outputs = np.asarray(layer(rng.standard_normal((500, 60, 1)).astype("float32")))
    # A convolution by this kernel, whose squares add up to 1, leaves inputs their variance.
    assert 0.8 < np.std(outputs) < 1.25


def test_rows_of_the_random_start_have_their_norms():
    layer = layers.XDCausalConv1D(1, 4, warm_start="random_triangular", seed=0)
    layer.build((None, 10, 1))
    for name, norm in (("M", 2.0), ("K", np.sqrt(8))):
        rows = np.linalg.norm(layer.describe()[f"matrix/{name}0"], axis=1)
        np.testing.assert_allclose(rows, np.full(len(rows), norm), rtol=1e-5)


def test_zero():
    layer = layers.XDCausalConv1D(3, 2, warm_start="zero", use_bias=False)
    np.testing.assert_array_equal(layer(np.ones((1, 5, 2), "float32")), np.zeros((1, 5, 3)))


def test_layer_checks():
    arguments = {"filters": 3, "kernel_size": 2, "depth": 2, "dilation_rate": 2}
    check_layer(layers.XDCausalConv1D, arguments, (3, 5, 2))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"warm_start": "fourier_operator"}, "one of 'convolution', 'zero', 'random_triangular'"),
        ({"groups": 3}, "must divide `filters`"),
        ({"groups": 4}, "must divide the number of input channels. Received: groups=4, channels=2"),
        ({"strides": 2, "dilation_rate": 2}, "cannot be combined"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.XDCausalConv1D(**{"filters": 4, "kernel_size": 2, **arguments}).build((None, 8, 2))


def test_unknown_steps_are_refused():
    with pytest.raises(ValueError, match="every spatial size to be known"):
        layers.XDCausalConv1D(4, 2).build((None, None, 2))
