import json

import keras
import numpy as np
import pytest

from keras_xd import kmatrix, layers
from keras_xd.layers import warm_starts
from keras_xd.testing import check_variant


def built(layer, x):
    layer(x)
    return keras.ops.convert_to_numpy(layer.kernel)


@pytest.mark.parametrize("padding", ["same", "circular", "valid"])
def test_permutations_of_inputs_and_outputs_1d(padding, rng):
    n, count = 15, 13 if padding == "valid" else 15
    before, after = rng.permutation(n), rng.permutation(count)
    start = warm_starts.Composed("convolution", input=before, output=after)
    layer = layers.XDConv1D(3, 3, padding=padding, depth=(3, 1, 3), warm_start=start)
    plain = layers.XDConv1D(3, 3, padding=padding)
    x = rng.standard_normal((2, n, 4)).astype("float32")
    kernel = built(layer, x)
    plain(x[:, before])
    plain.kernel.assign(kernel)
    expected = np.asarray(keras.ops.convert_to_numpy(plain(x[:, before])))[:, after]
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)
    np.testing.assert_allclose(layer.finalize()(x), expected, atol=1e-5)


def test_permutations_of_the_axes_of_images_with_strides(rng):
    rows, columns, out_rows = rng.permutation(8), rng.permutation(9), rng.permutation(4)
    start = warm_starts.Composed("convolution", input=(rows, columns), output=(out_rows, None))
    layer = layers.XDConv2D(2, 3, 2, "same", depth=3, warm_start=start)
    twin = keras.layers.Conv2D(2, 3, 2, "same")
    x = rng.standard_normal((2, 8, 9, 3)).astype("float32")
    kernel = built(layer, x)
    shuffled = x[:, rows][:, :, columns]
    twin(shuffled)
    twin.kernel.assign(kernel)
    expected = keras.ops.convert_to_numpy(twin(shuffled))[:, out_rows]
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


@pytest.mark.parametrize(
    "side, depth, form",
    [
        (("input", "output")[(depth + column) % 2], depth, form)
        for depth in (1, 2, 3)
        for column, form in enumerate(("plain", "transposed", "without imaginary parts"))
    ],
)
def test_any_k_matrix_before_or_after(side, depth, form, rng):
    n = 12
    matrix = kmatrix.KMatrix.random_orthogonal(n, depth=depth, seed=depth)
    if form == "transposed":
        matrix = matrix.T
        depth += depth % 2
    elif form == "without imaginary parts":
        matrix = kmatrix.KMatrix(matrix.weights[:, :1], matrix.plan)
    dense = matrix.numpy().real
    # Of a circular convolution all n points are inputs and outputs.
    start = warm_starts.Composed("convolution", **{side: matrix})
    layer = layers.XDConv1D(2, 3, padding="circular", depth=depth + 2, warm_start=start)
    plain = layers.XDConv1D(2, 3, padding="circular")
    x = rng.standard_normal((2, n, 3)).astype("float32")
    kernel = built(layer, x)
    plain(x)
    plain.kernel.assign(kernel)
    if side == "input":
        expected = plain(np.einsum("st,btc->bsc", dense, x))
    else:
        expected = np.einsum("st,btc->bsc", dense, keras.ops.convert_to_numpy(plain(x)))
    np.testing.assert_allclose(layer(x), expected, atol=2e-5)


def test_pooling_of_a_permuted_image(rng):
    order = rng.permutation(8)
    start = warm_starts.Composed("average_pooling", input=(order, order))
    layer = layers.XDConv2D(3, 2, 2, depth=(1, 1, 3), warm_start=start)
    x = rng.standard_normal((2, 8, 8, 3)).astype("float32")
    expected = keras.layers.AveragePooling2D(2)(x[:, order][:, :, order])
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


