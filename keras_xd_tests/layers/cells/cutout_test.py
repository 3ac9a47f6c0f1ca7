"""Cutout: which pixels are zero, in training only, for both data formats."""

import keras
import numpy as np
import pytest

from keras_xd.layers import Cutout
from keras_xd.testing import check_layer


def squares(outputs):
    """Return the rows and columns of the zeros of each image, which must fill a rectangle."""
    found = []
    for image in outputs:
        assert all(np.array_equal(image[..., 0], image[..., c]) for c in range(image.shape[-1]))
        rows, columns = np.nonzero(image[..., 0] == 0)
        rows, columns = sorted(set(rows)), sorted(set(columns))
        assert (image[np.ix_(rows, columns)] == 0).all()
        assert (image == 0).sum() == len(rows) * len(columns) * image.shape[-1]
        found.append((tuple(map(int, rows)), tuple(map(int, columns))))
    return found


def allowed(length, size):
    """Return the places that a square of a length covers, for each middle."""
    return [tuple(p for p in range(size) if 0 <= p - c + length // 2 < length) for c in range(size)]


def test_general_checks():
    check_layer(Cutout, {"length": 2, "data_format": "channels_last", "seed": 3}, (3, 6, 5, 2))


@pytest.mark.parametrize("length", [3, 4, 30])
def test_every_middle_is_as_likely(length):
    number, sizes = 1500, (5, 6)
    layer = Cutout(length, seed=2)
    outputs = np.array(layer(np.full((number, *sizes, 2), 7.0, "float32"), training=True))
    found = squares(outputs)
    for axis, size in enumerate(sizes):
        middles = allowed(length, size)
        for covered in set(middles):
            share = sum(square[axis] == covered for square in found) / number
            expected = middles.count(covered) / size
            assert abs(share - expected) < 5 * np.sqrt(expected / number)
    if length == 30:  # covers all
        assert not outputs.any()
    else:
        # Rows and columns are independent: every pair occurs.
        assert len(set(found)) == len(set(allowed(length, 5))) * len(set(allowed(length, 6)))
        assert set(np.unique(outputs)) == {0.0, 7.0}


def test_inference_and_data_format(rng):
    x = rng.normal(size=(3, 6, 5, 2)).astype("float32")
    np.testing.assert_array_equal(Cutout(4)(x), x)
    np.testing.assert_array_equal(Cutout(4)(x, training=False), x)
    last = Cutout(3, "channels_last", seed=5)(x, training=True)
    first = Cutout(3, "channels_first", seed=5)(x.transpose(0, 3, 1, 2), training=True)
    np.testing.assert_array_equal(np.transpose(first, (0, 2, 3, 1)), last)


def test_a_hole_hides_what_is_not_finite():
    x = np.full((2, 4, 4, 1), np.nan, "float32")
    assert np.array_equal(Cutout(30)(x, training=True), np.zeros_like(x))


def test_unknown_sizes_and_seeds():
    layer = Cutout(2, seed=1)
    model = keras.Sequential([keras.Input((None, None, 1)), layer])
    assert model.output_shape == (None, None, None, 1)
    a = [np.array(model(np.ones((2, 6, 6, 1)), training=True)) for _ in range(2)]
    again = Cutout(2, seed=1)
    b = [np.array(again(np.ones((2, 6, 6, 1)), training=True)) for _ in range(2)]
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a[0], a[1])


@pytest.mark.parametrize("arguments", [{"length": 0}, {"length": 2.5}, {"data_format": "last"}])
def test_bad_arguments(arguments):
    with pytest.raises(ValueError, match="Received"):
        Cutout(**arguments)
    with pytest.raises(ValueError, match="expected ndim=4"):
        Cutout(2)(np.ones((2, 3)))
