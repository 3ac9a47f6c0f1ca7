"""`DashConv1D` to `DashConv3D` are `DashConv` of a rank, with the arguments of Keras' layers."""

import keras
import pytest

from keras_xd import layers
from keras_xd.core.argument_types import constructor_parameters


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_arguments_are_those_of_keras(rank):
    twin, of_keras = (
        getattr(module, f"{name}{rank}D")
        for module, name in ((layers, "DashConv"), (keras.layers, "Conv"))
    )
    arguments = dict.fromkeys(constructor_parameters(of_keras))
    own = list(constructor_parameters(twin))
    assert own[:-1] == [name for name in arguments if name != "kwargs"]
    layer = twin(2, 3, dilations=(1, 2), name="searched")
    config = layer.get_config()
    assert "rank" not in config and config["dilations"] == (1, 2)
    assert twin.from_config(config).get_config() == config
    assert layer.rank == rank
