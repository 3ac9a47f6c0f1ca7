import keras
import numpy as np
import pytest

from keras_xd.core import splitting


@pytest.mark.parametrize("sizes", [(3,), (1, 2), (2, 2), (1, 0, 2, 3)])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_parts_are_those_of_numpy(sizes, axis, rng):
    shape = [2, 3, 4]
    shape[axis] = sum(sizes)
    x = rng.normal(size=shape).astype("float32")
    found = splitting.split(keras.ops.convert_to_tensor(x), sizes, axis)
    expected = np.split(x, np.cumsum(sizes)[:-1], axis)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(one), other)
        assert keras.backend.standardize_dtype(one.dtype) == "float32"
