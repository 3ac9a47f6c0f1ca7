"""LeNet: sizes by hand, files, training, bad arguments."""

import keras
import numpy as np
import pytest

from keras_xd import models
from keras_xd_tests.models import learning


def test_parameters_and_shapes():
    model = models.lenet((32, 32, 3), 10)
    convolutions = (5 * 5 * 3 + 1) * 6 + (5 * 5 * 6 + 1) * 16
    assert model.count_params() == convolutions + (5 * 5 * 16 + 1) * 120 + 121 * 84 + 85 * 10
    assert model.count_params() == 62_006
    assert model.input_shape == (None, 32, 32, 3)
    assert model.output_shape == (None, 10)
    assert model.get_layer("conv2").output.shape == (None, 10, 10, 16)


def test_same_padding_and_average_pooling():
    model = models.lenet((28, 28, 1), 10, padding="same", pooling="average")
    assert model.get_layer("flatten").output.shape == (None, 7 * 7 * 16)
    assert isinstance(model.get_layer("pool1"), keras.layers.AveragePooling2D)


def test_learns_and_reloads(tmp_path, rng):
    inputs = rng.normal(size=(16, 16, 16, 1)).astype("float32")
    labels = np.arange(16) % 3
    model = models.lenet((16, 16, 1), 3)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, run_eagerly=True)
    losses = learning.losses(model, inputs, labels, 10)
    assert losses[-1] < 0.5 * losses[0]
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        keras.ops.convert_to_numpy(restored(inputs)), keras.ops.convert_to_numpy(model(inputs))
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_shape": (28, 28)}, "Received: input_shape="),
        ({"classes": 0}, "Received: classes=0"),
        ({"padding": "circular"}, "Received: padding='circular'"),
        ({"pooling": "min"}, "Received: pooling='min'"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        models.lenet(**{"input_shape": (28, 28, 1), "classes": 10, **options})
