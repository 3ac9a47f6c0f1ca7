"""PathFinder's curves: their ends, turns and distances, and bad arguments."""

import itertools

import numpy as np
import pytest

from keras_xd_tests import example_scripts

pathfinder = example_scripts.load("datasets.pathfinder")


@pytest.mark.parametrize("size, label", [(32, 0), (32, 1), (128, 1)])
def test_curves_are_apart_and_the_dots_at_their_ends(size, label):
    recipe = pathfinder.RECIPES[size]
    image, curves = pathfinder.draw(recipe, label, np.random.default_rng(0))
    assert image.shape == (size, size) and image.min() == 0 and image.max() == 1
    assert [len(curve) for curve in curves] == [14, 14] + [4] * recipe.short_curves
    for curve in curves:
        for before, after in itertools.pairwise(curve):
            turn = (after[2] - before[2] + 180) % 360 - 180
            assert recipe.continuity * abs(turn) < 90
            gap = np.linalg.norm(after[0] - before[1])
            assert gap <= 2 * max(recipe.margins) + 2 * np.sqrt(2)  # by rounding up, twice
    for one, other in itertools.combinations(curves, 2):
        ends = [np.array([end for dash in curve for end in dash[:2]]) for curve in (one, other)]
        assert np.linalg.norm(ends[0][:, None] - ends[1], axis=-1).min() > min(recipe.margins)
    marked = curves[0][0][0], curves[1 - label][-1][1]
    dots = np.zeros_like(image)
    for row, column in np.array(marked, int):
        dots[row, column] = 1
    assert np.all(image[dots == 1] >= 0.5) and dots.sum() == 2


def test_parts_have_both_classes_and_samples_of_their_own():
    train, validation, test = pathfinder.load((2, 1, 1))
    assert train[0].shape == (2, 1024) and train[0].dtype == "float32"
    assert train[0].min() == -1 and train[0].max() == 1
    np.testing.assert_array_equal(train[1], [0, 1])
    rows = np.concatenate([train[0], validation[0], test[0]])
    assert len(np.unique(rows, axis=0)) == 4
    np.testing.assert_array_equal(pathfinder.load((1, 1, 1))[0][0], train[0][:1])
