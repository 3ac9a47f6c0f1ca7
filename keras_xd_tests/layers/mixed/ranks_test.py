import keras
import numpy as np
import pytest

from keras_xd import layers
from keras_xd.layers.mixed.dash_conv import DashConv
from keras_xd.layers.mixed.mixed_operation import MixedOperation
from keras_xd_tests.layers.xd.drop_in_checks import assert_signature


@pytest.mark.parametrize(
    "any_rank, rank",
    [(DashConv, 1), (DashConv, 2), (DashConv, 3), (MixedOperation, 1), (MixedOperation, 2)],
)
def test_classes_of_a_rank_are_that_of_any_rank_with_the_arguments_of_keras(any_rank, rank, rng):
    layer_class = getattr(layers, f"{any_rank.__name__}{rank}D")
    assert_signature(getattr(keras.layers, f"Conv{rank}D"), layer_class, 4, 3)
    x = rng.standard_normal((2, *(8, 7, 6)[:rank], 3)).astype("float32")
    layer = layer_class(4, 3, padding="same", name="searched")
    general = any_rank(rank, 4, 3, padding="same")
    for each in (layer, general):
        each.build(x.shape)
    for weight, value in zip(layer.weights, general.weights, strict=True):
        weight.assign(value)
    np.testing.assert_allclose(layer(x), general(x), atol=1e-6)
    config = layer.get_config()
    assert "rank" not in config and general.get_config()["rank"] == layer.rank == rank
    assert layer_class.from_config(config).get_config() == config


def test_other_ranks_are_refused():
    with pytest.raises(ValueError, match="Received: rank=3"):
        MixedOperation(3, 1)
