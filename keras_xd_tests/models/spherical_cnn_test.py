"""The planar network for spherical images: sizes by hand, its search space, bad arguments."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import models


def test_parameters_and_shapes():
    model = models.spherical_cnn((60, 60, 1), 10)
    assert model.get_layer("conv1").output.shape == (None, 19, 19, 20)
    assert model.get_layer("conv2").output.shape == (None, 5, 5, 40)
    convolutions = (25 + 1) * 20 + (25 * 20 + 1) * 40
    assert model.count_params() == convolutions + (5 * 5 * 40 + 1) * 10 == 30_570


def test_the_search_space_starts_as_the_network(rng):
    model = models.spherical_cnn((17, 20, 1), 3, filters=(2, 3))
    space = keras_xd.rewrite(model, to="k_operation", depth=1)
    inputs = rng.normal(size=(2, 17, 20, 1)).astype("float32")
    np.testing.assert_allclose(space(inputs), model(inputs), atol=1e-4)
    for name in ("conv1", "conv2"):
        assert isinstance(space.get_layer(name), keras_xd.layers.KOpConv2D)
        assert space.get_layer(name).strides == (3, 3)


def test_reloads(tmp_path, rng):
    model = models.spherical_cnn((17, 17, 1), 3, filters=(2, 2))
    inputs = rng.normal(size=(2, 17, 17, 1)).astype("float32")
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(restored(inputs), model(inputs))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_shape": (60, 60)}, "Received: input_shape="),
        ({"input_shape": (16, 60, 1)}, r"Received: input_shape=\(16, 60, 1\)"),
        ({"classes": 0}, "Received: classes=0"),
        ({"filters": 20}, None),
        ({"filters": (20, 0)}, r"Received: filters=\(20, 0\)"),
    ],
)
def test_bad_arguments(options, message):
    arguments = {"input_shape": (60, 60, 1), "classes": 10, **options}
    if message is None:  # one number stands for both
        assert models.spherical_cnn(**arguments).get_layer("conv2").filters == 20
        return
    with pytest.raises(ValueError, match=message):
        models.spherical_cnn(**arguments)
