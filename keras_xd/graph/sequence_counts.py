"""The multiply–adds of Keras' layers for sequences: products, attention and recurrent layers."""

import math

import keras

from keras_xd.core.searchable import sublayers

ATTENTION_OF_HEADS = (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention)
ATTENTION = (*ATTENTION_OF_HEADS, keras.layers.Attention)  # AdditiveAttention is one too
CELLS = (keras.layers.SimpleRNNCell, keras.layers.GRUCell, keras.layers.LSTMCell)


def is_sequence_layer(layer):
    """Return whether `sequence_multiply_adds` has a formula for a layer."""
    if isinstance(layer, keras.layers.Bidirectional):
        return all(is_sequence_layer(one) for one in _directions(layer))
    if isinstance(layer, keras.layers.RNN):
        return all(isinstance(cell, CELLS) for cell in _cells(layer))
    return isinstance(layer, (keras.layers.EinsumDense, *ATTENTION))


def sequence_multiply_adds(layer, shapes):
    """Return the multiply–adds of one sample through one of these layers."""
    if isinstance(layer, keras.layers.EinsumDense):
        return _einsum_dense(layer, shapes[0])
    if isinstance(layer, keras.layers.Bidirectional):
        return sum(sequence_multiply_adds(one, shapes) for one in _directions(layer))
    if isinstance(layer, keras.layers.RNN):
        return shapes[0][1] * sum(map(_per_step, _cells(layer)))
    if isinstance(layer, ATTENTION_OF_HEADS):
        return sum(products_of_heads(layer, shapes).values())
    query, value = shapes[0], shapes[min(1, len(shapes) - 1)]
    key = shapes[2] if len(shapes) > 2 else value
    return query[1] * value[1] * (key[-1] + value[-1])


def attention_shapes(args, kwargs):
    """Return the shapes `sequence_multiply_adds` takes, from the arguments of an attention
    layer.
    """
    return [tuple(tensor.shape) for tensor in attention_tensors(args, kwargs)]


def attention_tensors(args, kwargs):
    """Return query, value and, if it is given, key of the arguments of an attention layer."""
    if args and isinstance(args[0], (list, tuple)):
        args = args[0]
    named = {**dict(zip(("query", "value", "key"), args, strict=False)), **kwargs}
    tensors = [named.get(name) for name in ("query", "value", "key")]
    return [tensor for tensor in tensors if tensor is not None]


def _einsum_dense(layer, shape):
    inputs, rest = layer.equation.replace(" ", "").split(",")
    sizes = zip(rest.split("->")[0], layer.kernel.shape, strict=True)
    return math.prod(shape[1:]) * math.prod(size for index, size in sizes if index not in inputs)


def products_of_heads(layer, shapes):
    """Return the multiply–adds of each projection of attention, and by the layer those between."""
    query, value = shapes[0], shapes[min(1, len(shapes) - 1)]
    queries, keys = math.prod(query[1:-1]), math.prod(value[1:-1])
    found = {
        part: _per_vector(part) * (keys if part.name in ("key", "value") else queries)
        for part in sublayers(layer)
        if isinstance(part, keras.layers.EinsumDense) or hasattr(part, "vector_multiply_adds")
    }
    if isinstance(layer, keras.layers.GroupQueryAttention):
        return {**found, layer: queries * keys * layer.num_query_heads * 2 * layer.head_dim}
    if layer.attention_axes is not None:  # the others are kept apart, as the batch is
        keys = math.prod(value[axis] for axis in layer.attention_axes)
    return {**found, layer: queries * keys * layer.num_heads * (layer.key_dim + layer.value_dim)}


def _per_vector(projection):
    """Return the multiply–adds of a projection for one vector."""
    if hasattr(projection, "vector_multiply_adds"):  # not Keras' own
        return projection.vector_multiply_adds
    return math.prod(projection.kernel.shape)


def _per_step(cell):
    """Return the multiply–adds of a recurrent cell for one step."""
    if hasattr(cell, "vector_multiply_adds"):
        return cell.vector_multiply_adds
    return math.prod(cell.kernel.shape) + math.prod(cell.recurrent_kernel.shape)


def _cells(layer):
    return getattr(layer.cell, "cells", [layer.cell])


def _directions(layer):
    return layer.forward_layer, layer.backward_layer
