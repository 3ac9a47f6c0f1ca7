"""Residual branches under a mask of the depth."""

import keras
import numpy as np
import pytest

import keras_xd
from keras_xd.layers import MaskedBranch
from keras_xd.layers.masked.relative_mask import RelativeMask


def residual(mask, blocks):
    inputs = x = keras.Input((3,))
    for number in range(blocks):
        branch = keras.layers.Dense(3, name=f"dense{number}")(x)
        branch = MaskedBranch(mask, (number, blocks), name=f"branch{number}")(branch)
        x = keras.layers.Add()([x, branch])
    return keras.Model(inputs, x)


def test_one_mask_for_all_blocks(tmp_path):
    model = residual(RelativeMask(temperature=8.0), 3)
    (offset,) = keras_xd.architecture_variables(model)
    offset.assign([-0.1])
    values = [float(model.get_layer(f"branch{n}").value) for n in range(3)]
    start = 1 + np.log(0.85 / 0.15) / 8
    raw = [1 / (1 + np.exp(8 * (x + 0.1))) for x in (-1, 0, 1)]
    first = [1 / (1 + np.exp(8 * (x - start))) for x in (-1, 0, 1)]
    np.testing.assert_allclose(values, [raw[0] / first[0], raw[1] / first[1], 0], rtol=1e-5)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert len(keras_xd.architecture_variables(again)) == 1
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(again(x), model(x))
    described = keras_xd.describe(again)["branch1"]
    np.testing.assert_allclose(described["value"], values[1], rtol=1e-6)
    np.testing.assert_allclose(described["gate"], 3 * (-0.1 + np.log(9) / 8 + 1) / 2 - 1, rtol=1e-5)


def test_alone_it_becomes_a_rescaling():
    mask = RelativeMask(temperature=8.0)
    layer = MaskedBranch(mask, (1, 3), name="branch")
    layer.build((None, 2))
    mask.length.assign([0.1])
    plain = layer.finalize()
    x = np.ones((1, 2), "float32")
    np.testing.assert_array_equal(plain(x), layer(x))
    assert type(plain) is keras.layers.Rescaling and layer.complexity((1, 2)) == 0


@pytest.mark.parametrize("block", [None, 1, (3, 3), (-1, 3), (0, 1.5), (0, 1, 2)])
def test_bad_block(block):
    with pytest.raises(ValueError, match="`block` must be the number of a block"):
        MaskedBranch(RelativeMask(), block)


def test_bad_masks():
    with pytest.raises(ValueError, match="`depth_mask` must be a RelativeMask or None"):
        MaskedBranch(keras_xd.layers.DifferentiableMask(), (0, 2))
    with pytest.raises(ValueError, match="must have a mask and a block"):
        MaskedBranch(None, None)
    mask = RelativeMask(temperature=8.0)
    MaskedBranch(mask, (0, 2)).build((None, 1))
    with pytest.raises(ValueError, match="of 2 points for an axis of 3"):
        MaskedBranch(mask, (0, 3)).build((None, 1))
