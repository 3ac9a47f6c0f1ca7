import keras
import numpy as np
import pytest

from keras_xd import kmatrix, layers
from keras_xd.layers import warm_starts


def built(layer, x):
    layer(x)
    return keras.ops.convert_to_numpy(layer.kernel)


def test_permutations_of_inputs_and_outputs(rng):
    x = rng.standard_normal((2, 15, 4)).astype("float32")
    for padding, count in (("same", 15), ("circular", 15), ("valid", 13)):
        before, after = rng.permutation(15), rng.permutation(count)
        start = warm_starts.Composed("convolution", input=before, output=after)
        layer = layers.XDConv1D(3, 3, padding=padding, depth=(3, 1, 3), warm_start=start)
        plain = layers.XDConv1D(3, 3, padding=padding)
        kernel = built(layer, x)
        plain(x[:, before])
        plain.kernel.assign(kernel)
        expected = keras.ops.convert_to_numpy(plain(x[:, before]))[:, after]
        np.testing.assert_allclose(layer(x), expected, atol=1e-5)
        np.testing.assert_allclose(layer.finalize()(x), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["convolution", "average_pooling"])
def test_permutations_of_the_axes_of_images_with_strides(name, rng):
    rows, columns, out_rows = rng.permutation(8), rng.permutation(9), rng.permutation(4)
    start = warm_starts.Composed(name, input=(rows, columns), output=(out_rows, None))
    layer = layers.XDConv2D(3, 3, 2, "same", depth=3, warm_start=start)
    x = rng.standard_normal((2, 8, 9, 3)).astype("float32")
    kernel = built(layer, x)
    shuffled = x[:, rows][:, :, columns]
    twin = keras.layers.AveragePooling2D(3, 2, "same")
    if name == "convolution":
        twin = keras.layers.Conv2D(3, 3, 2, "same")
        twin.build(x.shape)
        twin.kernel.assign(kernel)
    expected = keras.ops.convert_to_numpy(twin(shuffled))[:, out_rows]
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


@pytest.mark.parametrize(
    "side, depth, form",
    [
        ("input", 1, "plain"),
        ("output", 1, "transposed"),
        ("output", 2, "plain"),
        ("input", 2, "transposed"),
        ("output", 3, "without imaginary parts"),
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


@pytest.mark.parametrize(
    "entry, depth, message",
    [
        ([1, 0], 3, "have their number, 8 on this"),
        (kmatrix.KMatrix.identity(8, radix=8), 3, "must have its radices"),
        (kmatrix.KMatrix.dct(8), 3, "not the real part of one"),
        (([1, 0], [1, 0]), 3, "an entry for each of the 1 axes"),
        (np.arange(8), 2, r"needs depth \(1, 1, 3\)"),
        ([0, 2], 3, "permutations of 0"),
    ],
)
def test_bad_input(entry, depth, message):
    with pytest.raises(ValueError, match=message):
        start = warm_starts.Composed("convolution", entry)
        layers.XDConv1D(2, 3, padding="circular", warm_start=start, depth=depth).build((1, 8, 2))
    with pytest.raises(ValueError, match="between 0 and 1"):
        warm_starts.Perturbed("convolution", 1.5)
