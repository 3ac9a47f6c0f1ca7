import keras
import numpy as np
import pytest

from keras_xd.grammar import build, primitives, read_term, spaces

TABLE = primitives.einspace((8, 8))


def model(term, size=(8, 8), channels=8, head=True):
    head = primitives.head(3) if head else None
    return build(term, keras.Input((*size, channels)), primitives.einspace(size), head=head)


def test_random_terms_build_and_train_a_step(rng):
    grammar = spaces.einspace()
    for _ in range(6):
        network = model(grammar.sample(rng))
        network.compile("sgd", "mse", run_eagerly=True)
        x = rng.normal(size=(2, 8, 8, 8)).astype("float32")
        assert np.isfinite(network.train_on_batch(x, np.zeros((2, 3))))


@pytest.mark.parametrize("name", ["resnet", "vit", "mlp_mixer"])
@pytest.mark.parametrize("size", [(8, 8), (9, 6)])
def test_baselines_build_on_images_of_any_shape(name, size):
    network = model(spaces.einspace_baselines()[name], size)
    assert network.output_shape == (None, 3)


def test_im2col_linear_col2im_is_a_convolution(rng):
    term = read_term("(S Linear3 im2col3x3 linear9to2 col2im)")
    x = rng.normal(size=(2, 8, 8, 4)).astype("float32")
    network = model(term, channels=4, head=False)
    dense = next(layer for layer in network.layers if isinstance(layer, keras.layers.Dense))
    kernel = keras.ops.reshape(dense.kernel, (3, 3, 4, 8))
    expected = keras.ops.conv(x, kernel, padding="same") + dense.bias
    np.testing.assert_allclose(network(x), expected, atol=1e-4)


def test_attention_is_that_of_keras(rng):
    grammar = spaces.einspace()
    part = "(COLUMN_PART Linear1 (COMPUTE linear))"
    square = f"(SQUARE clone2_matmul {part} (TRANSPOSED Linear2 {part} permute))"
    text = (
        "(NET Linear1 (IMAGE Linear3 im2col1x1 (COLUMNS clone2_matmul (SQUARE Linear2 "
        f"{square} (COMPUTE softmax)) {part}) col2im))"
    )
    network = model(grammar.parse(text), head=False)
    x = rng.normal(size=(2, 8, 8, 8)).astype("float32")
    dense = [layer for layer in network.layers if isinstance(layer, keras.layers.Dense)]
    dense.sort(key=lambda layer: int(layer.name.split("edge")[1]))
    query, key, value = [layer(keras.ops.reshape(x, (2, 64, 8))) for layer in dense]
    weights = keras.ops.softmax(query @ keras.ops.transpose(key, (0, 2, 1)))
    expected = keras.ops.reshape(weights @ value, (2, 8, 8, 8))
    np.testing.assert_allclose(network(x), expected, atol=1e-4)


def test_groups_split_channels(rng):
    term = read_term("(S group2_concat id softmax)")
    x = rng.normal(size=(2, 8, 8, 8)).astype("float32")
    y = keras.ops.convert_to_numpy(model(term, head=False)(x))
    np.testing.assert_allclose(y[..., :4], x[..., :4])
    np.testing.assert_allclose(y[..., 4:], keras.ops.softmax(x[..., 4:]), atol=1e-6)
    with pytest.raises(ValueError, match="divisible by 2"):
        model(term, channels=3)


def test_columns_of_another_image_are_refused():
    with pytest.raises(ValueError, match="5 columns for images of"):
        TABLE["col2im"]((None, 5, 3), "name")


def test_positional_encoding_is_a_layer():
    layer = primitives.einspace((8, 8))["pos_enc"]((None, 4, 2), "encoding")
    layer.build((None, 4, 2))
    x = np.ones((1, 4, 2), "float32")
    np.testing.assert_allclose(layer(x), x + keras.ops.convert_to_numpy(layer.encoding)[None])
    assert type(layer).from_config(layer.get_config()).name == "encoding"
