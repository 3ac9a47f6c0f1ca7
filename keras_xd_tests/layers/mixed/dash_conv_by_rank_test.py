"""`DashConv1D` to `DashConv3D` are `DashConv` of a rank, with the arguments of Keras' layers."""

import keras
import pytest

from keras_xd import layers
from keras_xd_tests.layers.xd.drop_in_checks import assert_signature


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_arguments_are_those_of_keras(rank):
    twin, of_keras = (
        getattr(module, f"{name}{rank}D")
        for module, name in ((layers, "DashConv"), (keras.layers, "Conv"))
    )
    assert_signature(of_keras, twin, 2, 3)
    layer = twin(2, 3, dilations=(1, 2), name="searched")
    config = layer.get_config()
    assert "rank" not in config and config["dilations"] == (1, 2)
    assert twin.from_config(config).get_config() == config
    assert layer.rank == rank
