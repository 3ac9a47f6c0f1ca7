import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.testing import assert_close
from keras_xd_tests.layers.xd.drop_in_checks import assert_twin


@pytest.mark.parametrize(
    "steps, kernel, strides, dilation, groups",
    [(9, 1, 2, 1, 1), (9, 5, 1, 3, 1), (9, 2, 1, 1, 2), (1, 5, 2, 1, 1), (2, 5, 1, 1, 2)],
)
def test_equals_causal_conv1d(steps, kernel, strides, dilation, groups, rng):
    arguments = {"strides": strides, "dilation_rate": dilation, "groups": groups}
    twin = keras.layers.Conv1D(4, kernel, **arguments, padding="causal")
    layer = layers.XDCausalConv1D(4, kernel, **arguments, depth=(2, 1, 3))
    assert_twin(twin, layer, rng.standard_normal((2, steps, 2)).astype("float32"))


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


def test_every_output_can_learn_from_every_earlier_input(rng):
    layer = moved(layers.XDCausalConv1D(1, 2, use_bias=False), rng, (None, 6, 1))
    matrix = keras.ops.convert_to_numpy(layer(np.eye(6, dtype="float32")[..., None]))[..., 0].T
    assert np.all((np.abs(matrix) > 1e-5) == np.tri(6, dtype=bool))


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


def test_rows_of_the_random_start_have_their_norms():
    layer = layers.XDCausalConv1D(1, 4, warm_start="random_triangular", seed=0)
    layer.build((None, 10, 1))
    for name, norm in (("M", 2.0), ("K", np.sqrt(8))):
        rows = np.linalg.norm(layer.describe()[f"matrix/{name}0"], axis=1)
        np.testing.assert_allclose(rows, np.full(len(rows), norm), rtol=1e-5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"warm_start": "fourier_operator"}, "one of 'convolution', 'zero', 'random_triangular'"),
        ({"groups": 3}, "must divide `filters`"),
        ({"groups": 4}, "must divide the number of input channels. Received: groups=4, channels=2"),
        ({"steps": None}, "every spatial size to be known"),
    ],
)
def test_bad_input(arguments, message):
    shape = (None, arguments.pop("steps", 8), 2)
    with pytest.raises(ValueError, match=message):
        layers.XDCausalConv1D(**{"filters": 4, "kernel_size": 2, **arguments}).build(shape)
