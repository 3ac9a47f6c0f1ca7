import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd_tests.layers.xd.drop_in_checks import assert_signature


@pytest.mark.parametrize("layer_class", [layers.MixedOperation1D, layers.MixedOperation2D])
def test_signature_is_that_of_keras(layer_class):
    twin = (keras.layers.Conv1D, keras.layers.Conv2D)[layer_class.rank - 1]
    assert_signature(twin, layer_class, 4, 3)


@pytest.mark.parametrize("rank", [1, 2])
def test_the_rank_is_that_of_the_class(rank, rng):
    x = rng.standard_normal((2, *(8, 7)[:rank], 3)).astype("float32")
    layer = (layers.MixedOperation1D, layers.MixedOperation2D)[rank - 1](4, 3, padding="same")
    general = layers.MixedOperation(rank, 4, 3, padding="same")
    for each in (layer, general):
        each.build(x.shape)
    for weight, value in zip(layer.weights, general.weights, strict=True):
        weight.assign(value)
    np.testing.assert_allclose(layer(x), general(x), atol=1e-6)
    assert "rank" not in layer.get_config() and general.get_config()["rank"] == rank
