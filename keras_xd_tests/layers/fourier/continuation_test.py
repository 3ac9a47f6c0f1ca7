"""The continuation of functions to periodic ones: polynomials, smoothness, sizes, files."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import layers, models
from keras_xd.testing import assert_close


@pytest.mark.parametrize(("points", "order"), [(5, 1), (7, 3), (4, 8)])
def test_it_is_the_polynomial_through_both_ends(points, order, rng):
    x = rng.normal(size=(2, 12, 3))
    found = np.array(layers.FourierContinuation(points, order)(x.astype("float32")), "float64")
    np.testing.assert_allclose(found[:, :12], x, rtol=1e-6)
    places = np.r_[12 - order : 12, 12 + points : 12 + points + order] - 12.0
    ends = np.concatenate([x[:, 12 - order :], x[:, :order]], axis=1)
    for sample, channel in np.ndindex(2, 3):
        polynomial = np.polynomial.Polynomial.fit(places, ends[sample, :, channel], 2 * order - 1)
        expected = polynomial(np.arange(points, dtype=float))
        assert_close(found[sample, 12:, channel], expected, 1e-4)


@pytest.mark.parametrize(
    ("shape", "points", "expected"),
    [
        ((2, 6, 1), 3, (2, 9, 1)),
        ((2, 6, 5, 3), (0, 4), (2, 6, 9, 3)),
        ((1, 4, 5, 6, 2), 2, (1, 6, 7, 8, 2)),
    ],
)
def test_sizes_and_files(shape, points, expected, tmp_path, rng):
    model = keras.Sequential(
        [keras.Input((*[None] * (len(shape) - 2), shape[-1])), layers.FourierContinuation(points)]
    )
    x = rng.normal(size=shape).astype("float32")
    assert model(x).shape == expected
    assert layers.FourierContinuation(points).compute_output_shape(shape) == expected
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(x), model(x))


@pytest.mark.parametrize(
    ("arguments", "shape", "message"),
    [
        ((-1,), (1, 8, 1), "points=-1"),
        ((2, 9), (1, 8, 1), "order=9"),
        ((2, 4), (1, 3, 1), "order=4"),
        (((2, 2),), (1, 8, 1), r"points=\(2, 2\)"),
        ((2,), (8, 1), "shape"),
    ],
)
def test_bad_input(arguments, shape, message):
    with pytest.raises(ValueError, match=message):
        layers.FourierContinuation(*arguments)(np.zeros(shape, "float32"))


@pytest.mark.parametrize("operation", ["fourier", "xd"])
def test_operators_work_on_the_longer_function_and_return_the_sizes(operation, rng):
    options = {"width": 4, "modes": (4, 3), "blocks": 2, "operation": operation}
    model = models.fno((9, 8, 2), continuation=(3, 2), local_kernel=3, **options)
    x = rng.normal(size=(2, 9, 8, 2)).astype("float32")
    assert model(x).shape == (2, 9, 8, 1)
    assert model.get_layer("continuation").output.shape == (None, 12, 10, 4)
    plain = models.fno((9, 8, 2), continuation=0, **options)
    local = 2 * 3 * 3 * 4 * 4
    if operation == "fourier":  # the weights are those of all sizes
        assert model.count_params() == plain.count_params() + local
    final = keras_xd.finalize(model)
    np.testing.assert_allclose(final(x), model(x), rtol=1e-4, atol=1e-5)
    zeros = layers.FourierContinuation(4, order=0)
    padded = models.fno((9, 2), width=4, modes=4, blocks=1, continuation=zeros)
    assert padded(x[:, :, 0]).shape == (2, 9, 1)
    with pytest.raises(ValueError, match="FourierContinuation"):
        models.fno((9, 2), modes=4, continuation=keras.layers.ReLU())
