"""Multiply–adds: each formula against a loop, and each call of a layer counted."""

import itertools

import keras
import numpy as np
import pytest
from keras import layers, ops

from keras_xd.layers import complexity as complexity_module
from keras_xd.layers.complexity import complexity, model_calls
from keras_xd.layers.xd_convolutions import XDConv2D
from keras_xd.search import SearchModel
from keras_xd_tests import sample_models
from keras_xd_tests.search.gated_dense import GatedDense


def uses_of_weights(layer, shape):
    """Count multiply–adds by the outputs' sum with all weights and inputs one: each adds one."""
    layer.build(shape)
    for weight in layer.weights:
        weight.assign(ops.zeros_like(weight) if weight.name == "bias" else ops.ones_like(weight))
    return float(np.sum(layer(np.ones((1, *shape[1:]), "float32"))))


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (layers.Conv1D(4, 3, 2), (None, 9, 2)),
        (layers.Conv2D(6, (2, 3), groups=2), (None, 7, 6, 4)),
        (layers.Conv3D(2, 2, dilation_rate=2), (None, 5, 4, 6, 3)),
        (layers.Conv1DTranspose(3, 3, 2), (None, 5, 2)),
        (layers.Conv2DTranspose(3, (2, 3), 2), (None, 4, 5, 2)),
        (layers.Conv3DTranspose(2, 2), (None, 2, 3, 4, 2)),
        (layers.DepthwiseConv1D(3, depth_multiplier=2), (None, 8, 3)),
        (layers.DepthwiseConv2D(3, 2), (None, 8, 9, 3)),
        (layers.Dense(4), (None, 3)),
        (layers.Dense(4), (None, 5, 6, 3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_formulas_count_every_product(layer, shape):
    assert complexity_module.multiply_adds(layer, shape) == uses_of_weights(layer, shape)


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (layers.SeparableConv1D(5, 3, depth_multiplier=2), (None, 8, 3), 6 * (3 * 6 + 6 * 5)),
        (layers.SeparableConv2D(5, 3), (None, 8, 7, 4), 30 * (9 * 4 + 4 * 5)),
        (layers.Conv2D(2, 3, data_format="channels_first"), (None, 3, 8, 7), 30 * 9 * 3 * 2),
        (layers.Conv2D(2, 3), (None, None, 7, 3), None),
        (layers.BatchNormalization(), (None, 7, 3), None),
    ],
)
def test_formulas(layer, shape, expected):
    assert complexity_module.multiply_adds(layer, shape) == expected


def test_searchable_layers_count_themselves():
    layer = XDConv2D(3, 3, padding="same")
    model = keras.Sequential([keras.Input((8, 8, 2)), layer, layers.Flatten(), layers.Dense(5)])
    assert complexity(model) == layer.complexity((None, 8, 8, 2)) + 192 * 5
    assert complexity(layer) == layer.complexity((None, 8, 8, 2))
    assert complexity(SearchModel(model)) == complexity(model)


def test_every_call_counts():
    assert complexity(sample_models.shared()) == 2 * (5 * 4 * 3 * 2 * 3)
    assert complexity(sample_models.nested()) == 3 * (36 * 9 * 2 * 2)
    paths = [path for path, *_ in model_calls(sample_models.nested())]
    assert sorted(paths) == ["block/stack/conv", "block/stack/conv", "conv"]


def test_calls_at_several_sizes():
    convolution = layers.Conv2D(1, 3)
    inside = keras.Input((None, None, 1))
    block = keras.Model(inside, convolution(inside))
    inputs = keras.Input((9, 9, 1))
    model = keras.Model(inputs, block(block(inputs)))
    assert complexity(model) == (49 + 25) * 9
    assert [shape for *_, shape, _ in model_calls(model)] == [(None, 9, 9, 1), (None, 7, 7, 1)]


def test_time_distributed_counts_every_step():
    inner = keras.Sequential([keras.Input((6, 6, 1)), layers.Conv2D(2, 3), layers.Flatten()])
    inputs = keras.Input((5, 6, 6, 1))
    for layer in (inner, layers.Conv2D(2, 3)):
        model = keras.Model(inputs, layers.TimeDistributed(layer)(inputs))
        assert complexity(model) == 5 * 16 * 9 * 2


def test_subclassed_models_count_each_layer_once():
    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.blocks = [GatedDense(3), layers.Dense(2)]

        def call(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    model = Subclassed()
    model(np.ones((2, 4)))
    assert float(complexity(model)) == 4 * 3 + 3 * 2


def test_derivative_by_architecture():
    import tensorflow as tf

    inputs = keras.Input((4,))
    layer = GatedDense(4)
    model = keras.Model(inputs, layers.Dense(3)(layer(layer(inputs))))

    @tf.function
    def gradient():
        with tf.GradientTape() as tape:
            value = complexity(model)
        return value, tape.gradient(value, layer.gates.value)

    value, slope = gradient()
    assert float(value) == 2 * 16 + 12
    np.testing.assert_allclose(slope, [2 * 2 * 4.0] * 4)


def test_result_follows_a_changed_model():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3)])
    assert complexity(model) == 12
    model.add(layers.Dense(5))
    assert complexity(model) == 27
    model.pop()
    assert complexity(model) == 12


def test_unknown_sizes_are_refused():
    inputs = keras.Input((None, 8, 1))
    model = keras.Model(inputs, layers.Conv2D(2, 3, name="open")(inputs))
    with pytest.raises(ValueError, match=r"layer 'open' called with shape \(None, None, 8, 1\)"):
        complexity(model)


def test_counting_keeps_no_model_alive():
    import gc
    import weakref

    references = []
    for _ in range(2):
        model = sample_models.nested()
        complexity(model)
        references.append(weakref.ref(model))
        del model
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_sizes_in_all_combinations():
    for size, kernel, stride in itertools.product((5, 8), (1, 3), (1, 2)):
        layer = layers.Conv1D(2, kernel, stride, padding="same")
        expected = -(-size // stride) * kernel * 3 * 2
        assert complexity_module.multiply_adds(layer, (None, size, 3)) == expected
