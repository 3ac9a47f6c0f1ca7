import keras
import pytest

from keras_xd.layers import shared_parts


def test_a_layer_comes_back_from_its_configuration():
    dense = keras.layers.Dense(3, name="part")
    config = shared_parts.serialized(dense)
    assert config["shared_object_id"] == id(dense)
    again = shared_parts.restored(config, keras.layers.Dense, "part")
    assert again is not dense and again.get_config() == dense.get_config()


def test_layers_and_none_stay_as_they_are():
    dense = keras.layers.Dense(3)
    assert shared_parts.restored(dense, keras.layers.Dense, "part") is dense
    assert shared_parts.restored(None, keras.layers.Dense, "part") is None
    assert shared_parts.serialized(None) is None


def test_something_else_is_refused():
    with pytest.raises(ValueError, match="`part` must be a Dense or None. Received: part='mlp'"):
        shared_parts.restored("mlp", keras.layers.Dense, "part")
