"""Kim's network: what it computes term by term, its search space, bad arguments."""

import numpy as np

from keras_xd import models


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
