"""Kim's network: what it computes term by term, its search space, bad arguments."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import models
from keras_xd_tests.models import learning


def test_parameters():
    model = models.kim_cnn(56, 20_000, 2)
    convolutions = sum((size * 300 + 1) * 100 for size in (3, 4, 5))
    assert model.count_params() == 20_000 * 300 + convolutions + 301 * 2
    vectors = np.asarray(model.get_layer("embedding").embeddings)
    assert -0.25 <= vectors.min() < -0.249 and 0.249 < vectors.max() <= 0.25
    assert model.get_layer("dropout").rate == 0.5


def test_computes_what_it_says(rng):
    model = models.kim_cnn(7, 11, 3, embedding=4, filters=2, kernel_sizes=(2, 5))
    for variable in model.variables:
        if "seed" not in variable.name:
            variable.assign(rng.normal(size=variable.shape))
    words = rng.integers(11, size=(3, 7))
    vectors = np.asarray(model.get_layer("embedding").embeddings)[words]
    maxima = []
    for size in (2, 5):
        kernel, bias = (np.asarray(w) for w in model.get_layer(f"conv{size}").weights)
        values = [
            np.einsum("bjc,jcf->bf", vectors[:, t : t + size], kernel) + bias
            for t in range(7 - size + 1)
        ]
        maxima.append(np.maximum(np.max(values, axis=0), 0))
    kernel, bias = (np.asarray(w) for w in model.get_layer("classifier").weights)
    expected = np.concatenate(maxima, axis=-1) @ kernel + bias
    np.testing.assert_allclose(model(words), expected, rtol=1e-4, atol=1e-4)


def test_static_vectors_are_not_trained():
    model = models.kim_cnn(6, 9, 2, embedding=3, filters=2, train_embeddings=False)
    assert [v.shape for v in model.non_trainable_variables if "seed" not in v.name] == [(9, 3)]
    assert len(model.trainable_variables) == 2 * 3 + 2
    trained = models.kim_cnn(6, 9, 2, embedding=3, filters=2)
    assert len(trained.trainable_variables) == 2 * 3 + 3


def test_the_search_space_starts_as_the_network(rng):
    model = models.kim_cnn(8, 9, 2, embedding=3, filters=2)
    space = keras_xd.rewrite(model, to="k_operation", depth=1)
    words = rng.integers(9, size=(4, 8))
    np.testing.assert_allclose(space(words), model(words), atol=1e-5)
    names = [x.name for x in space.layers if isinstance(x, keras_xd.layers.KOpConv1D)]
    assert names == ["conv3", "conv4", "conv5"]


def test_learns_and_reloads(tmp_path, rng):
    words = rng.integers(2, 9, size=(24, 6))
    labels = np.arange(24) % 2
    words[:, 2] = labels  # the words 0 and 1 decide
    model = models.kim_cnn(6, 9, 2, embedding=6, filters=4, kernel_sizes=(1, 3), dropout=0.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.1), loss, run_eagerly=True)
    losses = learning.losses(model, words, labels, 7)
    assert losses[-1] < 0.2 * losses[0]
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(restored(words), model(words))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "Received: length=0"),
        ({"length": 4}, r"Received: kernel_sizes=\(3, 4, 5\), length=4"),
        ({"vocabulary": 0}, "Received: vocabulary=0"),
        ({"classes": 0}, "Received: classes=0"),
        ({"embedding": 0}, "Received: embedding=0"),
        ({"filters": 0}, "Received: filters=0"),
        ({"kernel_sizes": ()}, r"Received: kernel_sizes=\(\)"),
        ({"kernel_sizes": (3, 3)}, r"Received: kernel_sizes=\(3, 3\)"),
        ({"kernel_sizes": 3}, "Received: kernel_sizes=3"),
        ({"dropout": 1}, "Received: dropout=1"),
        ({"train_embeddings": None}, "Received: train_embeddings=None"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        models.kim_cnn(**{"length": 9, "vocabulary": 9, "classes": 2, **options})
