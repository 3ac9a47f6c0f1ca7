"""Multiply–adds of Keras' layers for sequences, against products spelled out one by one."""

import keras
import numpy as np
import pytest
from keras import layers

from keras_xd.graph.cost import complexity
from keras_xd.graph.sequence_counts import is_sequence_layer, sequence_multiply_adds


@pytest.mark.parametrize(
    ("equation", "output_shape", "shape"),
    [
        ("ab,bc->ac", 5, (None, 4)),
        ("abc,cde->abde", (None, 3, 2), (None, 6, 4)),
        ("abcd,cde->abe", (None, 7), (None, 6, 3, 2)),
        ("...x,xy->...y", 5, (None, 2, 3, 4)),
        ("abc,bcd->abd", (6, 7), (None, 6, 4)),
    ],
)
def test_einsum_counts_every_product(equation, output_shape, shape):
    layer = layers.EinsumDense(equation, output_shape)
    layer.build(shape)
    layer.kernel.assign(np.ones(layer.kernel.shape))
    # With ones each product adds one to the sum of the outputs.
    expected = float(np.sum(np.asarray(layer(np.ones((1, *shape[1:]), "float32")))))
    assert is_sequence_layer(layer)
    assert sequence_multiply_adds(layer, [shape]) == expected


def test_attention_counts_projections_scores_and_sums():
    layer = layers.MultiHeadAttention(num_heads=2, key_dim=3, value_dim=5, output_shape=7)
    query, value, key = (None, 4, 6), (None, 9, 8), (None, 9, 10)
    layer.build(query, value, key)
    projections = 4 * 6 * 2 * 3 + 9 * 10 * 2 * 3 + 9 * 8 * 2 * 5 + 4 * 2 * 5 * 7
    expected = projections + 2 * 4 * 9 * 3 + 2 * 4 * 9 * 5
    assert sequence_multiply_adds(layer, [query, value, key]) == expected
    assert complexity(layer) == expected

    inputs = [keras.Input(shape[1:]) for shape in (query, value, key)]
    for outputs in (layer(*inputs), layer(inputs[0], key=inputs[2], value=inputs[1])):
        assert complexity(keras.Model(inputs, outputs)) == expected


def test_attention_of_grouped_queries():
    layer = layers.GroupQueryAttention(head_dim=3, num_query_heads=4, num_key_value_heads=2)
    query, value = keras.Input((5, 6)), keras.Input((8, 6))
    model = keras.Model([query, value], layer(query, value))
    projections = 5 * 6 * 4 * 3 + 2 * (8 * 6 * 2 * 3) + 5 * 4 * 3 * 6
    assert complexity(model) == projections + 2 * (4 * 5 * 8 * 3)


@pytest.mark.parametrize("kind", [layers.Attention, layers.AdditiveAttention])
def test_attention_without_projections(kind):
    query, value, key = keras.Input((4, 6)), keras.Input((9, 5)), keras.Input((9, 6))
    model = keras.Model([query, value, key], kind()([query, value, key]))
    assert complexity(model) == 4 * 9 * 6 + 4 * 9 * 5


@pytest.mark.parametrize(("kind", "gates"), [("SimpleRNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_layers_count_every_step(kind, gates):
    layer = getattr(layers, kind)
    step = gates * (3 * 5 + 5 * 5)
    inputs = keras.Input((7, 3))
    assert complexity(keras.Model(inputs, layer(5)(inputs))) == 7 * step
    both = layers.Bidirectional(layer(5, return_sequences=True))
    assert complexity(keras.Model(inputs, both(inputs))) == 2 * 7 * step
    cell = getattr(layers, f"{kind}Cell")
    stacked = layers.RNN([cell(5), cell(2)])
    expected = 7 * (step + gates * (5 * 2 + 2 * 2))
    assert complexity(keras.Model(inputs, stacked(inputs))) == expected
