"""The multiply–adds of a model."""

import keras
import numpy as np
import pytest

from keras_xd.layers import XDConv2D
from keras_xd.search.complexity import complexity
from keras_xd_tests.search.gated_dense import GatedDense


def test_shared_and_nested_layers_count_for_every_use():
    size = (6, 6, 2)
    shared = XDConv2D(2, 3, padding="same", name="shared")
    inner = keras.Sequential([keras.Input(size), XDConv2D(2, 3), keras.layers.ZeroPadding2D()])
    graph_input = keras.Input(size)
    graph = keras.Model(graph_input, shared(graph_input) + graph_input)
    inputs = {"image": keras.Input(size, name="image")}
    x = inner(shared(inputs=inputs["image"]))
    x = graph(graph(inner(x) + 1.0))
    model = keras.Model(inputs, GatedDense(2)(keras.layers.Flatten()(x)))
    cost = {layer: layer.complexity((None, *size)) for layer in (shared, inner.layers[0])}
    expected = 3 * cost[shared] + 2 * cost[inner.layers[0]] + 72 * 2
    np.testing.assert_allclose(float(complexity(model)), expected, rtol=1e-6)
    wrapped = keras.Sequential([keras.Input(size), inner, keras.layers.Flatten()])
    assert complexity(wrapped) == cost[inner.layers[0]] > 0


def test_a_layer_counts_with_the_shape_it_has_in_each_place():
    class PerElement(GatedDense):
        def build(self, input_shape):
            super().build((1,))

        def complexity(self, input_shape):
            return np.prod(input_shape[1:])

    inputs = keras.Input((4, 1))
    shared = PerElement(1)
    first = shared(inputs)
    second = shared(keras.layers.ZeroPadding1D(3)(first))
    assert complexity(keras.Model(inputs, second)) == 4 + 10


@keras.saving.register_keras_serializable(package="keras_xd_tests")
class OwnConstructor(keras.Model):
    """A Functional model whose configuration does not hold its graph."""

    def __init__(self, units):
        inputs = keras.Input((4,))
        super().__init__(inputs, GatedDense(units)(GatedDense(3)(inputs)))
        self.units = units

    def get_config(self):
        return {"units": self.units}


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.parts = {"one": GatedDense(3), "two": keras.layers.TimeDistributed(GatedDense(2))}

    def call(self, inputs):
        return self.parts["two"](self.parts["one"](inputs))


def test_models_without_a_graph_count_each_layer_once():
    assert float(complexity(OwnConstructor(2))) == 4 * 3 + 3 * 2
    model = Subclassed()
    model(np.zeros((1, 5, 4), "float32"))
    assert float(complexity(model)) == 4 * 3 + 3 * 2


def test_no_searchable_layers_cost_nothing():
    assert complexity(keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])) == 0


def test_layers_without_one_input_shape_are_refused():
    class Pair(GatedDense):
        def build(self, first_shape, second_shape):
            super().build(first_shape)

        def call(self, first, second):
            return super().call(first + second)

    pair = Pair(2, name="pair")
    pair(np.zeros((1, 4), "float32"), np.zeros((1, 4), "float32"))
    with pytest.raises(ValueError, match="one input shape.*Received: layer 'pair'"):
        complexity(pair)
