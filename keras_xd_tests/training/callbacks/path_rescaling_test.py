"""Shares of operations that were not drawn, after steps with and without the rescaling."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import layers
from keras_xd.training.callbacks import PathRescaling
from keras_xd.training.callbacks.path_rescaling import rescaled
from keras_xd_tests.layers.cells.cell_references import softmax


def search_of(relaxation="sampled", **options):
    weights = layers.ArchitectureLogits(
        operations=("channel_attention", "identity", "spatial_attention"),
        seed=1,
        relaxation=relaxation,
    )
    inputs = keras.Input((4, 4, 3))
    x = keras.layers.GlobalAveragePooling2D()(layers.HeterogeneousCell(2, weights)([inputs] * 2))
    search = keras_xd.SearchModel(keras.Model(inputs, x))
    search.compile(
        keras.optimizers.SGD(0.1),
        keras.optimizers.Adam(0.1, beta_1=0.0),
        "mse",
        mode="joint",
        **options,
    )
    return search, weights


def test_shares_of_others_stay_and_the_drawn_ones_move_against_each_other(rng):
    before = rng.standard_normal((5, 4))
    after = before.copy()
    after[0, [1, 3]] += 0.5, -0.2
    after[1, [0, 2]] += 30.0, -30.0
    after[2, 0] += 1.0
    after[3] += 1.0
    found = rescaled(before, after)
    old, new = softmax(before, -1), softmax(found, -1)
    np.testing.assert_allclose(new[0, [0, 2]], old[0, [0, 2]])
    np.testing.assert_allclose(new[1, [1, 3]], old[1, [1, 3]])
    # The rule leaves the difference of the two logits, and so the ratio of the two shares.
    np.testing.assert_allclose(found[0, 1] - found[0, 3], after[0, 1] - after[0, 3])
    assert abs(new[0, 1] - old[0, 1]) > 0.01
    # One alone, whose share would be kept, all of them, and none.
    np.testing.assert_allclose(found[2], before[2])
    np.testing.assert_array_equal(found[3:], after[3:])


@pytest.mark.parametrize("callbacks", [[], [PathRescaling()]])
def test_a_step_of_a_search(callbacks, rng):
    search, weights = search_of(run_eagerly=True)
    old = softmax(keras.ops.convert_to_numpy(weights.logits), -1)
    data = rng.standard_normal((4, 4, 4, 3)), rng.standard_normal((4, 8))
    search.fit(*data, batch_size=4, callbacks=callbacks, verbose=0)
    moved = np.abs(softmax(keras.ops.convert_to_numpy(weights.logits), -1) - old) > 1e-6
    # Two are drawn on each edge; without the rescaling the third share moves with them.
    most = 2 if callbacks else 3
    assert moved.sum(axis=1).max() == most and moved.sum() > 18


def test_what_cannot_be_rescaled_is_refused():
    x, y = np.ones((2, 4, 4, 3)), np.ones((2, 8))
    with pytest.raises(ValueError, match="relaxation 'sampled'"):
        search_of("softmax")[0].fit(x, y, callbacks=[PathRescaling()], verbose=0)
    with pytest.raises(ValueError, match="steps_per_execution=2"):
        search_of(steps_per_execution=2)[0].fit(x, y, callbacks=[PathRescaling()], verbose=0)
