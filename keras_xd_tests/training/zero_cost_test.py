import keras
import numpy as np
import pytest

from keras_xd.grammar import build, primitives, spaces
from keras_xd.training import naswot, synflow


def network(seed=0):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
            keras.layers.Dense(2),
        ]
    )


def test_synflow_is_the_sum_over_all_paths():
    model = network()
    first, second = model.layers[0].get_weights()[0], model.layers[3].get_weights()[0]
    scale = 1 / np.sqrt(1 + model.layers[1].epsilon)
    paths = np.abs(first).sum(0) @ np.abs(second).sum(1) * scale
    # Both kernels and the gains of the normalization each sum to all paths; shifts are zero.
    assert synflow(model) == pytest.approx(np.log(3 * paths), rel=1e-5)


def test_synflow_of_nothing_is_the_lowest():
    model = network()
    model.layers[3].set_weights([np.zeros((4, 2)), np.zeros(2)])
    assert synflow(model) == -np.inf


def test_naswot_counts_equal_units():
    model = network()
    x = np.array([[3.0, 0.1, 0.2], [-2.0, 1.0, 0.3], [0.4, -3.0, 1.0]], "float32")
    score = naswot(model, x)
    active = keras.Model(model.inputs[0], model.layers[2].output)(x, training=True).numpy() > 0
    kernel = [[(a == b).sum() for b in active] for a in active]
    determinant = np.linalg.det(np.array(kernel, float))
    assert determinant > 0.5 and score == pytest.approx(np.log(determinant), rel=1e-5)
    assert naswot(model, np.repeat(x[:1], 2, axis=0)) == -np.inf
    assert naswot(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]), x) == -np.inf


def test_scores_change_no_variable_and_take_networks_of_terms(rng):
    cell = spaces.nas_bench_201_cell().parse("(CELL Cell" + 6 * " (OPS conv3x3)" + ")")
    table = primitives.nas_bench_201()
    model = build(
        cell, keras.Input((4, 4, 1)), table, stem=primitives.stem(2), head=primitives.head(3)
    )
    before = model.get_weights()
    x = rng.normal(size=(4, 4, 4, 1)).astype("float32")
    scores = [synflow(model), naswot(model, x)]
    assert np.isfinite(scores).all()
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
