import keras
import numpy as np
import pytest
from matplotlib.figure import Figure

from keras_xd import layers
from keras_xd.visualization import operator_matrix, plot_operators


def built(layer, *input_shape):
    layer.build((None, *input_shape))
    return layer


def perturbed(layer, rng, scale=0.1):
    """Move the architecture away from its start."""
    for variable in layer.architecture_variables:
        variable.assign(variable + rng.normal(scale=scale, size=variable.shape))
    return layer


class Scale(layers.SearchableLayer):
    """A search space without matrices."""

    architecture_variables = ()

    def call(self, inputs):
        return 2.0 * inputs

    def describe(self):
        return {"scale": 2.0}


def heatmaps(figure):
    """Return the drawn images by row and column, without the colour bars."""
    images = [axes.images[0] for axes in figure.axes if axes.images]
    return np.array(images, dtype=object).reshape(2, -1)


def test_matrix_of_a_convolution_holds_its_weights():
    layer = built(keras.layers.Conv2D(2, 3, padding="same"), 4, 5, 3)
    layer.bias.assign([1.0, 2.0])
    matrix = operator_matrix(layer, channel=1, filter=1)
    kernel = layer.kernel.numpy()[:, :, 1, 1]
    expected = np.zeros((20, 20))
    for row, column in np.ndindex(4, 5):
        for i, j in np.ndindex(3, 3):
            r, c = row + i - 1, column + j - 1
            if 0 <= r < 4 and 0 <= c < 5:
                expected[row * 5 + column, r * 5 + c] = kernel[i, j]
    np.testing.assert_allclose(matrix, expected, atol=1e-6)


def test_matrix_of_an_operation_is_the_product_of_its_matrices(rng):
    layer = built(layers.XDConv1D(2, 3, strides=2, frequency_bias=True, channel_gates=True), 11, 2)
    perturbed(layer, rng)
    described, (geometry,) = layer.describe(), layer.geometry
    *_, b, gates = (variable.numpy() for variable in layer.architecture_variables)
    K, L, M = (described[f"matrix/{name}0"] for name in "KLM")
    weights = geometry.placement() @ layer.kernel.numpy()[:, 0, 1]
    spectrum = gates[0, 1] * (L @ weights + b[..., 0] + 1j * b[..., 1])
    expected = (K @ np.diag(spectrum) @ M).real
    expected = expected[: 2 * geometry.output_size : 2, : geometry.size]
    np.testing.assert_allclose(operator_matrix(layer, 0, 1), expected, atol=1e-5)


def test_matrix_in_two_dimensions_is_a_kronecker_product(rng):
    layer = perturbed(built(layers.XDConv2D(1, 3, padding="circular"), 4, 3, 1), rng)
    described = layer.describe()
    K, L, M = (
        np.kron(described[f"matrix/{name}0"], described[f"matrix/{name}1"]) for name in "KLM"
    )
    first, second = (geometry.placement() for geometry in layer.geometry)
    weights = (first @ layer.kernel.numpy()[..., 0, 0] @ second.T).ravel()
    expected = (K @ np.diag(L @ weights) @ M).real
    np.testing.assert_allclose(operator_matrix(layer), expected, atol=1e-5)


def test_activation_bias_and_data_format_do_not_matter(rng):
    arguments = {"padding": "same", "kernel_initializer": keras.initializers.GlorotUniform(3)}
    plain = built(layers.XDConv2D(2, 3, **arguments), 5, 4, 3)
    other = layers.XDConv2D(
        2,
        3,
        activation="relu",
        bias_initializer="ones",
        data_format="channels_first",
        dtype="mixed_float16",
        **arguments,
    )
    built(other, 3, 5, 4)
    expected = operator_matrix(plain, 2, 1)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(operator_matrix(other, 2, 1), expected, atol=1e-6)


