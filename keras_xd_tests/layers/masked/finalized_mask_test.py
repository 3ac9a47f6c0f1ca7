import keras
import numpy as np
import pytest

import keras_xd
from keras_xd import layers
from keras_xd.testing import assert_close


def searched(axis, input_shape, **kwargs):
    layer = layers.DifferentiableMask(axis, **kwargs)
    layer.build(input_shape)
    return layer


def test_a_finalized_mask_is_not_trained():
    static = searched(-1, (None, 9), shape="gaussian").finalize()
    assert len(static.weights) == 1 and not static.trainable_weights


@pytest.mark.parametrize("axis, kind", [(-1, "sigmoid"), ((1, -1), "gaussian")])
def test_outputs_are_those_of_the_search_in_a_file_too(axis, kind, rng, tmp_path):
    x = rng.normal(size=(2, 7, 6, 5)).astype("float32")
    layer = searched(axis, x.shape, shape=kind, initial_size=3)
    model = keras.Sequential([keras.Input(x.shape[1:]), layer.finalize()])
    assert_close(keras.ops.convert_to_numpy(model(x)), keras.ops.convert_to_numpy(layer(x)))
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(restored(x), model(x))
    assert keras_xd.complexity(restored) == 7 * 6 * 5


@pytest.mark.parametrize("axis", [0, (1, 1), (1, -2), 3])
def test_axes_that_are_none_are_refused(axis):
    with pytest.raises(ValueError, match="axes of its inputs other than the batch's. Received"):
        layers.StaticMask(axis).build((None, 4, 3))