def test_perturbed_goes_from_the_start_to_random(rng):
    x = rng.standard_normal((2, 12, 3)).astype("float32")
    plain = layers.XDConv1D(2, 3, depth=2)
    plain(x)
    start = [keras.ops.convert_to_numpy(w) for w in plain.architecture_variables]
    distances = []
    for amount in (0.0, 0.1, 0.5, 1.0):
        warm_start = warm_starts.Perturbed("convolution", amount)
        layer = layers.XDConv1D(2, 3, depth=2, warm_start=warm_start, seed=3)
        layer(x)
        weights = [keras.ops.convert_to_numpy(w) for w in layer.architecture_variables]
        distances.append(
            np.sqrt(sum(np.sum((a - b) ** 2) for a, b in zip(weights, start, strict=True)))
        )
        again = layers.XDConv1D.from_config(layer.get_config())
        again(x)
        for a, b in zip(weights, again.architecture_variables, strict=True):
            np.testing.assert_array_equal(a, b)
    assert distances[0] == 0
    np.testing.assert_allclose(distances[2] / distances[1], 5, rtol=1e-3)
    np.testing.assert_allclose(distances[3] / distances[1], 10, rtol=1e-3)


def test_perturbed_entirely_keeps_the_scale():
    layer = layers.XDConv1D(
        2, 3, padding="circular", warm_start=warm_starts.Perturbed("convolution", 1.0), seed=0
    )
    layer(np.zeros((1, 16, 2), "float32"))
    described = layer.describe()
    for name, scale in (("K0", 1), ("M0", 1), ("L0", 16)):
        matrix = described[f"matrix/{name}"]
        np.testing.assert_allclose(matrix.conj().T @ matrix, scale * np.eye(16), atol=1e-4 * scale)


@pytest.mark.parametrize(
    "start",
    [
        warm_starts.Composed("average_pooling", input=[2, 0, 1]),
        warm_starts.Composed("convolution", output=kmatrix.KMatrix.random_unitary(6, seed=0)),
        warm_starts.Composed("convolution", input=kmatrix.KMatrix.hadamard(4).T),
        warm_starts.Composed("zero", input=([1, 0], None)),
        warm_starts.Perturbed(warm_starts.Composed("identity", output=[1, 0]), 0.25),
    ],
)
def test_starts_round_trip(start):
    identifier = warm_starts.identifier(start)
    restored = warm_starts.get(json.loads(json.dumps(identifier)))
    assert type(restored) is type(start) and restored.get_config() == start.get_config()


def test_layer_checks(rng):
    start = warm_starts.Perturbed(
        warm_starts.Composed("convolution", input=np.roll(np.arange(8), 3)), 0.05
    )
    arguments = {"filters": 2, "kernel_size": 3, "depth": (1, 1, 3), "warm_start": start, "seed": 1}
    check_variant(layers.XDConv1D, arguments, (2, 8, 3), rng)


def bad(message, start, **arguments):
    return pytest.param(start, arguments, message, id=message[:30])


@pytest.mark.parametrize(
    "start, arguments, message",
    [
        bad("have their number, 8 on this", lambda: warm_starts.Composed("convolution", [1, 0])),
        bad(
            "must have its radices",
            lambda: warm_starts.Composed("convolution", kmatrix.KMatrix.identity(8, radix=8)),
        ),
        bad(
            "not the real part of one",
            lambda: warm_starts.Composed("convolution", kmatrix.KMatrix.dct(8)),
        ),
        bad(
            "an entry for each of the 1 axes",
            lambda: warm_starts.Composed("convolution", ([1, 0], [1, 0])),
        ),
        bad(
            r"needs depth \(1, 1, 3\)",
            lambda: warm_starts.Composed("convolution", np.arange(8)),
            depth=2,
        ),
        bad("permutations of 0", lambda: warm_starts.Composed("convolution", [0, 2])),
        bad("between 0 and 1", lambda: warm_starts.Perturbed("convolution", 1.5)),
    ],
)
def test_bad_input(start, arguments, message):
    with pytest.raises(ValueError, match=message):
        layer = layers.XDConv1D(
            2, 3, padding="circular", warm_start=start(), **{"depth": 3, **arguments}
        )
        layer(np.zeros((1, 8, 2), "float32"))
