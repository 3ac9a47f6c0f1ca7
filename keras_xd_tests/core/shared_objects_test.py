import keras
import pytest

from keras_xd.core import shared_objects


def test_a_layer_comes_back_from_its_configuration():
    dense = keras.layers.Dense(3, name="part")
    config = shared_objects.serialized(dense)
    assert config["shared_object_id"] == id(dense)
    again = shared_objects.restored(config, keras.layers.Dense, "part")
    assert again is not dense and again.get_config() == dense.get_config()


def test_layers_and_none_stay_as_they_are():
    dense = keras.layers.Dense(3)
    assert shared_objects.restored(dense, keras.layers.Dense, "part") is dense
    assert shared_objects.restored(None, keras.layers.Dense, "part") is None
    assert shared_objects.serialized(None) is None


def test_something_else_is_refused():
    with pytest.raises(ValueError, match="`part` must be a Dense or None. Received: part='mlp'"):
        shared_objects.restored("mlp", keras.layers.Dense, "part")
