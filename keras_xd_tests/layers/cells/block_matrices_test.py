import keras
import numpy as np
import pytest

from keras_xd.layers.cells.block_matrices import block_diagonal, side_by_side
from keras_xd.testing import assert_close


@pytest.mark.parametrize("edges", [1, 3])
def test_matrices_side_by_side(edges, rng):
    x = rng.standard_normal((5, 4)).astype("float32")
    matrices = rng.standard_normal((edges, 4, 2)).astype("float32")
    found = x @ keras.ops.convert_to_numpy(side_by_side(matrices))
    assert_close(found, np.concatenate([x @ matrix for matrix in matrices], axis=1), 1e-6)


@pytest.mark.parametrize("edges", [1, 3])
def test_every_edge_reads_its_own_features(edges, rng):
    x = rng.standard_normal((5, edges, 4)).astype("float32")
    matrices = rng.standard_normal((edges, 2, 4, 3)).astype("float32")
    expected = np.einsum("nei,emio->mneo", x, matrices).reshape(2, 5, -1)
    found = x.reshape(5, -1) @ keras.ops.convert_to_numpy(block_diagonal(matrices))
    assert_close(found, expected, 1e-6)
