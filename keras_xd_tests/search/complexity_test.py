"""The multiply–adds of a model."""

import keras
import numpy as np
import pytest

from keras_xd.layers import XDConv2D
from keras_xd.search.complexity import complexity
from keras_xd_tests.search.gated_dense import GatedDense


def test_sum_over_nested_layers():
    inner = keras.Sequential([keras.Input((6, 6, 2)), XDConv2D(3, 3)])
    flat = [keras.layers.Flatten(), GatedDense(5), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((6, 6, 2)), inner, *flat])
    expected = inner.layers[0].complexity((None, 6, 6, 2)) + 4 * 4 * 3 * 5
    np.testing.assert_allclose(float(complexity(model)), expected, rtol=1e-6)
    np.testing.assert_allclose(float(complexity(model)), expected, rtol=1e-6)


def test_no_searchable_layers_cost_nothing():
    assert complexity(keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])) == 0


def test_layers_without_one_input_shape_are_refused():
    class Pair(GatedDense):
        def build(self, first_shape, second_shape):
            super().build(first_shape)

        def call(self, first, second):
            return super().call(first + second)

    inputs = keras.Input((4,))
    model = keras.Model(inputs, Pair(2, name="pair")(inputs, inputs))
    with pytest.raises(ValueError, match="one input shape.*Received: layer 'pair'"):
        complexity(model)
