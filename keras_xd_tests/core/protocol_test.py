"""Searchable layers refuse what only a built layer has."""

import keras
import pytest

import keras_xd
from keras_xd.core import protocol
from keras_xd.core.searchable import SearchableLayer, model_variables


class Gate(SearchableLayer):
    """A user's layer, which checks nothing itself and has the defaults of the base class."""

    def build(self, input_shape):
        self.gate = self.add_weight(shape=input_shape[-1:], name="gate")

    @property
    def architecture_variables(self):
        """The gate."""
        return [self.gate]

    def complexity(self, input_shape):
        return input_shape[-1]

    def finalize(self):
        return keras.layers.Identity()

    def describe(self):
        return {}


@pytest.mark.parametrize("name", protocol.NAMES)
def test_unbuilt_layers_are_refused_by_name(name):
    layer = Gate(name="doors")
    arguments = [None] * (name in ("complexity", "random_architecture"))
    with pytest.raises(ValueError, match=f"built before its `{name}` is.*Received: layer 'doors'"):
        getattr(layer, name)(*arguments)
    layer.build((None, 3))
    assert layer.architecture_variables == [layer.gate] and layer.complexity((None, 3)) == 3
    assert layer.describe() == {} and type(layer.finalize()) is keras.layers.Identity
    assert layer.architecture_signature() == {"class": "Gate"}
    assert Gate.architecture_variables.__doc__ == "The gate."


@pytest.mark.parametrize(
    "function",
    [keras_xd.architecture_variables, model_variables, keras_xd.describe],
)
@pytest.mark.parametrize("layer_class", [Gate, keras_xd.layers.XDConv2D, keras_xd.layers.KOpConv2D])
def test_functions_of_a_model_refuse_unbuilt_layers(function, layer_class):
    arguments = () if layer_class is Gate else (4, 3)
    model = keras.Sequential([layer_class(*arguments, name="doors")])
    with pytest.raises(ValueError, match="must be built.*Received: layer 'doors'"):
        function(model)