def test_matrix_of_a_finalized_layer(rng):
    layer = perturbed(built(layers.XDConv2D(2, 3, activation="relu"), 5, 6, 2), rng)
    np.testing.assert_allclose(
        operator_matrix(layer.finalize(), 1, 1), operator_matrix(layer, 1, 1), atol=1e-5
    )


def test_picture_shows_the_start_above_the_search(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    convolution = built(keras.layers.Conv2D(2, 3, padding="same"), 4, 6, 3)
    searched = built(layers.XDConv2D(2, 3, padding="same"), 4, 6, 3)
    start = {name: np.abs(value) for name, value in searched.describe().items()}
    perturbed(searched, rng)
    before = [variable.numpy() for variable in searched.weights]

    figure = plot_operators(convolution, searched, channel=2, filter=1)

    assert isinstance(figure, Figure)
    assert not list(tmp_path.iterdir())
    for variable, value in zip(searched.weights, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
    drawn = heatmaps(figure)
    names = ["matrix/M0", "matrix/M1", "matrix/K0", "matrix/K1"]
    now = searched.describe()
    for column, name in enumerate(names):
        np.testing.assert_allclose(drawn[0, column].get_array(), start[name], atol=1e-6)
        np.testing.assert_allclose(drawn[1, column].get_array(), np.abs(now[name]), atol=1e-6)
    np.testing.assert_allclose(drawn[0, 4].get_array(), operator_matrix(convolution, 2, 1))
    np.testing.assert_allclose(drawn[1, 4].get_array(), operator_matrix(searched, 2, 1))
    for upper, lower in drawn.T[:4]:
        largest = max(image.get_array().max() for image in (upper, lower))
        assert upper.get_clim() == lower.get_clim() == (0, pytest.approx(largest))
    for image in drawn[:, 4]:
        largest = pytest.approx(np.abs(image.get_array()).max())
        assert image.get_clim()[1] == -image.get_clim()[0] == largest
    figure.savefig(tmp_path / "operators.png")
    assert (tmp_path / "operators.png").stat().st_size > 1000


def test_picture_of_two_searchable_layers_shows_both_as_they_are(rng):
    first = perturbed(built(layers.XDConv1D(1, 3, padding="causal"), 9, 1), rng)
    second = perturbed(built(layers.XDConv1D(1, 3, padding="causal"), 9, 1), rng)
    drawn = heatmaps(plot_operators(first, second))
    for row, layer in enumerate((first, second)):
        expected = np.abs(layer.describe()["matrix/M0"])
        np.testing.assert_allclose(drawn[row, 0].get_array(), expected, atol=1e-6)


def test_bad_input_is_refused():
    convolution = built(keras.layers.Conv2D(2, 3), 8, 8, 1)
    searched = built(layers.XDConv2D(2, 3), 8, 8, 1)
    for arguments in ({"channel": 1}, {"channel": -1}, {"filter": 2}, {"filter": 0.5}):
        with pytest.raises(ValueError, match=f"{list(arguments)[0]}.*Received"):
            operator_matrix(convolution, **arguments)
    with pytest.raises(ValueError, match="must be built.*Received"):
        operator_matrix(keras.layers.Conv2D(2, 3))
    with pytest.raises(ValueError, match="known spatial sizes.*Received"):
        operator_matrix(built(keras.layers.Conv2D(2, 3), None, 8, 1))
    with pytest.raises(ValueError, match=r"4096 positions.*Received.*\(65, 64\)"):
        operator_matrix(built(keras.layers.Conv2D(2, 3), 65, 64, 1))
    with pytest.raises(ValueError, match="must be a searchable layer.*Received"):
        plot_operators(convolution, searched.finalize())
    with pytest.raises(ValueError, match="same input shape.*Received"):
        plot_operators(built(keras.layers.Conv2D(2, 3), 8, 9, 1), searched)
    with pytest.raises(ValueError, match="same matrices.*Received"):
        plot_operators(built(Scale(), 8, 8, 1), searched)
