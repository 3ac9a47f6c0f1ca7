import functools
import itertools

import keras
import numpy as np
import pytest

from keras_xd.grammar import build, parse, primitives, spaces
from keras_xd.grammar.einspace_primitives import ImageColumns

TABLE = primitives.einspace((8, 8))


def model(term, size=(8, 8), channels=8, head=True):
    head = primitives.head(3) if head else None
    return build(term, keras.Input((*size, channels)), primitives.einspace(size), head=head)


@functools.cache
def baseline(name, size):
    return model(spaces.einspace_baselines()[name], size)


def test_random_terms_build_and_train_a_step(rng):
    terms = iter(lambda: spaces.einspace().sample(rng), None)
    for term in itertools.islice((term for term in terms if 10 <= term.size <= 50), 3):
        network = model(term)
        network.compile("sgd", "mse", run_eagerly=True)
        x = rng.normal(size=(2, 8, 8, 8)).astype("float32")
        assert np.isfinite(network.train_on_batch(x, np.zeros((2, 3))))


@pytest.mark.parametrize("name", ["resnet18", "wide_resnet16_4", "vit", "mlp_mixer"])
def test_baselines_build_on_images_of_any_shape(name):
    network = baseline(name, (9, 6))
    assert network.output_shape == (None, 3)


def convolution(inputs, outputs, size):
    return size * size * inputs * outputs + outputs


def normalized(inputs, outputs, size):
    return convolution(inputs, outputs, size) + 4 * outputs


def test_residual_networks_have_the_parameters_of_the_papers():
    """Counted by hand with 8 channels, biases and the normalization of the head included."""
    names = ("resnet18", "wide_resnet16_4")
    counts = {name: baseline(name, (8, 8)).count_params() for name in names}
    expected = convolution(8, 8, 3) + 4 * normalized(8, 8, 3) + (4 + 3) * 64 + 3
    for width in (16, 32, 64):
        expected += normalized(width // 2, width, 3) + normalized(width // 2, width, 1)
        expected += 3 * normalized(width, width, 3)
    assert counts["resnet18"] == expected
    expected = (4 + 3) * 128 + 3
    for before, width in ((8, 32), (32, 64), (64, 128)):
        # Two blocks: convolution, normalization, convolution; the sum is normalized.
        expected += normalized(before, width, 3) + normalized(width, width, 3)
        expected += convolution(before, width, 1)
        expected += 2 * normalized(width, width, 3)
    assert counts["wide_resnet16_4"] == expected


def test_im2col_linear_col2im_is_a_convolution(rng):
    term = parse("(S Linear3 im2col3x3 linear9to2 col2im)")
    x = rng.normal(size=(2, 8, 8, 4)).astype("float32")
    network = model(term, channels=4, head=False)
    dense = next(layer for layer in network.layers if isinstance(layer, keras.layers.Dense))
    kernel = keras.ops.reshape(dense.kernel, (3, 3, 4, 8))
    expected = keras.ops.conv(x, kernel, padding="same") + dense.bias
    np.testing.assert_allclose(network(x), expected, atol=1e-4)


@pytest.mark.parametrize("arguments", [(0, 1), (3, 0), (3, 4), (2.5, 1)])
def test_wrong_sizes_of_columns_are_refused(arguments):
    with pytest.raises(ValueError, match=r"`(size|stride)` must be"):
        ImageColumns(*arguments)


@pytest.mark.parametrize("product", ["clone2_matmul", "clone2_scaled_matmul"])
def test_attention_is_that_of_keras(rng, product):
    grammar = spaces.einspace()
    part = "(COLUMN_PART Linear1 (COMPUTE linear))"
    square = f"(SQUARE {product} {part} (TRANSPOSED Linear2 {part} permute))"
    text = (
        "(NET Linear3 im2col1x1 (COLUMNS clone2_matmul (SQUARE Linear2 "
        f"{square} (COMPUTE softmax)) {part}) col2im)"
    )
    network = model(grammar.parse(text), head=False)
    x = rng.normal(size=(2, 8, 8, 8)).astype("float32")
    dense = [layer for layer in network.layers if isinstance(layer, keras.layers.Dense)]
    dense.sort(key=lambda layer: int(layer.name.split("edge")[1]))
    query, key, value = [layer(keras.ops.reshape(x, (2, 64, 8))) for layer in dense]
    attention = keras.layers.Attention(use_scale=product == "clone2_matmul")  # a scale of 1
    if product == "clone2_scaled_matmul":
        query = query / np.sqrt(8)
    expected = keras.ops.reshape(attention([query, value, key]), (2, 8, 8, 8))
    np.testing.assert_allclose(network(x), expected, atol=1e-4)


def test_groups_split_channels(rng):
    term = parse("(S group2_concat id softmax)")
    x = rng.normal(size=(2, 8, 8, 8)).astype("float32")
    y = keras.ops.convert_to_numpy(model(term, head=False)(x))
    np.testing.assert_allclose(y[..., :4], x[..., :4])
    np.testing.assert_allclose(y[..., 4:], keras.ops.softmax(x[..., 4:]), atol=1e-6)
    with pytest.raises(ValueError, match="divisible by 2"):
        model(term, channels=3)


@pytest.mark.parametrize("name", ["im2col1x1s2", "im2col3x3s2", "im2col4x4s4", "im2col8x8s8"])
def test_columns_are_windows(rng, name):
    size, stride = int(name[6]), int(name[-1])
    x = rng.normal(size=(2, 9, 9, 4)).astype("float32")
    columns = keras.ops.convert_to_numpy(TABLE[name](x.shape, "columns")(x))
    count = -(-9 // stride)
    padding = (count - 1) * stride + size - 9
    before = padding // 2
    padded = np.pad(x, [(0, 0), *2 * [(before, padding - before)], (0, 0)])
    for row in range(count):
        for column in range(count):
            top, left = row * stride, column * stride
            window = padded[:, top : top + size, left : left + size].reshape(2, -1)
            np.testing.assert_array_equal(columns[:, row * count + column], window)


def test_clones_are_concatenated_and_mapped_back(rng):
    network = model(parse("(S clone2_concat id softmax)"), head=False)
    x = rng.normal(size=(2, 8, 8, 8)).astype("float32")
    dense = next(layer for layer in network.layers if isinstance(layer, keras.layers.Dense))
    joined = np.concatenate([x, keras.ops.convert_to_numpy(keras.ops.softmax(x))], -1)
    assert dense.kernel.shape == (16, 8)
    np.testing.assert_allclose(network(x), joined @ dense.kernel + dense.bias, atol=1e-5)


def test_activations_and_normalizations_have_the_published_constants():
    leaky, x = TABLE["leaky_relu"]((None, 4), "leaky"), np.array([[-1.0, 2.0]], "float32")
    np.testing.assert_allclose(leaky(x), [[-0.01, 2.0]])
    for shape in ((None, 4, 4, 8), (None, 16, 8)):
        assert TABLE["norm"](shape, "norm").epsilon == 1e-5
    encoding = TABLE["pos_enc"]((None, 64, 64), "encoding")
    encoding.build((None, 64, 64))
    assert np.std(encoding.encoding) == pytest.approx(1.0, abs=0.05)


def test_columns_of_another_image_are_refused():
    with pytest.raises(ValueError, match="5 columns for images of"):
        TABLE["col2im"]((None, 5, 3), "name")
