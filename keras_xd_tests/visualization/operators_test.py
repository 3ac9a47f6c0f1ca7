import keras
import numpy as np
import pytest
from matplotlib.figure import Figure

from keras_xd import layers
from keras_xd.visualization import operators, plot_operators
from keras_xd.visualization.operators import impulse_responses, operator_matrix


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
    """Return the drawn images, three a row: of the operator, then of the matrices."""
    images = [axes.images[0] for axes in figure.axes if axes.images]
    return np.array(images, dtype=object).reshape(-1, 3)


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


def test_impulse_responses_are_columns_of_the_matrix(rng, monkeypatch):
    layer = perturbed(built(layers.XDConv2D(2, 3, strides=2), 7, 6, 3), rng)
    matrix = operator_matrix(layer, 2, 1)
    places = [0, 41, 17, 17]
    expected = matrix[:, places].T.reshape(4, 3, 2)
    whole = impulse_responses(layer, places, 2, 1)
    np.testing.assert_allclose(whole, expected, atol=1e-6)
    # Whatever number of impulses is measured at a time.
    monkeypatch.setattr(operators, "_ENTRIES", 300)
    np.testing.assert_allclose(impulse_responses(layer, places, 2, 1), whole, atol=1e-6)
    assert impulse_responses(layer, []).shape == (0, 3, 2)


def test_picture_shows_start_search_and_difference(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    convolution = built(keras.layers.Conv2D(2, 3, padding="same"), 4, 6, 3)
    searched = built(layers.XDConv2D(2, 3, padding="same"), 4, 6, 3)
    start = searched.describe()
    perturbed(searched, rng)
    before = [variable.numpy() for variable in searched.weights]

    figure = plot_operators(convolution, searched, channel=2, filter=1)

    assert isinstance(figure, Figure)
    assert not list(tmp_path.iterdir())
    for variable, value in zip(searched.weights, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
    drawn, now = heatmaps(figure), searched.describe()
    first, second = (operator_matrix(layer, 2, 1) for layer in (convolution, searched))
    operator = [np.asarray(image.get_array()) for image in drawn[0]]
    for found, expected in zip(operator, (first, second, second - first), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    for row, position in zip(drawn[1:4], (7, 15, 22), strict=True):
        for image, expected in zip(row, (first, second, second - first), strict=True):
            column = expected[:, position].reshape(4, 6)
            np.testing.assert_allclose(np.asarray(image.get_array()), column, atol=1e-6)
    # What is compared has one scale.
    largest = max(np.abs(found).max() for found in operator)
    for image in drawn[:4].flat:
        assert image.get_clim() == (pytest.approx(-largest), pytest.approx(largest))
    changes = []
    for row, name in zip(drawn[4:], ("M0", "M1", "K0", "K1"), strict=True):
        pair = start[f"matrix/{name}"], now[f"matrix/{name}"]
        for image, matrix in zip(row, pair, strict=False):
            expected = np.angle(matrix)
            expected[np.abs(matrix) < 0.05 * np.abs(matrix).max()] = np.nan
            found = np.ma.filled(image.get_array(), np.nan)
            np.testing.assert_allclose(np.exp(1j * found), np.exp(1j * expected), atol=1e-5)
        changes.append(np.abs(pair[1] - pair[0]))
        np.testing.assert_allclose(np.asarray(row[2].get_array()), changes[-1], atol=1e-6)
    limits = [row[2].get_clim() for row in drawn[4:]]
    np.testing.assert_allclose(limits, [(0, max(change.max() for change in changes))] * 4)
    spectra = [axes for axes in figure.axes if axes.get_title() == "spectrum of the operator"]
    for line, matrix in zip(spectra[0].lines, (first, second), strict=True):
        values = np.linalg.svd(matrix, compute_uv=False)
        np.testing.assert_allclose(line.get_ydata(), values, atol=1e-5)
    assert spectra[0].get_ylim()[0] == 0
    figure.savefig(tmp_path / "operators.png")
    assert (tmp_path / "operators.png").stat().st_size > 1000


def test_permuted_inputs_are_drawn_in_their_order_before(rng):
    """A convolution of permuted images is that of plain ones between two permutations."""
    order = [rng.permutation(4), rng.permutation(5)]
    layer = built(keras.layers.Conv2D(1, 3, padding="same"), 4, 5, 1)
    matrix = operator_matrix(layer).reshape(4, 5, 4, 5)
    expected = np.zeros_like(matrix)
    for place in np.ndindex(4, 5, 4, 5):
        i, j, k, m = place
        expected[order[0][i], order[1][j], order[0][k], order[1][m]] = matrix[place]
    searched = built(layers.XDConv2D(1, 3, padding="same"), 4, 5, 1)
    drawn = heatmaps(plot_operators(layer, searched, order=order))
    found = np.asarray(drawn[0, 0].get_array())
    np.testing.assert_allclose(found, expected.reshape(20, 20), atol=1e-6)
    strided = built(layers.XDConv1D(1, 3, strides=2, padding="same"), 6, 1)
    order = [[5, 3, 1, 0, 2, 4]]
    found = np.asarray(heatmaps(plot_operators(strided, strided, order=order))[0, 0].get_array())
    # Position 5 before the permutation is the first that the layer sees; outputs stay.
    np.testing.assert_allclose(found[:, 5], operator_matrix(strided)[:, 0], atol=1e-6)


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
    for order in ([range(8)], [range(8), [0] * 8], [range(8), range(7)]):
        with pytest.raises(ValueError, match="permutation for each axis.*Received"):
            plot_operators(convolution, searched, order=order)
    with pytest.raises(ValueError, match="`positions` must be.*Received"):
        plot_operators(convolution, searched, positions=0)
    with pytest.raises(ValueError, match="`positions` must be.*Received: positions=64"):
        impulse_responses(convolution, [64])
