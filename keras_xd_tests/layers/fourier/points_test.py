"""Scattered points to a grid and back: beside NumPy, on plane functions, files, bad input."""

import keras
import numpy as np
import pytest

from keras_xd import layers


@pytest.mark.parametrize("sizes", [(7,), (5, 4), (4, 3, 5)])
def test_the_grid_is_the_weighted_mean_of_the_points(sizes, rng):
    rank = len(sizes)
    values = rng.normal(size=(2, 11, 3)).astype("float32")
    places = rng.uniform(size=(2, 11, rank)).astype("float32")
    found = np.array(layers.PointsToGrid(sizes, bandwidth=0.7)([values, places]))
    assert found.shape == (2, *sizes, 3)
    for index in np.ndindex(*sizes):
        grid = np.array(index) / (np.array(sizes) - 1)
        distances = (grid - places) * (np.array(sizes) - 1) / 0.7
        weights = np.exp(-(distances**2).sum(-1) / 2)
        expected = np.einsum("bp,bpc->bc", weights / weights.sum(1, keepdims=True), values)
        np.testing.assert_allclose(found[(slice(None), *index)], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [(7,), (5, 4), (4, 3, 5)])
def test_linear_functions_are_sampled_exactly(sizes, rng):
    axes = np.meshgrid(*[np.linspace(0, 1, size) for size in sizes], indexing="ij")
    slopes = rng.normal(size=(len(sizes), 2))
    grid = (np.stack(axes, axis=-1) @ slopes)[None].astype("float32")
    places = rng.uniform(size=(1, 9, len(sizes))).astype("float32")
    found = layers.GridToPoints()([grid, places])
    np.testing.assert_allclose(found, places @ slopes, rtol=1e-4, atol=1e-5)
    outside = layers.GridToPoints()([grid, places + 5])
    np.testing.assert_allclose(outside[0], np.tile(slopes.sum(0), (9, 1)), rtol=1e-4, atol=1e-5)


def test_an_operator_between_them_is_trained_and_saved(tmp_path, rng):
    values, places = keras.Input((None, 1)), keras.Input((None, 2))
    x = layers.PointsToGrid((8, 6))([values, places])
    x = layers.SpectralConv2D(3, 3, data_format="channels_last")(x)
    model = keras.Model([values, places], layers.GridToPoints()([x, places]))
    model.compile("sgd", "mse")
    data = [rng.uniform(size=(4, 20, 1)), rng.uniform(size=(4, 20, 2))]
    history = model.fit(data, rng.normal(size=(4, 20, 3)), epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(data), model.predict(data))


def _pair(first, places):
    return [np.zeros(first, "float32"), np.zeros(places, "float32")]


def _trained(data):
    """Numbers of points that a model of unknown ones is told in `fit`."""
    inputs = [keras.Input((None, 1)), keras.Input((None, 1))]
    model = keras.Model(inputs, layers.PointsToGrid((4,))(inputs))
    model.compile("sgd", "mse")
    model.fit(data, np.zeros((2, 4, 1)), verbose=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: layers.PointsToGrid((1, 4)), r"sizes=\(1, 4\)"),
        (lambda: layers.PointsToGrid((4, 4, 4, 4)), "number of sizes"),
        (lambda: layers.PointsToGrid((4,), bandwidth=0), "bandwidth=0"),
        (
            lambda: layers.PointsToGrid((4, 4))([np.zeros((1, 3, 1)), np.zeros((1, 3, 1))]),
            r"\(batch, points, 2\)",
        ),
        (
            lambda: layers.GridToPoints()([np.zeros((1, 3, 3, 1)), np.zeros((1, 3, 1))]),
            r"\(batch, points, 2\)",
        ),
        (lambda: layers.GridToPoints()([np.zeros((3, 1)), np.zeros((1, 3, 1))]), "Functions"),
        (lambda: layers.PointsToGrid((4,))(np.zeros((2, 3, 1))), "must be a pair"),
        (lambda: layers.GridToPoints()(np.zeros((2, 3, 1))), r"inputs of shape \(2, 3, 1\)"),
        (lambda: layers.PointsToGrid((4,))(_pair((2, 5, 3), (2, 4, 1))), "same samples and points"),
        (lambda: layers.PointsToGrid((4,))(_pair((3, 5, 3), (2, 5, 1))), "same samples and points"),
        (lambda: layers.GridToPoints()(_pair((2, 5, 3), (3, 4, 1))), "same samples. Received"),
        (lambda: _trained(_pair((2, 5, 1), (2, 4, 1))), "same samples and points"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
